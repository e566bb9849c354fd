#include "partitioner/cut/flow_partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "env/core/check.h"
#include "partitioner/cut/min_cut.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxPasses = 8;
// A side that lacks work grows by this fraction of what it lacks, at least one unit. Finer costs more flows; 8 instead of 128 cut
// resnet50 into 8 parts 30 % worse, single units no better.
constexpr int kSteps = 128;
// Above this many units the budget counts: fewer steps, and most of what the window forces is pinned from the start.
constexpr int kManyUnits = 2000;
constexpr int kFewSteps = 6;

// A set of units to split in two: source side = parts [first, first + left), sink side = the following `right` parts.
class Bisection {
 public:
  Bisection(const UnitGraph& graph, const Limits& limits, CutObjective objective, const std::vector<int>& members, int first,
            int left, int right)
      : graph_(graph), limits_(limits), members_(members), first_(first), left_(left), right_(right) {
    index_.assign(graph.size(), -1);
    for (std::size_t i = 0; i < members.size(); ++i) index_[members[i]] = static_cast<int>(i);
    Build(objective);
  }

  // Best cut found within the window: true = source side, by member. nullopt: none.
  std::optional<std::vector<bool>> Solve() {
    std::optional<std::vector<bool>> best;
    std::int64_t best_value = 0;
    for (Nearest nearest : {Nearest::kSource, Nearest::kSink}) {
      if (best && graph_.size() > kManyUnits) break;
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
  void Build(CutObjective objective) {
    const int n = static_cast<int>(members_.size());
    network_.num_operators = n + 1;  // the last stands for everything upstream
    network_.cost_on_source.assign(n + 1, 0);
    network_.cost_on_sink.assign(n + 1, 0);
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
        if (!inside.empty()) network_.tensors.push_back({producer, inside, tensor.capacity});
        // With hops, a tensor that leaves pays the boundary in the middle if it's made before it. A reader on the sink side
        // would pay the same boundary: slightly too dear then, never wrong about feasibility.
        if (objective == CutObjective::kHops && leaves && inside.empty()) network_.cost_on_source[producer] += tensor.capacity;
      } else if (objective == CutObjective::kVolume) {
        if (inside.size() > 1) network_.spreads.push_back({inside, tensor.capacity});
      } else if (!leaves && !inside.empty()) {
        network_.tensors.push_back({n, inside, tensor.capacity});
      }
    }
  }

  std::optional<std::vector<bool>> Steer(Nearest nearest, std::int64_t* value) {
    const int n = static_cast<int>(members_.size());
    std::vector<Pin>& pins = network_.pins;
    pins.assign(n + 1, Pin::kFree);
    pins[n] = Pin::kSource;
    pins[0] = Pin::kSource;  // neither side may be empty
    pins[n - 1] = Pin::kSink;
    std::int64_t total = 0;
    for (int u : members_) total += graph_.units[u].work;
    const std::int64_t high = limits_.max_work * left_, low = total - limits_.max_work * right_;
    if (graph_.size() > kManyUnits) PinByOrder(low, total - high);
    for (int round = 0; round <= n; ++round) {
      const MinCut cut = FindMinCut(network_, nearest);
      if (cut.status != MinCut::Status::kOptimal) return std::nullopt;
      Load source, sink;
      for (int i = 0; i < n; ++i) (cut.on_source_side[i] ? source : sink).Add(graph_.units[members_[i]]);
      const bool source_over = source.work > high || Over(source, first_, left_),
                 sink_over = source.work < low || Over(sink, first_ + left_, right_);
      if (source_over && sink_over) return std::nullopt;
      if (!source_over && !sink_over) {
        *value = cut.value;
        return std::vector<bool>(cut.on_source_side.begin(), cut.on_source_side.end() - 1);
      }
      // Merge the side that is too light into its terminal, plus frontier units.
      const bool grow_source = sink_over;
      const std::int64_t lacking = grow_source ? low - source.work : source.work - high;
      std::vector<bool> in(n);
      for (int i = 0; i < n; ++i) {
        in[i] = cut.on_source_side[i] == grow_source;
        if (in[i]) pins[i] = grow_source ? Pin::kSource : Pin::kSink;
      }
      std::int64_t added = 0;
      bool grown = false;
      // Members are in topological order, so one sweep meets every unit after those it depends on.
      for (int step = 0; step < n && (!grown || added < lacking / (graph_.size() > kManyUnits ? kFewSteps : kSteps)); ++step) {
        const int i = grow_source ? step : n - 1 - step;
        if (in[i] || pins[i] != Pin::kFree) continue;
        const auto& neighbours = grow_source ? graph_.units[members_[i]].predecessors : graph_.units[members_[i]].successors;
        if (!std::all_of(neighbours.begin(), neighbours.end(), [&](int v) { return index_[v] < 0 || in[index_[v]]; })) continue;
        in[i] = true;
        pins[i] = grow_source ? Pin::kSource : Pin::kSink;
        added += graph_.units[members_[i]].work;
        grown = true;
      }
      if (!grown) return std::nullopt;
    }
    return std::nullopt;
  }

  // Pins the first members to the source and the last to the sink, each up to 0.8 of what its side must hold at least.
  void PinByOrder(std::int64_t source_least, std::int64_t sink_least) {
    const int n = static_cast<int>(members_.size());
    std::int64_t sum = 0;
    for (int i = 0; i < n && (sum += graph_.units[members_[i]].work) < source_least / 5 * 4; ++i) network_.pins[i] = Pin::kSource;
    sum = 0;
    for (int i = n - 1; i >= 0 && (sum += graph_.units[members_[i]].work) < sink_least / 5 * 4; --i)
      network_.pins[i] = Pin::kSink;
  }

  // Memory of several parts together: no more than they hold, by the least in flight of them.
  bool Over(const Load& load, int first, int parts) const {
    if (limits_.max_memory == 0) return false;
    const int in_flight = limits_.memory.InFlight(first + parts - 1, limits_.num_parts);
    return load.Memory(in_flight) / parts > limits_.max_memory;
  }

  const UnitGraph& graph_;
  const Limits& limits_;
  const std::vector<int>& members_;
  int first_, left_, right_;
  std::vector<int> index_;
  CutNetwork network_;
};

bool Split(const UnitGraph& graph, const Limits& limits, CutObjective objective, const std::vector<int>& members, int first,
           int parts, std::vector<int>* part_of) {
  if (static_cast<int>(members.size()) < parts) return false;
  if (parts == 1) {
    Load load;
    for (int u : members) {
      (*part_of)[u] = first;
      load.Add(graph.units[u]);
    }
    return limits.Fits(load, first);
  }
  const int left = parts / 2;
  auto sides = Bisection(graph, limits, objective, members, first, left, parts - left).Solve();
  if (!sides) return false;
  std::vector<int> source, sink;
  for (std::size_t i = 0; i < members.size(); ++i) ((*sides)[i] ? source : sink).push_back(members[i]);
  return Split(graph, limits, objective, source, first, left, part_of) &&
         Split(graph, limits, objective, sink, first + left, parts - left, part_of);
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

std::optional<std::vector<int>> BisectByFlow(const UnitGraph& graph, const Limits& limits, CutObjective objective) {
  std::vector<int> all(graph.size()), part_of(graph.size(), 0);
  for (int i = 0; i < graph.size(); ++i) all[i] = i;
  if (!Split(graph, limits, objective, all, 0, limits.num_parts, &part_of)) return std::nullopt;
  return part_of;
}

bool RefineByFlow(const UnitGraph& graph, const Limits& limits, CutObjective objective, std::vector<int>* part_of) {
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
      for (int u = 0; u < graph.size(); ++u) {
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
