#include "env/sim/best_time.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "env/core/rng.h"

namespace weir {

namespace {
constexpr double kMemorySlack = 1e-9;  // as ClusterState's
}

double BestAloneTime(const ClusterState& state, const JobSpec& job, bool* exact) {
  if (exact) *exact = false;
  // Branch and bound in topological order: T of a prefix never exceeds T of the whole. Of unused workers that are equal, one is
  // tried.
  const std::span<const WorkerSpec> workers = state.workers();
  const std::vector<WorkerLoad> loads(workers.size(), WorkerLoad{1, 1});
  std::vector<WorkerId> order;
  for (int w = 0; w < state.num_workers(); ++w) {
    if (state.available(w)) order.push_back(w);
  }
  std::stable_sort(order.begin(), order.end(), [&](WorkerId a, WorkerId b) { return workers[a].flops > workers[b].flops; });
  const int k = job.num_subgraphs();
  auto time = [&](std::span<const WorkerId> placement) { return IterationTime(job, placement, workers, loads, state.options()); };
  const double total = job.total_memory_bytes();
  auto room = [&](WorkerId w) { return workers[w].memory_bytes * (1 + kMemorySlack); };
  double best = kNever;
  if (job.replicas > 1) {
    Placement rows;
    for (WorkerId w : order) {
      if (total <= room(w) && rows.size() < static_cast<std::size_t>(k) * job.replicas) rows.insert(rows.end(), k, w);
    }
    return rows.size() == static_cast<std::size_t>(k) * job.replicas ? time(rows) : kNever;
  }
  for (WorkerId w : order) {
    if (total <= room(w)) best = std::min(best, time(Placement(k, w)));
  }
  std::vector<double> free(workers.size());
  for (WorkerId w : order) free[w] = room(w);
  std::vector<int> used(workers.size(), 0);
  Placement placement;
  placement.reserve(k);
  int nodes = 200000;
  auto equal = [&](const WorkerSpec& a, const WorkerSpec& b) {
    return a.flops == b.flops && a.memory_bytes == b.memory_bytes && a.bandwidth == b.bandwidth && a.latency == b.latency;
  };
  auto search = [&](auto&& self, int i) -> void {
    const double need = job.subgraphs[i].memory_bytes;
    for (std::size_t o = 0; o < order.size(); ++o) {
      const WorkerId w = order[o];
      if (free[w] < need) continue;
      bool twin = false;
      const bool own_links = state.options().links && state.options().links->Touches(w);
      for (std::size_t p = 0; p < o && used[w] == 0 && !twin && !own_links; ++p)
        twin = used[order[p]] == 0 && equal(workers[order[p]], workers[w]) &&
               !(state.options().links && state.options().links->Touches(order[p]));
      if (twin) continue;
      if (--nodes < 0) return;
      placement.push_back(w);
      const double t = time(placement);
      if (t < best) {
        if (i + 1 == k) {
          best = t;
        } else {
          free[w] -= need;
          ++used[w];
          self(self, i + 1);
          --used[w];
          free[w] += need;
        }
      }
      placement.pop_back();
    }
  };
  search(search, 0);
  if (exact) *exact = nodes >= 0;
  return best;
}

double AloneTimeBound(std::span<const WorkerSpec> workers, const JobSpec& job) {
  double fastest = 0, sum = 0, largest = 0, chain = 0;
  for (const WorkerSpec& worker : workers) {
    fastest = std::max(fastest, worker.flops);
    sum += worker.flops;
  }
  std::vector<double> path(job.subgraphs.size(), 0.0);  // longest path of FLOP that ends in each subgraph
  for (int v = 0; v < job.num_subgraphs(); ++v) {
    for (const ArcSpec& arc : job.arcs) {
      if (arc.to == v) path[v] = std::max(path[v], path[arc.from]);
    }
    path[v] += job.subgraphs[v].flop;
    largest = std::max(largest, job.subgraphs[v].flop);
    chain = std::max(chain, path[v]);
  }
  const double m = job.micro_batches, replicas = job.replicas;
  // A row has F/R to do, on workers that together are no faster than all.
  const double bottleneck = std::max(largest / fastest, job.total_flop() / sum);
  return (chain / fastest / m + (m - 1) / m * bottleneck) / replicas;
}

namespace {
std::mutex shared_times_mutex;
std::unordered_map<std::uint64_t, double>& SharedTimes() {
  static auto* times = new std::unordered_map<std::uint64_t, double>;
  return *times;
}
}  // namespace

double BestTimes::Find(const ClusterState& state, const JobSpec& job, std::uint64_t shape) {
  constexpr std::size_t kMostKept = 1 << 16;
  const std::uint64_t key = Mix64(state.cluster_hash(), shape);
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  if (known_.size() > kMostKept) known_.clear();
  {
    const std::lock_guard<std::mutex> lock(shared_times_mutex);
    if (auto known = SharedTimes().find(key); known != SharedTimes().end()) return known_[key] = known->second;
  }
  const double time = BestAloneTime(state, job);
  const std::lock_guard<std::mutex> lock(shared_times_mutex);
  if (SharedTimes().size() > 16 * kMostKept) SharedTimes().clear();
  return known_[key] = SharedTimes()[key] = time;
}

double BestTimes::Get(const ClusterState& state, const JobSpec& job) {
  return Find(state, job, ShapeHash(job));
}
double BestTimes::Get(const ClusterState& state, const LiveJob& job) {
  return Find(state, *job.spec, job.shape);
}

}  // namespace weir
