#include "partitioner/cut/partition.h"

#include <algorithm>
#include <limits>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/units.h"
#include "partitioner/cut/bottleneck.h"
#include "partitioner/cut/exact.h"
#include "partitioner/cut/flow_partition.h"
#include "partitioner/cut/lower_bound.h"
#include "partitioner/cut/order_dp.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxBisectedUnits = 20'000;  // beyond, refinement of the order DP alone keeps to the time budget
constexpr int kFewDownSets = 2'000;        // so few that trying them all is quicker than flow
constexpr std::size_t kGrowthOrders = 8;   // along which flow grows
constexpr std::size_t kPolished = 4;       // plans refined along all of them
constexpr double kWidening = 1.05;         // step by which the balance window gives way

struct Candidate {
  std::vector<int> part_of;  // by unit
  std::int64_t bytes = 0;
  double seconds = 0;  // kTime
  const char* method = "";
  bool optimal = false;
};

// One graph to cut, and the members of the portfolio over it.
class Portfolio {
 public:
  Portfolio(const UnitGraph& graph, const CutOptions& options)
      : graph_(graph), objective_(options.objective), down_sets_(graph), orders_(TopologicalOrders(graph)) {
    for (const PartWorker& worker : options.workers) {
      speeds_.flops.push_back(worker.flops);
      speeds_.bandwidth.push_back(worker.bandwidth);
      const std::size_t part = speeds_.waiting.size();
      const int boundaries = (part > 0) + (part + 1 < options.workers.size());
      speeds_.waiting.push_back((options.measure.pass == Pass::kTraining ? 2 : 1) * boundaries * worker.latency);
    }
  }

  // The cheapest plan within the limits, ties to the earlier member. Where no order has a plan, flow is tried only as a last
  // resort: widening the limit a little is cheaper.
  std::optional<Candidate> Best(const Limits& limits, bool last_resort) {
    best_.reset();
    if (limits.num_parts == 1) {
      Load load;
      for (const auto& unit : graph_.units) load.Add(unit);
      if (limits.Fits(load, 0)) Offer(std::vector<int>(graph_.size(), 0), "order-dp");
      if (best_) best_->optimal = true;
      return best_;
    }
    objective_ == CutObjective::kTime ? ForTime(limits) : ForBytes(limits, last_resort);
    return best_;
  }

 private:
  using Seed = std::pair<std::int64_t, std::vector<int>>;  // bytes, part by unit: where flow starts from

  void Offer(std::vector<int> part_of, const char* method) {
    Candidate offered{std::move(part_of), 0, 0, method};
    offered.bytes = UnitCutBytes(graph_, offered.part_of, ByteObjective());
    if (objective_ == CutObjective::kTime) offered.seconds = BottleneckSeconds(graph_, offered.part_of, speeds_);
    if (!best_ || std::pair(offered.seconds, offered.bytes) < std::pair(best_->seconds, best_->bytes)) best_ = std::move(offered);
  }
  CutObjective ByteObjective() const { return objective_ == CutObjective::kTime ? CutObjective::kHops : objective_; }

  void ForBytes(const Limits& limits, bool last_resort) {
    std::vector<Seed> by_order;
    for (const auto& order : orders_) {
      if (auto parts = CutOrder(graph_, order, limits, objective_)) {
        by_order.emplace_back(UnitCutBytes(graph_, *parts, objective_), *parts);
        Offer(std::move(*parts), "order-dp");
      }
    }
    const bool few = down_sets_.complete() && down_sets_.size() <= kFewDownSets;
    if (few && Exactly(limits)) return;
    if (!best_ && !last_resort) return;
    Flow(limits, objective_, std::move(by_order));
    if (down_sets_.complete() && !few) Exactly(limits);
  }

  // Flow from two sides: refining what the orders gave, and bisection; grown along several orders, since each finds other cuts.
  // The best few of all are refined along every order in turn: growth along another order crosses other frontiers.
  void Flow(const Limits& limits, CutObjective objective, std::vector<Seed> seeds) {
    const int n = graph_.size();
    const bool small = n <= kMaxBisectedUnits / 10;
    auto by_cost = [](const auto& a, const auto& b) { return a.first < b.first; };
    auto refine = [&](std::size_t order, std::vector<int> parts) {
      RefineByFlow(graph_, orders_[order], limits, objective, &parts);
      const std::int64_t bytes = UnitCutBytes(graph_, parts, objective);
      seeds.emplace_back(bytes, parts);
      Offer(std::move(parts), "flow");
    };
    std::stable_sort(seeds.begin(), seeds.end(), by_cost);
    const std::size_t refined = std::min(seeds.size(), small ? std::size_t{3} : std::size_t{1});
    for (std::size_t i = 0; i < refined; ++i) refine(0, seeds[i].second);
    if (n > kMaxBisectedUnits && best_) return;
    const std::size_t growth = std::min(orders_.size(), small ? kGrowthOrders : std::size_t{1});
    for (std::size_t i = 0; i < growth; ++i) {
      for (Splits splits : {Splits::kHalves, Splits::kFirst, Splits::kLast}) {
        if (splits != Splits::kHalves && (limits.num_parts <= 2 || !small)) continue;
        if (auto parts = BisectByFlow(graph_, orders_[i], limits, objective, splits)) refine(i, std::move(*parts));
      }
    }
    if (!small) return;
    std::stable_sort(seeds.begin(), seeds.end(), by_cost);
    seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
    seeds.resize(std::min(seeds.size(), kPolished));
    for (auto& [bytes, parts] : seeds) {
      bool gained = false;
      for (std::size_t i = 0, since = 0; since < growth; i = (i + 1) % growth, ++since) {
        if (!RefineByFlow(graph_, orders_[i], limits, objective, &parts)) continue;
        gained = true;
        since = 0;
      }
      if (gained) Offer(std::move(parts), "flow");
    }
  }

  // True where the search was complete: the best plan (if there is one) is optimal then.
  bool Exactly(const Limits& limits) {
    const std::int64_t bound = best_ ? best_->bytes : std::numeric_limits<std::int64_t>::max();
    DownSets::Answer answer = down_sets_.CutBelow(bound, limits, objective_);
    if (answer.part_of) Offer(std::move(*answer.part_of), "exact");
    if (answer.proven && best_) best_->optimal = true;
    return answer.proven;
  }

  void ForTime(const Limits& limits) {
    for (const auto& order : orders_) {
      if (auto parts = CutOrderForTime(graph_, order, limits, speeds_)) Offer(std::move(*parts), "order-dp");
    }
    if (graph_.size() <= kMaxBisectedUnits / 10) {
      // Plans of few bytes at several windows.
      for (double slack : {0.02, 0.1, 0.3, 0.8}) {
        Limits window = limits;
        double flops = 0;
        for (double f : speeds_.flops) flops += f;
        for (int part = 0; part < limits.num_parts; ++part) {
          window.max_work[part] = std::max(graph_.max_work, static_cast<std::int64_t>(static_cast<double>(graph_.total_work) *
                                                                                      (1 + slack) * speeds_.flops[part] / flops));
        }
        std::vector<Seed> seeds;
        if (auto parts = CutOrder(graph_, orders_[0], window, CutObjective::kHops)) seeds.emplace_back(0, std::move(*parts));
        Flow(window, CutObjective::kHops, std::move(seeds));
      }
    }
    if (!down_sets_.complete()) return;
    const double bound = best_ ? best_->seconds : std::numeric_limits<double>::infinity();
    DownSets::Answer answer = down_sets_.CutBelow(bound, limits, speeds_);
    if (answer.part_of) Offer(std::move(*answer.part_of), "exact");
    if (answer.proven && best_) best_->optimal = true;
  }

  const UnitGraph& graph_;
  CutObjective objective_;
  DownSets down_sets_;
  std::vector<std::vector<int>> orders_;
  PartSpeeds speeds_;
  std::optional<Candidate> best_;
};

// Why no part can hold some unit, or "".
std::string TooLarge(const OperatorGraph& graph, const UnitGraph& units, const Limits& limits) {
  std::int64_t largest = 0;
  for (int part = 0; part < limits.num_parts; ++part) {
    if (limits.MaxMemory(part) == 0) return "";
    largest = std::max(largest, limits.MaxMemory(part));
  }
  for (const auto& unit : units.units) {
    Load load;
    load.Add(unit);
    const std::int64_t need = load.Memory(1);
    if (need > largest) {
      return fmt::format(
          "{} '{}'{} needs {}, more than the {} of a part", graph.operators[unit.operators[0]].kind,
          graph.operators[unit.operators[0]].name,
          unit.operators.size() > 1 ? fmt::format(" and the {} operators tied to it", unit.operators.size() - 1) : "",
          FormatBytes(static_cast<double>(need)), FormatBytes(static_cast<double>(largest)));
    }
  }
  return "";
}

}  // namespace

Partition CutIntoParts(const OperatorGraph& graph, const CutOptions& options) {
  WEIR_CHECK_GE(options.num_parts, 1);
  Partition result;
  auto infeasible = [&](std::string reason) {
    result = {};
    result.status = Partition::Status::kInfeasible;
    result.reason = std::move(reason);
    return result;
  };
  const UnitGraph units = Contract(graph, options.memory, options.measure);
  const int k = options.num_parts;
  WEIR_CHECK(options.workers.empty() || static_cast<int>(options.workers.size()) == k);
  WEIR_CHECK(options.objective != CutObjective::kTime || !options.workers.empty());
  if (units.size() < k) {
    return infeasible(fmt::format("{} parts asked of {} separable groups of operators", k, units.size()));
  }
  Limits limits = Limits::Equal(k, 0, options.max_part_memory_bytes, options.memory);
  std::vector<double> share(k, 1.0 / k);  // of the work
  double flops = 0;
  for (const PartWorker& worker : options.workers) flops += worker.flops;
  for (int part = 0; part < k && !options.workers.empty(); ++part) {
    const PartWorker& worker = options.workers[part];
    share[part] = worker.flops / flops;
    std::int64_t& memory = limits.max_memory[part];
    if (worker.memory_bytes > 0) memory = memory == 0 ? worker.memory_bytes : std::min(memory, worker.memory_bytes);
  }
  if (std::string reason = TooLarge(graph, units, limits); !reason.empty()) return infeasible(reason);

  const double total = static_cast<double>(units.total_work), slack = 1 + std::max(0.0, options.balance_slack);
  const double largest_share = *std::max_element(share.begin(), share.end());
  auto cap_at = [&](int part, double scale) {
    return static_cast<std::int64_t>(std::min(total * share[part] * slack * scale, 9e18));
  };
  Portfolio portfolio(units, options);
  std::optional<Candidate> best;
  // The window gives way in steps: first to the largest unit, then where memory (or an awkward order) leaves no plan.
  double scale = 1;
  while (true) {
    // The part of the largest share holds the largest unit exactly: rounding must not take it away.
    bool last = true;
    for (int part = 0; part < k; ++part) {
      limits.max_work[part] = cap_at(part, scale);
      if (options.objective == CutObjective::kTime) limits.max_work[part] = units.total_work;
    }
    if (*std::max_element(limits.max_work.begin(), limits.max_work.end()) < units.max_work) {
      scale = static_cast<double>(units.max_work) / (total * largest_share * slack);
      for (int part = 0; part < k; ++part)
        limits.max_work[part] = share[part] == largest_share ? units.max_work : cap_at(part, scale);
    }
    for (int part = 0; part < k; ++part) last = last && limits.max_work[part] >= units.total_work;
    best = portfolio.Best(limits, last);
    if (best || last) break;
    scale *= kWidening;
  }
  if (!best) {
    std::string room = limits.HasMemory() ? FormatBytes(static_cast<double>(limits.MaxMemory(0))) : "its limits";
    if (!options.workers.empty()) room = "its worker's memory";
    return infeasible(fmt::format("no cut into {} parts keeps every part within {}", k, room));
  }
  result.num_parts = k;
  result.method = best->method;
  result.seconds = best->seconds;
  result.part_of.resize(graph.operators.size());
  std::vector<std::int64_t> work(k, 0);
  for (int u = 0; u < units.size(); ++u) {
    work[best->part_of[u]] += units.units[u].work;
    for (int op : units.units[u].operators) result.part_of[op] = best->part_of[u];
  }
  result.balance = units.total_work > 0 ? 0 : 1;
  for (int part = 0; part < k; ++part) {
    if (units.total_work > 0) result.balance = std::max(result.balance, static_cast<double>(work[part]) / (total * share[part]));
    result.widened = result.widened || (options.objective != CutObjective::kTime && work[part] > cap_at(part, 1));
  }
  result.cut_bytes = CutBytes(graph, result.part_of, options.objective, options.measure.pass);
  if (options.objective != CutObjective::kTime) {
    result.lower_bound = best->optimal ? result.cut_bytes : CutLowerBound(units, limits, options.objective);
  }
  result.optimal = best->optimal || (result.lower_bound == result.cut_bytes && options.objective != CutObjective::kTime);
  const std::string problem = CheckPartition(graph, result.part_of, k);
  WEIR_CHECK(problem.empty()) << problem;
  return result;
}

std::int64_t CutBytes(const OperatorGraph& graph, const std::vector<int>& part_of, CutObjective objective, Pass pass) {
  std::int64_t total = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer < 0) continue;
    const std::int64_t times = Crossings(tensor.producer, tensor.readers, part_of, objective);
    const std::int64_t each = CheckedMul(tensor.bytes, pass == Pass::kTraining && tensor.has_gradient ? 2 : 1, tensor.name);
    total = CheckedAdd(total, CheckedMul(each, times, tensor.name), tensor.name);
  }
  return total;
}

std::string CheckPartition(const OperatorGraph& graph, const std::vector<int>& part_of, int num_parts) {
  if (part_of.size() != graph.operators.size()) {
    return fmt::format("{} operators have a part, expected {}", part_of.size(), graph.operators.size());
  }
  std::vector<bool> used(num_parts, false);
  for (std::size_t i = 0; i < part_of.size(); ++i) {
    if (part_of[i] < 0 || part_of[i] >= num_parts)
      return fmt::format("operator {} is in part {} of {}", i, part_of[i], num_parts);
    used[part_of[i]] = true;
  }
  for (int p = 0; p < num_parts; ++p) {
    if (!used[p]) return fmt::format("part {} is empty", p);
  }
  for (const Tensor& tensor : graph.tensors) {
    for (int reader : tensor.readers) {
      if (tensor.producer >= 0 && part_of[reader] < part_of[tensor.producer]) {
        return fmt::format("tensor '{}' runs from part {} back to part {}", tensor.name, part_of[tensor.producer],
                           part_of[reader]);
      }
    }
  }
  for (const auto& group : graph.together) {
    for (int op : group) {
      if (part_of[op] != part_of[group[0]]) return fmt::format("operators {} and {} must stay together", group[0], op);
    }
  }
  return "";
}

}  // namespace weir::partitioner
