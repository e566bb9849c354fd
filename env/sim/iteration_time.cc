#include "env/sim/iteration_time.h"

#include <algorithm>
#include <array>

#include "env/core/check.h"

namespace weir {
namespace {

constexpr int kInline = 32;  // subgraphs handled without allocation

// Scratch for one value per subgraph.
class PerSubgraph {
 public:
  explicit PerSubgraph(int n) {
    if (n > kInline) more_.resize(n);
    data_ = n > kInline ? more_.data() : inline_.data();
    std::fill(data_, data_ + n, 0.0);
  }
  double& operator[](int i) { return data_[i]; }

 private:
  std::array<double, kInline> inline_;
  std::vector<double> more_;
  double* data_;
};

// Longest path over the first k subgraphs: ready[v] holds the latest arrival of data at v; `time(v)` and `cost(arc)` are node and
// arc times.
template <typename NodeTime, typename ArcTime>
double LongestPath(const JobSpec& job, int k, NodeTime time, ArcTime cost) {
  PerSubgraph ready(k);
  double longest = 0;
  bool sorted = true;  // by `to`: then one walk over the arcs suffices
  for (std::size_t i = 1; i < job.arcs.size(); ++i) sorted = sorted && job.arcs[i - 1].to <= job.arcs[i].to;
  PerSubgraph finish(k);
  std::size_t next = 0;
  for (int v = 0; v < k; ++v) {
    if (sorted) {
      for (; next < job.arcs.size() && job.arcs[next].to == v; ++next) {
        ready[v] = std::max(ready[v], finish[job.arcs[next].from] + cost(job.arcs[next]));
      }
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
  PerSubgraph t(k);
  bool whole = true;
  for (int i = 0; i < k; ++i) {
    const WorkerId w = row[i];
    t[i] = job.subgraphs[i].flop * share / SpeedOf(workers[w], loads[w].residents);
    whole = whole && w == row[0];
  }
  if (whole) {
    double busy = 0;
    for (int i = 0; i < k; ++i) busy += t[i];
    const double path = LongestPath(
        job, k, [&](int v) { return t[v]; }, [](const ArcSpec&) { return 0.0; });
    const double time = path / m + (m - 1) / m * busy;
    return options.physical ? std::max(time, busy) : time;
  }
  double bottleneck = 0;
  for (int i = 0; i < k; ++i) {
    bool first = true;
    for (int j = 0; j < i; ++j) first = first && row[j] != row[i];
    if (!first) continue;
    const WorkerId w = row[i];
    double compute = 0, bytes = 0;
    for (int j = i; j < k; ++j) {
      if (row[j] == w) compute += t[j];
    }
    for (const ArcSpec& arc : job.arcs) {
      if (arc.to < k && (row[arc.from] == w) != (row[arc.to] == w)) bytes += arc.bytes * share;
    }
    const double comm = bytes == 0 ? 0 : (options.physical ? 1 : 2) * bytes / (workers[w].bandwidth / loads[w].cut_jobs);
    bottleneck = std::max({bottleneck, compute, comm});
  }
  auto transfer = [&](const ArcSpec& arc, double parts) {
    const WorkerId u = row[arc.from], v = row[arc.to];
    if (u == v) return 0.0;
    const double bandwidth = std::min(workers[u].bandwidth / loads[u].cut_jobs, workers[v].bandwidth / loads[v].cut_jobs);
    return 2 * arc.bytes * share / bandwidth / parts + 2 * (workers[u].latency + workers[v].latency);
  };
  if (options.physical) {
    const double path = LongestPath(
        job, k, [&](int v) { return t[v] / m; }, [&](const ArcSpec& arc) { return transfer(arc, m); });
    return std::max(path + (m - 1) / m * bottleneck, bottleneck);
  }
  const double path = LongestPath(
      job, k, [&](int v) { return t[v]; }, [&](const ArcSpec& arc) { return transfer(arc, 1); });
  return path / m + (m - 1) / m * bottleneck;
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

double WholeJobWork(const JobSpec& job) {
  const double path = LongestPath(
      job, job.num_subgraphs(), [&](int v) { return job.subgraphs[v].flop; }, [](const ArcSpec&) { return 0.0; });
  const double m = job.micro_batches;
  return path / m + (m - 1) / m * job.total_flop();
}

}  // namespace weir
