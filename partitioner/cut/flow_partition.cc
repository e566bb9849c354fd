#include "partitioner/cut/flow_partition.h"

#include <algorithm>
#include <memory>
#include <set>

#include "env/core/check.h"
#include "partitioner/cut/flow_network.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxPasses = 8;
// A side that lacks work grows by this fraction of what it lacks, at least one unit. Finer costs more flows.
constexpr int kSteps = 128;
// Above this many units the budget counts: fewer steps, and most of what the window forces is pinned from the start.
constexpr int kManyUnits = 2000;
constexpr int kFewSteps = 6;

// A set of units to split in two: source side = parts [first, first + left), sink side = the following `right` parts.
class Bisection {
 public:
  // `members` in a topological order: sides grow along it.
  Bisection(const UnitGraph& graph, const Limits& limits, CutObjective objective, const std::vector<int>& members, int first,
            int left, int right)
      : graph_(graph), limits_(limits), members_(members), first_(first), left_(left), right_(right) {
    index_.assign(graph.size(), -1);
    for (std::size_t i = 0; i < members.size(); ++i) index_[members[i]] = static_cast<int>(i);
    flow_ = std::make_unique<FlowNetwork>(Network(objective));
  }

  // Best cut found within the window: true = source side, by member. nullopt: none.
  std::optional<std::vector<bool>> Solve() {
    std::optional<std::vector<bool>> best;
    std::int64_t best_value = 0;
    for (Nearest nearest : {Nearest::kSource, Nearest::kSink}) {
      if (best && graph_.size() > kManyUnits) break;
      if (nearest == Nearest::kSink) flow_->Reset();
      std::int64_t value = 0;
      auto sides = Steer(nearest, &value);
      if (sides && (!best || value < best_value)) {
        best = sides;
        best_value = value;
      }
    }
    return best;
  }

 private:
  CutNetwork Network(CutObjective objective) const {
    const int n = static_cast<int>(members_.size());
    CutNetwork network;
    network.num_operators = n + 1;  // the last stands for everything upstream
    network.cost_on_source.assign(n + 1, 0);
    network.cost_on_sink.assign(n + 1, 0);
    network.pins.assign(n + 1, Pin::kFree);
    network.pins[n] = Pin::kSource;
    network.pins[0] = Pin::kSource;  // neither side may be empty
    network.pins[n - 1] = Pin::kSink;
    std::int64_t total = 0;
    for (int u : members_) total += graph_.units[u].work;
    if (graph_.size() > kManyUnits) {
      PinByOrder(total - limits_.WorkOf(first_ + left_, right_), total - limits_.WorkOf(first_, left_), &network.pins);
    }
    std::set<int> tensors;
    for (int u : members_) {
      tensors.insert(graph_.units[u].reads.begin(), graph_.units[u].reads.end());
      tensors.insert(graph_.units[u].writes.begin(), graph_.units[u].writes.end());
    }
    for (int t : tensors) {
      const auto& tensor = graph_.tensors[t];
      std::vector<int> inside;
      for (int reader : tensor.readers) {
        if (index_[reader] >= 0) inside.push_back(index_[reader]);
      }
      const bool leaves = inside.size() < tensor.readers.size();
      const int producer = index_[tensor.producer];
      if (producer >= 0) {
        // With hops, a tensor that leaves pays the boundary in the middle wherever it is made before it.
        const bool always = objective == CutObjective::kHops && leaves;
        if (always) network.cost_on_source[producer] += tensor.capacity;
        if (!inside.empty()) network.tensors.push_back({producer, inside, always ? 0 : tensor.capacity});
      } else if (objective == CutObjective::kVolume) {
        if (inside.size() > 1) network.spreads.push_back({inside, tensor.capacity});
      } else if (!leaves && !inside.empty()) {
        network.tensors.push_back({n, inside, tensor.capacity});
      }
    }
    return network;
  }

  std::optional<std::vector<bool>> Steer(Nearest nearest, std::int64_t* value) {
    const int n = static_cast<int>(members_.size());
    std::int64_t total = 0;
    for (int u : members_) total += graph_.units[u].work;
    const std::int64_t high = limits_.WorkOf(first_, left_), low = total - limits_.WorkOf(first_ + left_, right_);
    for (int round = 0; round <= n; ++round) {
      if (flow_->Solve() != MinCut::Status::kOptimal) return std::nullopt;
      std::vector<bool> on_source = flow_->OnSourceSide(nearest);
      Load source, sink;
      for (int i = 0; i < n; ++i) (on_source[i] ? source : sink).Add(graph_.units[members_[i]]);
      const bool source_over = source.work > high || Over(source, first_, left_),
                 sink_over = source.work < low || Over(sink, first_ + left_, right_);
      if (source_over && sink_over) return std::nullopt;
      if (!source_over && !sink_over) {
        *value = flow_->value();
        on_source.pop_back();
        return on_source;
      }
      const bool grow_source = sink_over;
      if (!Grow(grow_source, on_source, grow_source ? low - source.work : source.work - high)) return std::nullopt;
    }
    return std::nullopt;
  }

  // Merges the side that is too light into its terminal, plus frontier units: those that cost nothing (they lie between the
  // minimum cuts) where there are any. False where no unit is left to add.
  bool Grow(bool grow_source, const std::vector<bool>& on_source, std::int64_t lacking) {
    const int n = static_cast<int>(members_.size());
    const Pin side = grow_source ? Pin::kSource : Pin::kSink;
    const std::vector<bool> farthest = flow_->OnSourceSide(grow_source ? Nearest::kSink : Nearest::kSource);
    std::vector<bool> in(n);
    for (int i = 0; i < n; ++i) {
      in[i] = on_source[i] == grow_source;
      if (in[i]) flow_->AddPin(i, side);
    }
    const std::int64_t enough = lacking / (graph_.size() > kManyUnits ? kFewSteps : kSteps);
    for (bool free_of_charge : {true, false}) {
      std::int64_t added = 0;
      bool grown = false;
      // Members are in topological order, so one sweep meets every unit after those it depends on.
      for (int step = 0; step < n && (!grown || added < enough); ++step) {
        const int i = grow_source ? step : n - 1 - step;
        if (in[i] || flow_->pinned(i) != Pin::kFree || (free_of_charge && farthest[i] != grow_source)) continue;
        const auto& neighbours = grow_source ? graph_.units[members_[i]].predecessors : graph_.units[members_[i]].successors;
        if (!std::all_of(neighbours.begin(), neighbours.end(), [&](int v) { return index_[v] < 0 || in[index_[v]]; })) continue;
        in[i] = true;
        flow_->AddPin(i, side);
        added += graph_.units[members_[i]].work;
        grown = true;
      }
      if (grown) return true;
    }
    return false;
  }

  // Pins the first members to the source and the last to the sink, each up to 0.8 of what its side must hold at least.
  void PinByOrder(std::int64_t source_least, std::int64_t sink_least, std::vector<Pin>* pins) const {
    const int n = static_cast<int>(members_.size());
    std::int64_t sum = 0;
    for (int i = 0; i < n - 1 && (sum += graph_.units[members_[i]].work) < source_least / 5 * 4; ++i) (*pins)[i] = Pin::kSource;
    sum = 0;
    for (int i = n - 1; i > 0 && (sum += graph_.units[members_[i]].work) < sink_least / 5 * 4; --i) (*pins)[i] = Pin::kSink;
  }

  // Memory of several parts together: no more than they hold, by the least in flight of them.
  bool Over(const Load& load, int first, int parts) const {
    __int128 room = 0;
    for (int part = first; part < first + parts; ++part) {
      if (limits_.MaxMemory(part) == 0) return false;
      room += limits_.MaxMemory(part);
    }
    return load.Memory(limits_.memory.InFlight(first + parts - 1, limits_.num_parts)) > room;
  }

  const UnitGraph& graph_;
  const Limits& limits_;
  const std::vector<int>& members_;
  int first_, left_, right_;
  std::vector<int> index_;
  std::unique_ptr<FlowNetwork> flow_;
};

bool Split(const UnitGraph& graph, const Limits& limits, CutObjective objective, const std::vector<int>& members, int first,
           int parts, Splits splits, std::vector<int>* part_of) {
  if (static_cast<int>(members.size()) < parts) return false;
  if (parts == 1) {
    Load load;
    for (int u : members) {
      (*part_of)[u] = first;
      load.Add(graph.units[u]);
    }
    return limits.Fits(load, first);
  }
  const int left = splits == Splits::kFirst ? 1 : splits == Splits::kLast ? parts - 1 : parts / 2;
  auto sides = Bisection(graph, limits, objective, members, first, left, parts - left).Solve();
  if (!sides) return false;
  std::vector<int> source, sink;
  for (std::size_t i = 0; i < members.size(); ++i) ((*sides)[i] ? source : sink).push_back(members[i]);
  return Split(graph, limits, objective, source, first, left, splits, part_of) &&
         Split(graph, limits, objective, sink, first + left, parts - left, splits, part_of);
}

}  // namespace

std::int64_t Crossings(int producer, const std::vector<int>& readers, const std::vector<int>& part_of, CutObjective objective) {
  const int home = part_of[producer];
  std::vector<int> foreign;
  int last = home;
  for (int reader : readers) {
    const int part = part_of[reader];
    last = std::max(last, part);
    if (part != home && std::find(foreign.begin(), foreign.end(), part) == foreign.end()) foreign.push_back(part);
  }
  return objective == CutObjective::kVolume ? static_cast<std::int64_t>(foreign.size()) : last - home;
}

std::int64_t UnitCutBytes(const UnitGraph& graph, const std::vector<int>& part_of, CutObjective objective) {
  std::int64_t bytes = 0;
  for (const auto& tensor : graph.tensors) {
    const std::int64_t times = Crossings(tensor.producer, tensor.readers, part_of, objective);
    bytes = CheckedAdd(bytes, CheckedMul(tensor.capacity, times, "cut bytes"), "cut bytes");
  }
  return bytes;
}

std::optional<std::vector<int>> BisectByFlow(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                             CutObjective objective, Splits splits) {
  std::vector<int> part_of(graph.size(), 0);
  if (!Split(graph, limits, objective, order, 0, limits.num_parts, splits, &part_of)) return std::nullopt;
  return part_of;
}

bool RefineByFlow(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits, CutObjective objective,
                  std::vector<int>* part_of) {
  std::int64_t cost = UnitCutBytes(graph, *part_of, objective);
  std::vector<bool> stale(limits.num_parts, true);  // by left part: a neighbour changed since its pair was solved
  bool improved = false;
  const int passes = graph.size() > kManyUnits ? 1 : kMaxPasses;
  for (int pass = 0; pass < passes; ++pass) {
    bool gained = false;
    for (int left = 0; left + 1 < limits.num_parts; ++left) {
      if (!stale[left]) continue;
      stale[left] = false;
      std::vector<int> members;
      for (int u : order) {
        if ((*part_of)[u] == left || (*part_of)[u] == left + 1) members.push_back(u);
      }
      const auto sides = Bisection(graph, limits, objective, members, left, 1, 1).Solve();
      if (!sides) continue;
      std::vector<int> candidate = *part_of;
      Load loads[2];
      for (std::size_t i = 0; i < members.size(); ++i) {
        candidate[members[i]] = left + ((*sides)[i] ? 0 : 1);
        loads[(*sides)[i] ? 0 : 1].Add(graph.units[members[i]]);
      }
      const std::int64_t candidate_cost = UnitCutBytes(graph, candidate, objective);
      if (candidate_cost >= cost || !limits.Fits(loads[0], left) || !limits.Fits(loads[1], left + 1)) continue;
      cost = candidate_cost;
      *part_of = std::move(candidate);
      gained = improved = true;
      if (left > 0) stale[left - 1] = true;
      stale[left + 1] = true;
    }
    if (!gained) break;
  }
  return improved;
}

}  // namespace weir::partitioner
