// A comparison: clusters x workloads x loads (cells), in each cell every scheduler on the same episodes. What is asked for, and
// what came out. Definitions of every figure: docs/compare.md.
#ifndef WEIR_CLI_COMPARE_COMPARISON_H_
#define WEIR_CLI_COMPARE_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "env/mdp/scheduler.h"
#include "env/metrics/bounds.h"
#include "env/metrics/jct.h"
#include "env/metrics/statistics.h"
#include "env/metrics/timeline.h"
#include "env/workload/cluster_file.h"
#include "env/workload/workload_source.h"

namespace weir::cli {

struct CompareSpec {
  struct ClusterEntry {
    Cluster cluster;
    int jobs = 0;               // an episode; 0: CompareSpec::jobs
    std::vector<double> loads;  // empty: CompareSpec::loads
  };
  std::string name;
  std::vector<ClusterEntry> clusters;
  std::vector<WorkloadSource> workloads;
  std::vector<double> loads = {0.7};
  std::vector<std::string> schedulers;
  std::string reference = "greedy";  // among the schedulers
  std::uint64_t seed = 1;            // episodes have the seeds seed, seed + 1, ...
  int seeds = 8;
  int jobs = 150;
  int resamples = 10000;  // of the bootstrap
  // Which episode is kept whole, for Gantt chart and trace: a cell's number and a seed among those above.
  int chosen_cell = 0;
  std::uint64_t chosen_seed = 1;
  std::vector<std::string> files;  // that the clusters, workloads and policies were read from
  std::string hash;                // HashOf
};

// BLAKE2b of the settings and of the content of every file (not of its place).
std::string HashOf(const CompareSpec& spec);

// Throws Error(kInvalid) naming the field for numbers out of range, a reference or a chosen episode that isn't there.
void CheckSpec(const CompareSpec& spec);

// One scheduler on one episode.
struct EpisodeResult {
  JctSummary jct;
  double mean_slowdown = 0, p95_slowdown = 0;  // of JCT / (N * T*)
  double fairness = 1;                         // Jain's index of (N * T*) / JCT over the jobs
  double utilisation = 0;                      // Utilisation of timeline.h
  double work_rate = 0;                        // sum of N*F / (makespan * sum of flops); above 1 only by co-run gains
  double bound = 0;                            // mean JCT that no schedule beats, the greatest of bounds.h
};

struct Metric {
  const char* name;
  const char* unit;  // "s", "" for ratios and counts
  const char* what;
  double (*get)(const EpisodeResult&);
};
// In the order of columns. "bound_ratio" is mean_jct / bound.
const std::vector<Metric>& CompareMetrics();

struct MeanWithInterval {
  double mean = 0, standard_error = 0;
  Interval interval;  // bootstrap, 95 %
};

struct SchedulerResult {
  std::string name;
  std::vector<EpisodeResult> episodes;          // by seed
  std::vector<MeanAndError> metrics;            // means over episodes, as CompareMetrics()
  MeanWithInterval ratio, p95_ratio;            // mean over episodes of own / reference's, of mean and of p95 JCT
  MeanWithInterval difference, p95_difference;  // own - reference's, seconds
  int won = 0, lost = 0;                        // episodes with a lower, a higher mean JCT than the reference
  std::vector<double> jct_quantiles;            // of the JCT of all jobs of all episodes: at 0, 1, .. 100 %, nearest rank
};

struct CellResult {
  std::string cluster, workload;
  double load = 0;
  int jobs = 0, workers = 0;
  int unplaceable = 0;               // jobs of traces left out, over all episodes
  std::vector<std::string> notices;  // of traces, one a seed
  std::vector<SchedulerResult> schedulers;
};

struct ChosenEpisode {
  int cell = 0;
  std::uint64_t seed = 1;
  std::vector<WorkerSpec> workers;
  Workload jobs;
  struct Run {
    std::string scheduler;
    std::vector<JobRecord> records;
    std::vector<Segment> segments;
  };
  std::vector<Run> runs;  // by scheduler
};

// Seconds of the wall clock that decisions took; never part of the results, which repeat.
struct DecisionTimes {
  int cell = 0;
  std::string scheduler;
  long decisions = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};

struct Comparison {
  CompareSpec spec;
  std::vector<CellResult> cells;  // cluster by cluster, workload by workload, load by load
  ChosenEpisode chosen;
  std::vector<DecisionTimes> times;  // empty unless asked for
};

struct CompareOptions {
  int threads = 1;
  bool measure_decisions = false;
  // A fresh scheduler. Called from several threads.
  std::function<std::unique_ptr<Scheduler>(const std::string& name, std::uint64_t seed)> make_scheduler;
  // Called after each episode of each scheduler with how many of how many are done; never from two threads at once. May be empty.
  std::function<void(long done, long all)> progress;
};

// Everything but `times` is a pure function of the spec (and of make_scheduler), whatever the number of threads. Throws
// Error(kNotPlaceable) where a scheduler leaves jobs waiting for ever, naming cell, seed and job.
Comparison RunComparison(CompareSpec spec, const CompareOptions& options);

}  // namespace weir::cli

#endif  // WEIR_CLI_COMPARE_COMPARISON_H_
