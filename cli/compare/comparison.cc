#include "cli/compare/comparison.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"
#include "env/sim/best_time.h"

namespace weir::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Passes on, and notes how long each decision took.
class TimedScheduler : public Scheduler {
 public:
  TimedScheduler(std::unique_ptr<Scheduler> inner, std::vector<float>* seconds) : inner_(std::move(inner)), seconds_(seconds) {}
  std::string name() const override { return inner_->name(); }
  void Reset() override { inner_->Reset(); }
  Action Decide(const ClusterState& state) override {
    const auto begin = Clock::now();
    Action action = inner_->Decide(state);
    seconds_->push_back(std::chrono::duration<float>(Clock::now() - begin).count());
    return action;
  }

 private:
  std::unique_ptr<Scheduler> inner_;
  std::vector<float>* seconds_;
};

struct Cell {
  const CompareSpec::ClusterEntry* cluster;
  const WorkloadSource* workload;
  double load;
  int jobs;
};

// What the schedulers of one episode share; made by whoever comes first, freed by the last.
struct SharedEpisode {
  std::once_flag once;
  DrawnWorkload drawn;
  std::vector<double> isolated;  // N * T*, by ascending id
  double bound = 0;
  double work = 0;  // FLOP
  int workers = 0;  // that ever are in the cluster
  std::atomic<int> users{0};
};

std::vector<Cell> CellsOf(const CompareSpec& spec) {
  std::vector<Cell> cells;
  for (const auto& entry : spec.clusters) {
    for (const WorkloadSource& workload : spec.workloads) {
      for (double load : entry.loads.empty() ? spec.loads : entry.loads)
        cells.push_back({&entry, &workload, load, entry.jobs > 0 ? entry.jobs : spec.jobs});
    }
  }
  return cells;
}

void Prepare(const Cell& cell, std::uint64_t seed, SharedEpisode* shared) {
  const Cluster& cluster = cell.cluster->cluster;
  shared->drawn = cell.workload->Draw(cluster.workers, {cell.load, cell.jobs, seed});
  Workload by_id = shared->drawn.jobs;
  std::sort(by_id.begin(), by_id.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  const std::vector<WorkerSpec> best = WorkersAtTheirBest(cluster.workers, cluster.events);
  shared->workers = static_cast<int>(best.size());
  const ClusterState empty(best, cluster.model);
  BestTimes times;
  for (const auto& job : by_id) {
    shared->isolated.push_back(job->iterations * times.Get(empty, *job));
    shared->work += job->iterations * job->total_flop();
  }
  shared->bound = LowerBounds(best, shared->drawn.jobs, cluster.model).best;
}

EpisodeResult Judge(const std::vector<JobRecord>& records, const std::vector<Segment>& segments, const SharedEpisode& shared,
                    const Cluster& cluster) {
  EpisodeResult result;
  result.jct = Summarize(records);
  result.bound = shared.bound;
  std::vector<double> slowdowns, speeds;
  for (std::size_t i = 0; i < records.size(); ++i) {
    slowdowns.push_back(records[i].jct() / shared.isolated[i]);
    speeds.push_back(shared.isolated[i] / records[i].jct());
  }
  result.mean_slowdown = std::accumulate(slowdowns.begin(), slowdowns.end(), 0.0) / static_cast<double>(slowdowns.size());
  result.p95_slowdown = Quantile(slowdowns, 0.95);
  result.fairness = JainIndex(speeds);
  result.utilisation = Utilisation(segments, records, shared.workers);
  double flops = 0;
  for (const WorkerSpec& worker : cluster.workers) flops += worker.flops;
  if (result.jct.makespan > 0) result.work_rate = shared.work / (result.jct.makespan * flops);
  return result;
}

MeanWithInterval WithInterval(const std::vector<double>& values, int resamples, std::uint64_t seed) {
  const MeanAndError mean = MeanOf(values);
  return {mean.mean, mean.standard_error, BootstrapMean(values, resamples, seed)};
}

void Aggregate(const CompareSpec& spec, CellResult* cell) {
  const SchedulerResult& reference = *std::find_if(cell->schedulers.begin(), cell->schedulers.end(),
                                                   [&](const SchedulerResult& s) { return s.name == spec.reference; });
  // One seed for all of a comparison: every interval rests on the same resampled episodes.
  const std::uint64_t seed = Mix64(spec.seed, 0xb0075712a9);
  for (SchedulerResult& s : cell->schedulers) {
    for (const Metric& metric : CompareMetrics()) {
      std::vector<double> values;
      for (const EpisodeResult& e : s.episodes) values.push_back(metric.get(e));
      s.metrics.push_back(MeanOf(values));
    }
    std::vector<double> ratio, p95_ratio, difference, p95_difference;
    for (std::size_t i = 0; i < s.episodes.size(); ++i) {
      const JctSummary &own = s.episodes[i].jct, &base = reference.episodes[i].jct;
      ratio.push_back(own.mean_jct / base.mean_jct);
      p95_ratio.push_back(own.p95_jct / base.p95_jct);
      difference.push_back(own.mean_jct - base.mean_jct);
      p95_difference.push_back(own.p95_jct - base.p95_jct);
      s.won += own.mean_jct < base.mean_jct;
      s.lost += own.mean_jct > base.mean_jct;
    }
    s.ratio = WithInterval(ratio, spec.resamples, seed);
    s.p95_ratio = WithInterval(p95_ratio, spec.resamples, seed);
    s.difference = WithInterval(difference, spec.resamples, seed);
    s.p95_difference = WithInterval(p95_difference, spec.resamples, seed);
  }
}

std::vector<double> QuantileGrid(std::vector<double> values) {
  std::vector<double> grid;
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  for (int percent = 0; percent <= 100; ++percent) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent * n / 100 - 1e-9));
    grid.push_back(values[std::clamp<std::size_t>(rank, 1, values.size()) - 1]);
  }
  return grid;
}

}  // namespace

const std::vector<Metric>& CompareMetrics() {
  using E = EpisodeResult;
  static const std::vector<Metric> kMetrics = {
      {"mean_jct", "s", "mean JCT", [](const E& e) { return e.jct.mean_jct; }},
      {"p50_jct", "s", "median JCT", [](const E& e) { return e.jct.p50_jct; }},
      {"p95_jct", "s", "95th percentile of JCT", [](const E& e) { return e.jct.p95_jct; }},
      {"p99_jct", "s", "99th percentile of JCT", [](const E& e) { return e.jct.p99_jct; }},
      {"max_jct", "s", "longest JCT", [](const E& e) { return e.jct.max_jct; }},
      {"mean_waiting", "s", "mean time from arrival to first start", [](const E& e) { return e.jct.mean_waiting; }},
      {"mean_slowdown", "", "mean of JCT / run time alone at its best", [](const E& e) { return e.mean_slowdown; }},
      {"p95_slowdown", "", "95th percentile of slowdown", [](const E& e) { return e.p95_slowdown; }},
      {"makespan", "s", "first arrival to last finish", [](const E& e) { return e.jct.makespan; }},
      {"utilisation", "", "share of worker time with a job", [](const E& e) { return e.utilisation; }},
      {"work_rate", "", "work done / FLOP/s of the cluster", [](const E& e) { return e.work_rate; }},
      {"fairness", "", "Jain's index of 1/slowdown", [](const E& e) { return e.fairness; }},
      {"preemptions", "", "preemptions an episode", [](const E& e) { return static_cast<double>(e.jct.preemptions); }},
      {"migrations", "", "migrations an episode", [](const E& e) { return static_cast<double>(e.jct.migrations); }},
      {"bound_ratio", "", "mean JCT / lower bound", [](const E& e) { return e.jct.mean_jct / e.bound; }},
  };
  return kMetrics;
}

std::string HashOf(const CompareSpec& spec) {
  std::string text =
      fmt::format("loads {}\nschedulers {}\nreference {}\nseed {} {}\njobs {}\nresamples {}\n", fmt::join(spec.loads, " "),
                  fmt::join(spec.schedulers, " "), spec.reference, spec.seed, spec.seeds, spec.jobs, spec.resamples);
  for (const auto& entry : spec.clusters)
    text += fmt::format("cluster {} {} {}\n", entry.cluster.name, entry.jobs, fmt::join(entry.loads, " "));
  for (const WorkloadSource& workload : spec.workloads)
    text += fmt::format("workload {} {}\n", workload.name(), workload.mix().estimate_error);
  for (const std::string& file : spec.files) text += ContentHash(ReadFile(file)) + "\n";
  return ContentHash(text);
}

void CheckSpec(const CompareSpec& spec) {
  auto check = [](bool ok, const char* field, const char* expected, auto value) {
    if (!ok) throw Invalid("compare: {} must be {}, got {}", field, expected, value);
  };
  check(!spec.clusters.empty(), "clusters", "at least one", 0);
  check(!spec.workloads.empty(), "workloads", "at least one", 0);
  check(!spec.loads.empty(), "loads", "at least one", 0);
  check(!spec.schedulers.empty(), "schedulers", "at least one", 0);
  check(spec.seeds >= 1 && spec.seeds <= 1000000, "seeds", "from 1 to 1000000", spec.seeds);
  check(spec.jobs >= 1, "jobs", ">= 1", spec.jobs);
  check(spec.resamples >= 100 && spec.resamples <= 10000000, "resamples", "from 100 to 10000000", spec.resamples);
  for (double load : spec.loads) check(load > 0 && std::isfinite(load), "load", "a number > 0", load);
  if (std::find(spec.schedulers.begin(), spec.schedulers.end(), spec.reference) == spec.schedulers.end())
    throw Invalid("compare: the reference '{}' is not among the schedulers ({})", spec.reference,
                  fmt::join(spec.schedulers, ", "));
  const int cells = static_cast<int>(CellsOf(spec).size());
  if (spec.chosen_cell < 0 || spec.chosen_cell >= cells)
    throw Invalid("compare: the chosen cell must be from 0 to {}, got {}", cells - 1, spec.chosen_cell);
  if (spec.chosen_seed < spec.seed || spec.chosen_seed - spec.seed >= static_cast<std::uint64_t>(spec.seeds)) {
    throw Invalid("compare: the chosen episode must be a seed from {} to {}, got {}", spec.seed,
                  spec.seed + static_cast<std::uint64_t>(spec.seeds) - 1, spec.chosen_seed);
  }
}

Comparison RunComparison(CompareSpec spec_in, const CompareOptions& options) {
  CheckSpec(spec_in);
  Comparison out;
  out.spec = std::move(spec_in);
  const CompareSpec& spec = out.spec;
  const std::vector<Cell> cells = CellsOf(spec);
  const int num_schedulers = static_cast<int>(spec.schedulers.size());
  for (const std::string& name : spec.schedulers)
    options.make_scheduler(name, spec.seed);  // what is unknown fails before anything runs

  std::vector<std::vector<SharedEpisode>> shared;
  std::vector<std::vector<std::vector<double>>> pooled(cells.size());  // JCT by cell, then scheduler * seeds + seed
  for (const Cell& cell : cells) {
    CellResult& result = out.cells.emplace_back();
    result.cluster = cell.cluster->cluster.name;
    result.workload = cell.workload->name();
    result.load = cell.load;
    result.jobs = cell.jobs;
    result.workers = static_cast<int>(cell.cluster->cluster.workers.size());
    result.notices.resize(static_cast<std::size_t>(spec.seeds));
    for (const std::string& name : spec.schedulers) {
      result.schedulers.push_back({});
      result.schedulers.back().name = name;
      result.schedulers.back().episodes.resize(spec.seeds);
    }
    shared.emplace_back(static_cast<std::size_t>(spec.seeds));
    for (SharedEpisode& s : shared.back()) s.users = num_schedulers;
  }
  std::vector<std::vector<float>> decision_seconds;
  if (options.measure_decisions) decision_seconds.resize(cells.size() * spec.schedulers.size());
  for (auto& lists : pooled) lists.resize(spec.schedulers.size() * static_cast<std::size_t>(spec.seeds));
  out.chosen.cell = spec.chosen_cell;
  out.chosen.seed = spec.chosen_seed;
  out.chosen.runs.resize(spec.schedulers.size());
  const Cluster& chosen = cells[spec.chosen_cell].cluster->cluster;
  out.chosen.workers = WorkersAtTheirBest(chosen.workers, chosen.events);

  // Episodes are independent and land at their own index, so the result doesn't depend on the number of threads.
  const long all = static_cast<long>(cells.size()) * spec.seeds * num_schedulers;
  std::atomic<long> next{0};
  std::mutex mutex;  // guards failure, done, unplaceable and the decision times
  std::exception_ptr failure;
  long failed_at = all, done = 0;
  auto run = [&](long task) {
    const int s = static_cast<int>(task % num_schedulers), i = static_cast<int>(task / num_schedulers % spec.seeds);
    const std::size_t c = static_cast<std::size_t>(task / num_schedulers / spec.seeds);
    const Cell& cell = cells[c];
    const Cluster& cluster = cell.cluster->cluster;
    SharedEpisode& episode = shared[c][i];
    const std::uint64_t seed = spec.seed + static_cast<std::uint64_t>(i);
    std::call_once(episode.once, [&] {
      Prepare(cell, seed, &episode);
      out.cells[c].notices[i] = fmt::format("{}", fmt::join(episode.drawn.notices, "; "));
      const std::lock_guard<std::mutex> lock(mutex);
      out.cells[c].unplaceable += episode.drawn.unplaceable;
    });
    Simulator simulator(cluster.workers, episode.drawn.jobs, cluster.model, cluster.events);
    std::vector<float> seconds;
    std::unique_ptr<Scheduler> scheduler = options.make_scheduler(spec.schedulers[s], seed);
    if (options.measure_decisions) scheduler = std::make_unique<TimedScheduler>(std::move(scheduler), &seconds);
    const std::vector<JobId> left = RunEpisode(&simulator, scheduler.get());
    if (!left.empty()) {
      throw Failure(ExitCode::kNotPlaceable, "compare: {}, {}, load {:g}, seed {}: {} left {} jobs waiting for ever (first: {})",
                    cluster.name, cell.workload->name(), cell.load, seed, spec.schedulers[s], left.size(), left.front());
    }
    std::vector<Segment> segments = SegmentsOf(simulator.records(), simulator.actions(), cluster.events);
    out.cells[c].schedulers[s].episodes[i] = Judge(simulator.records(), segments, episode, cluster);
    std::vector<double>& jct = pooled[c][static_cast<std::size_t>(s) * spec.seeds + i];
    for (const JobRecord& record : simulator.records()) jct.push_back(record.jct());
    if (static_cast<int>(c) == spec.chosen_cell && seed == spec.chosen_seed) {
      out.chosen.runs[s] = {spec.schedulers[s], simulator.records(), std::move(segments)};
      if (s == 0) out.chosen.jobs = episode.drawn.jobs;
    }
    if (--episode.users == 0) {
      episode.drawn.jobs.clear();
      episode.isolated = {};
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (options.measure_decisions) {
      std::vector<float>& list = decision_seconds[c * spec.schedulers.size() + s];
      list.insert(list.end(), seconds.begin(), seconds.end());
    }
    ++done;
    if (options.progress) options.progress(done, all);
  };
  auto work = [&] {
    for (long task = next++; task < all; task = next++) {
      try {
        run(task);
      } catch (...) {
        // Of several failures the earliest episode's is reported: it would be the only one on one thread. Tasks are taken in
        // order, so every earlier one has been taken already and is finished before the threads are joined.
        const std::lock_guard<std::mutex> lock(mutex);
        if (task < failed_at) {
          failure = std::current_exception();
          failed_at = task;
        }
        next = all;
      }
    }
  };
  std::vector<std::thread> threads;
  for (long i = 1; i < std::min<long>(options.threads, all); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);

  for (std::size_t c = 0; c < cells.size(); ++c) {
    CellResult& cell = out.cells[c];
    std::erase_if(cell.notices, [](const std::string& notice) { return notice.empty(); });
    Aggregate(spec, &cell);
    for (std::size_t s = 0; s < spec.schedulers.size(); ++s) {
      std::vector<double> jct;
      for (int i = 0; i < spec.seeds; ++i) {
        const std::vector<double>& one = pooled[c][s * static_cast<std::size_t>(spec.seeds) + i];
        jct.insert(jct.end(), one.begin(), one.end());
      }
      cell.schedulers[s].jct_quantiles = QuantileGrid(std::move(jct));
      if (!options.measure_decisions) continue;
      const std::vector<float>& list = decision_seconds[c * spec.schedulers.size() + s];
      const std::vector<double> values(list.begin(), list.end());
      DecisionTimes times{static_cast<int>(c), spec.schedulers[s], static_cast<long>(values.size())};
      if (!values.empty()) {
        times.mean = MeanOf(values).mean;
        times.p50 = Quantile(values, 0.5);
        times.p99 = Quantile(values, 0.99);
        times.max = *std::max_element(values.begin(), values.end());
      }
      out.times.push_back(times);
    }
  }
  return out;
}

}  // namespace weir::cli
