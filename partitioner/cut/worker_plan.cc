#include "partitioner/cut/worker_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxPermuted = 4;                // parts
constexpr std::size_t kMaxPermutedSize = 700;  // operators

// Indices of the workers, the greatest first by `key`, ties as given.
template <typename Key>
std::vector<int> Ranked(const std::vector<PartWorker>& workers, Key key) {
  std::vector<int> order(workers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(workers[a]) > key(workers[b]); });
  return order;
}

// Sequences of k workers to try.
std::set<std::vector<int>> Sequences(const std::vector<PartWorker>& workers, int k, bool permute) {
  auto memory = [](const PartWorker& w) {
    return w.memory_bytes == 0 ? std::numeric_limits<std::int64_t>::max() : w.memory_bytes;
  };
  std::set<std::vector<int>> sequences;
  for (std::vector<int> chosen : {Ranked(workers, [](const PartWorker& w) { return w.flops; }), Ranked(workers, memory)}) {
    chosen.resize(k);
    sequences.insert(chosen);
    sequences.insert({chosen.rbegin(), chosen.rend()});
    std::sort(chosen.begin(), chosen.end());
    sequences.insert(chosen);
    if (!permute) continue;
    do sequences.insert(chosen);
    while (std::next_permutation(chosen.begin(), chosen.end()));
  }
  return sequences;
}

}  // namespace

WorkerPlan PlanForWorkers(const OperatorGraph& graph, CutOptions options, int num_parts, int max_parts,
                          const std::vector<PartWorker>& workers) {
  const int count = static_cast<int>(workers.size());
  WEIR_CHECK(count >= 1 && num_parts >= 0 && max_parts >= 1);
  WorkerPlan best;
  best.plan.partition.status = Partition::Status::kInfeasible;
  if (num_parts > count) {
    best.plan.partition.reason = fmt::format("{} parts asked of {} workers", num_parts, count);
    return best;
  }
  const bool time = options.objective == CutObjective::kTime;
  using Cost = std::tuple<double, std::int64_t, double>;  // seconds, bytes, balance
  Cost best_cost{};
  bool found = false;
  const int first = num_parts > 0 ? num_parts : 1, last = num_parts > 0 ? num_parts : std::min(max_parts, count);
  for (int k = first; k <= last; ++k) {
    options.num_parts = k;
    for (const std::vector<int>& sequence :
         Sequences(workers, k, k <= kMaxPermuted && graph.operators.size() <= kMaxPermutedSize)) {
      options.workers.clear();
      for (int w : sequence) options.workers.push_back(workers[w]);
      Partition partition = CutIntoParts(graph, options);
      if (partition.status != Partition::Status::kOk) {
        if (!found && (best.plan.partition.reason.empty() || k == first)) best.plan.partition.reason = partition.reason;
        continue;
      }
      const Cost cost{partition.seconds, partition.cut_bytes, partition.balance};
      if (found && cost >= best_cost) continue;
      found = true;
      best_cost = cost;
      best.worker_of = sequence;
      best.plan.partition = std::move(partition);
    }
    if (found && !time) break;
  }
  if (found) best.plan = Describe(graph, std::move(best.plan.partition), options.memory);
  return best;
}

}  // namespace weir::partitioner
