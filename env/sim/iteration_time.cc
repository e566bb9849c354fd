#include "env/sim/iteration_time.h"

#include <algorithm>
#include <array>
#include <memory>

#include "env/core/check.h"

namespace weir {
namespace {

constexpr int kInline = 32;  // subgraphs handled without allocation

// Scratch for one value per subgraph, 0 at start.
class PerSubgraph {
 public:
  explicit PerSubgraph(int n) {
    if (n > kInline) [[unlikely]] {
      more_ = std::make_unique<double[]>(n);
      data_ = more_.get();
    } else {
      data_ = inline_;
      for (int i = 0; i < n; ++i) data_[i] = 0;
    }
  }
  double& operator[](int i) { return data_[i]; }

 private:
  double inline_[kInline];
  std::unique_ptr<double[]> more_;
  double* data_;
};

// Longest path over the first k subgraphs, given node and arc times. Asks for the time of every arc among them exactly once.
template <typename NodeTime, typename ArcTime>
double LongestPath(const JobSpec& job, int k, NodeTime time, ArcTime cost) {
  PerSubgraph ready(k), finish(k);
  double longest = 0;
  const ArcSpec* next = job.arcs.data();
  const ArcSpec* const end = next + job.arcs.size();
  const bool sorted = std::is_sorted(next, end, [](const ArcSpec& a, const ArcSpec& b) { return a.to < b.to; });
  for (int v = 0; v < k; ++v) {
    if (sorted) {  // by `to`: one walk over the arcs suffices
      for (; next != end && next->to == v; ++next) ready[v] = std::max(ready[v], finish[next->from] + cost(*next));
    } else {
      for (const ArcSpec& arc : job.arcs) {
        if (arc.to == v) ready[v] = std::max(ready[v], finish[arc.from] + cost(arc));
      }
    }
    finish[v] = ready[v] + time(v);
    longest = std::max(longest, finish[v]);
  }
  return longest;
}

// T of one row of a placement, without the exchange between replicas.
double RowTime(const JobSpec& job, std::span<const WorkerId> row, std::span<const WorkerSpec> workers,
               std::span<const WorkerLoad> loads, const ModelOptions& options) {
  const int k = static_cast<int>(row.size());  // a prefix of the subgraphs, mostly all
  const double share = 1.0 / job.replicas, m = job.micro_batches;
  PerSubgraph t(k), speed(k), compute(k), bytes(k);
  PerSubgraph first(k);  // the first subgraph on the same worker, whose slot holds the worker's sums
  bool whole = true;
  for (int i = 0; i < k; ++i) {
    int same = 0;
    while (row[same] != row[i]) ++same;
    first[i] = same;
    if (same == i) speed[i] = SpeedOf(workers[row[i]], loads[row[i]], options);
    t[i] = job.subgraphs[i].flop * share / speed[same];
    compute[same] += t[i];
    whole = whole && same == 0;
  }
  if (whole) {
    const double path = LongestPath(
        job, k, [&](int v) { return t[v]; }, [](const ArcSpec&) { return 0.0; });
    const double time = path / m + (m - 1) / m * compute[0];
    return options.physical ? std::max(time, compute[0]) : time;
  }
  PerSubgraph elsewhere(options.links ? k : 0);  // seconds of the arcs whose bandwidth isn't the NIC's, by worker
  const double directions = options.physical ? 1 : 2;
  auto transfer = [&](const ArcSpec& arc, double parts) {
    const WorkerId u = row[arc.from], v = row[arc.to];
    if (u == v) return 0.0;
    if (const LinkOverride* link = options.links ? options.links->Find(u, v) : nullptr) {
      const int cu = loads[u].cut_jobs, cv = loads[v].cut_jobs;
      double bandwidth = std::min(workers[u].bandwidth / cu, workers[v].bandwidth / cv);
      if (link->bandwidth > 0) {
        bandwidth = link->bandwidth / std::max(cu, cv);
        elsewhere[static_cast<int>(first[arc.from])] += directions * arc.bytes * share / (link->bandwidth / cu);
        elsewhere[static_cast<int>(first[arc.to])] += directions * arc.bytes * share / (link->bandwidth / cv);
      } else {
        bytes[static_cast<int>(first[arc.from])] += arc.bytes * share;
        bytes[static_cast<int>(first[arc.to])] += arc.bytes * share;
      }
      const double latency = link->latency >= 0 ? link->latency : workers[u].latency + workers[v].latency;
      return 2 * arc.bytes * share / bandwidth / parts + 2 * latency;
    }
    bytes[static_cast<int>(first[arc.from])] += arc.bytes * share;
    bytes[static_cast<int>(first[arc.to])] += arc.bytes * share;
    const double bandwidth = std::min(workers[u].bandwidth / loads[u].cut_jobs, workers[v].bandwidth / loads[v].cut_jobs);
    return 2 * arc.bytes * share / bandwidth / parts + 2 * (workers[u].latency + workers[v].latency);
  };
  // The walk visits each arc once, and sums the bytes of each worker on the way.
  const double path = options.physical
                          ? LongestPath(
                                job, k, [&](int v) { return t[v] / m; }, [&](const ArcSpec& a) { return transfer(a, m); })
                          : LongestPath(
                                job, k, [&](int v) { return t[v]; }, [&](const ArcSpec& a) { return transfer(a, 1); });
  double bottleneck = 0;
  for (int i = 0; i < k; ++i) {
    double comm = bytes[i] == 0 ? 0 : directions * bytes[i] / (workers[row[i]].bandwidth / loads[row[i]].cut_jobs);
    if (options.links) comm += elsewhere[i];
    bottleneck = std::max({bottleneck, compute[i], comm});
  }
  return options.physical ? std::max(path + (m - 1) / m * bottleneck, bottleneck) : path / m + (m - 1) / m * bottleneck;
}

// Ring all-reduce of the gradients between the R rows.
double ExchangeTime(const JobSpec& job, std::span<const WorkerId> placement, std::span<const WorkerSpec> workers,
                    std::span<const WorkerLoad> loads) {
  const int k = job.num_subgraphs();
  const double r = job.replicas;
  double slowest = kNever, latency = 0, most_bytes = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const WorkerId w = placement[i];
    slowest = std::min(slowest, workers[w].bandwidth / loads[w].cut_jobs);
    latency = std::max(latency, workers[w].latency);
    double bytes = 0;
    for (std::size_t j = i; j < placement.size(); ++j) {
      if (placement[j] == w) bytes += job.subgraphs[j % k].param_bytes;
    }
    most_bytes = std::max(most_bytes, bytes);
  }
  return 2 * (r - 1) / r * most_bytes / slowest + 2 * (r - 1) * 2 * latency;
}

}  // namespace

double IterationTime(const JobSpec& job, std::span<const WorkerId> placement, std::span<const WorkerSpec> workers,
                     std::span<const WorkerLoad> loads, const ModelOptions& options) {
  if (job.replicas == 1) return RowTime(job, placement, workers, loads, options);
  const std::size_t k = job.subgraphs.size();
  double slowest = 0;
  for (std::size_t row = 0; row + k <= placement.size(); row += k) {
    slowest = std::max(slowest, RowTime(job, placement.subspan(row, k), workers, loads, options));
  }
  return slowest + ExchangeTime(job, placement, workers, loads);
}

double IterationTimeAlone(const JobSpec& job, std::span<const WorkerId> placement, std::span<const WorkerSpec> workers,
                          const ModelOptions& options) {
  std::array<WorkerLoad, 64> few;
  std::vector<WorkerLoad> many;
  if (workers.size() > few.size()) many.resize(workers.size());
  std::span<WorkerLoad> loads =
      workers.size() > few.size() ? std::span<WorkerLoad>(many) : std::span<WorkerLoad>(few).first(workers.size());
  for (WorkerId w : placement) loads[w] = {1, 1};
  return IterationTime(job, placement, workers, loads, options);
}

GreatestSpeed GreatestSpeedOf(const WorkerSpec& worker, const ModelOptions& options) {
  WorkerSpec at_best = worker;
  if (options.corun) at_best.corun_gain = options.corun->Greatest(worker.corun_gain);
  GreatestSpeed speed{worker.flops, worker.flops};
  for (int n = 2; n <= worker.max_residents; ++n) {
    speed.one = std::max(speed.one, SpeedOf(at_best, n));
    speed.all = std::max(speed.all, n * SpeedOf(at_best, n));
  }
  return speed;
}

double WholeJobWork(const JobSpec& job) {
  const double path = LongestPath(
      job, job.num_subgraphs(), [&](int v) { return job.subgraphs[v].flop; }, [](const ArcSpec&) { return 0.0; });
  const double m = job.micro_batches;
  return path / m + (m - 1) / m * job.total_flop();
}

}  // namespace weir
