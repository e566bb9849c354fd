#include "env/metrics/bounds.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "env/sim/best_time.h"

namespace weir {
namespace {

// Serves jobs on one machine of rate 1, at every instant the one with the least key. key(job, remaining) may depend on what is
// left only so that serving a job never raises its key. Calls slice(job, from, to) for each stretch of service and finish(job,
// at).
template <typename Key, typename Slice, typename Finish>
void ServeByKey(std::vector<MachineJob>* jobs, Key key, Slice slice, Finish finish) {
  std::sort(jobs->begin(), jobs->end(), [](const MachineJob& a, const MachineJob& b) { return a.arrival < b.arrival; });
  struct Entry {
    double key, remaining;
    std::size_t job;
    bool operator<(const Entry& other) const {  // the queue pops the greatest
      return std::pair(key, job) > std::pair(other.key, other.job);
    }
  };
  std::priority_queue<Entry> queue;
  double now = 0;
  for (std::size_t next = 0; next < jobs->size() || !queue.empty();) {
    if (queue.empty()) now = std::max(now, (*jobs)[next].arrival);
    for (; next < jobs->size() && (*jobs)[next].arrival <= now; ++next) {
      queue.push({key((*jobs)[next], (*jobs)[next].size), (*jobs)[next].size, next});
    }
    const double until = next < jobs->size() ? (*jobs)[next].arrival : kNever;
    Entry entry = queue.top();
    queue.pop();
    const MachineJob& job = (*jobs)[entry.job];
    if (now + entry.remaining <= until) {
      slice(job, now, now + entry.remaining);
      now += entry.remaining;
      finish(job, now);
    } else {
      slice(job, now, until);
      entry.remaining -= until - now;
      entry.key = key(job, entry.remaining);
      now = until;
      queue.push(entry);
    }
  }
}

// No worker gives one job more than `flops` of these, nor all jobs together more than `capacity`.
struct Pool {
  std::vector<WorkerSpec> workers;
  double capacity = 0;
};
Pool PoolOf(const std::vector<WorkerSpec>& workers, const ModelOptions& options) {
  Pool pool{workers, 0};
  for (WorkerSpec& worker : pool.workers) {
    const GreatestSpeed speed = GreatestSpeedOf(worker, options);
    worker.flops = speed.one;
    pool.capacity += speed.all;
  }
  return pool;
}

}  // namespace

double SrptFlowTime(std::vector<MachineJob> jobs) {
  double sum = 0;
  ServeByKey(
      &jobs, [](const MachineJob&, double remaining) { return remaining; }, [](const MachineJob&, double, double) {},
      [&](const MachineJob& job, double at) { sum += at - job.arrival; });
  return sum;
}

double LeastMeanBusyTime(std::vector<MachineJob> jobs) {
  double sum = 0;
  ServeByKey(
      &jobs, [](const MachineJob& job, double) { return job.size; },
      [&](const MachineJob& job, double from, double to) { sum += (to - from) / job.size * ((from + to) / 2 - job.arrival); },
      [](const MachineJob&, double) {});
  return sum;
}

int LargestAntichain(const JobSpec& job) {
  const int k = job.num_subgraphs();
  std::vector<std::vector<char>> reaches(k, std::vector<char>(k, 0));
  for (int v = k - 1; v >= 0; --v) {
    for (const ArcSpec& arc : job.arcs) {
      if (arc.from != v) continue;
      reaches[v][arc.to] = 1;
      for (int u = 0; u < k; ++u) reaches[v][u] = reaches[v][u] || reaches[arc.to][u];
    }
  }
  std::vector<int> matched(k, -1);  // by the later one
  int size = 0;
  for (int v = 0; v < k; ++v) {
    std::vector<char> seen(k, 0);
    auto augment = [&](auto&& self, int from) -> bool {
      for (int to = 0; to < k; ++to) {
        if (!reaches[from][to] || seen[to]) continue;
        seen[to] = 1;
        if (matched[to] < 0 || self(self, matched[to])) {
          matched[to] = from;
          return true;
        }
      }
      return false;
    };
    size += augment(augment, v);
  }
  return k - size;
}

JctBounds LowerBounds(const std::vector<WorkerSpec>& workers, const Workload& jobs, const ModelOptions& options) {
  const Pool pool = PoolOf(workers, options);
  const ClusterState empty(pool.workers, options);
  std::unordered_map<std::uint64_t, double> known;  // T*, or its bound, by shape; kNever: fits nowhere
  JctBounds bounds;
  std::vector<MachineJob> machine;
  double alone = 0, half = 0;
  for (const auto& job : jobs) {
    auto [entry, added] = known.try_emplace(ShapeHash(*job), kNever);
    if (added) {
      bool exact = false;
      double time = BestAloneTime(empty, *job, &exact);
      if (time == kNever && !exact && empty.FitsEmptyCluster(*job)) time = 0;
      if (time < kNever && !exact) time = AloneTimeBound(pool.workers, *job);
      entry->second = time;
    }
    if (entry->second == kNever) {
      ++bounds.unplaceable;
      continue;
    }
    const double m = job->micro_batches, least = job->iterations * entry->second;
    const double size = job->iterations * job->total_flop() * (1 / (m * LargestAntichain(*job)) + (m - 1) / m);
    machine.push_back({job->arrival, size / pool.capacity});
    alone += least;
    half += least / 2;
    ++bounds.jobs;
  }
  if (bounds.jobs == 0) return bounds;
  const double n = bounds.jobs;
  bounds.alone = bounds.best = alone / n;
  bounds.srpt = SrptFlowTime(machine) / n;
  bounds.size_first = (LeastMeanBusyTime(std::move(machine)) + half) / n;
  if (bounds.srpt > bounds.best) {
    bounds.best = bounds.srpt;
    bounds.name = "srpt";
  }
  if (bounds.size_first > bounds.best) {
    bounds.best = bounds.size_first;
    bounds.name = "size_first";
  }
  return bounds;
}

}  // namespace weir
