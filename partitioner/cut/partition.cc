#include "partitioner/cut/partition.h"

#include <algorithm>
#include <limits>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/units.h"
#include "partitioner/cut/exact.h"
#include "partitioner/cut/flow_partition.h"
#include "partitioner/cut/order_dp.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxBisectedUnits = 20'000;  // beyond, refinement of the order DP alone keeps to the time budget
constexpr double kWidening = 1.05;         // step by which the balance window gives way

struct Candidate {
  std::vector<int> part_of;  // by unit
  std::int64_t cost = 0;
  const char* method = "";
};

// The portfolio under one work limit: the cheapest plan, ties to the earlier member. Where no order has a plan, flow is tried
// only as a last resort: widening the limit a little is cheaper.
std::optional<Candidate> BestUnder(const UnitGraph& graph, const Limits& limits, CutObjective objective,
                                   const std::vector<std::vector<int>>& orders, const DownSets& down_sets, bool last_resort) {
  std::optional<Candidate> best;
  auto offer = [&](std::vector<int> part_of, const char* method) {
    const std::int64_t cost = UnitCutBytes(graph, part_of, objective);
    if (!best || cost < best->cost) best = Candidate{std::move(part_of), cost, method};
  };
  if (limits.num_parts == 1) {
    Load load;
    for (const auto& unit : graph.units) load.Add(unit);
    if (limits.Fits(load, 0)) offer(std::vector<int>(graph.size(), 0), "order-dp");
    return best;
  }
  if (down_sets.Affordable(limits.num_parts)) {
    if (auto parts = down_sets.CutExactly(limits, objective)) offer(std::move(*parts), "exact");
    return best;
  }
  for (const auto& order : orders) {
    if (auto parts = CutOrder(graph, order, limits, objective)) offer(std::move(*parts), "order-dp");
  }
  if (!best && !last_resort) return best;
  if (best) {
    std::vector<int> refined = best->part_of;
    if (RefineByFlow(graph, limits, objective, &refined)) offer(std::move(refined), "flow");
  }
  if (graph.size() > kMaxBisectedUnits && best) return best;
  if (auto parts = BisectByFlow(graph, limits, objective)) {
    RefineByFlow(graph, limits, objective, &*parts);
    offer(std::move(*parts), "flow");
  }
  return best;
}

// Why no part can hold some unit, or "".
std::string TooLarge(const OperatorGraph& graph, const UnitGraph& units, const CutOptions& options) {
  for (const auto& unit : units.units) {
    Load load;
    load.Add(unit);
    const std::int64_t need = load.Memory(1);
    if (options.max_part_memory_bytes > 0 && need > options.max_part_memory_bytes) {
      return fmt::format(
          "{} '{}'{} needs {}, more than the {} of a part", graph.operators[unit.operators[0]].kind,
          graph.operators[unit.operators[0]].name,
          unit.operators.size() > 1 ? fmt::format(" and the {} operators tied to it", unit.operators.size() - 1) : "",
          FormatBytes(static_cast<double>(need)), FormatBytes(static_cast<double>(options.max_part_memory_bytes)));
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
  const UnitGraph units = Contract(graph, options.memory);
  const int k = options.num_parts;
  if (units.size() < k) {
    return infeasible(fmt::format("{} parts asked of {} separable groups of operators", k, units.size()));
  }
  if (std::string reason = TooLarge(graph, units, options); !reason.empty()) return infeasible(reason);

  Limits limits;
  limits.num_parts = k;
  limits.max_memory = options.max_part_memory_bytes;
  limits.memory = options.memory;
  const double even = static_cast<double>(units.total_work) / k;
  double cap = even * (1 + std::max(0.0, options.balance_slack));
  const DownSets down_sets(units);
  const auto orders = TopologicalOrders(units);
  std::optional<Candidate> best;
  // The window gives way in steps: first to the largest unit, then where memory (or an awkward order) leaves no plan.
  while (true) {
    limits.max_work = std::max(units.max_work, static_cast<std::int64_t>(std::min(cap, 9e18)));
    const bool last = limits.max_work >= units.total_work;
    best = BestUnder(units, limits, options.objective, orders, down_sets, last);
    if (best || last) break;
    cap = std::max(cap, static_cast<double>(units.max_work)) * kWidening;
  }
  if (!best) {
    return infeasible(fmt::format("no cut into {} parts keeps every part within {}", k,
                                  FormatBytes(static_cast<double>(options.max_part_memory_bytes))));
  }
  result.num_parts = k;
  result.method = best->method;
  result.optimal = k == 1 || result.method == "exact";
  result.part_of.resize(graph.operators.size());
  std::vector<std::int64_t> work(k, 0);
  for (int u = 0; u < units.size(); ++u) {
    work[best->part_of[u]] += units.units[u].work;
    for (int op : units.units[u].operators) result.part_of[op] = best->part_of[u];
  }
  const std::int64_t largest = *std::max_element(work.begin(), work.end());
  result.balance = units.total_work > 0 ? static_cast<double>(largest) / even : 1;
  result.widened = largest > static_cast<std::int64_t>(even * (1 + std::max(0.0, options.balance_slack)));
  result.cut_bytes = CutBytes(graph, result.part_of, options.objective);
  const std::string problem = CheckPartition(graph, result.part_of, k);
  WEIR_CHECK(problem.empty()) << problem;
  return result;
}

std::int64_t CutBytes(const OperatorGraph& graph, const std::vector<int>& part_of, CutObjective objective) {
  std::int64_t total = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer < 0) continue;
    const std::int64_t times = Crossings(tensor.producer, tensor.readers, part_of, objective);
    const std::int64_t each = CheckedMul(tensor.bytes, tensor.has_gradient ? 2 : 1, tensor.name);
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
