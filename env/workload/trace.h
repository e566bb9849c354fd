// Recorded jobs, before they are mapped to models and a cluster: Weir's own CSV (docs/traces.md), which importers write.
//
//   arrival_s   seconds, >= 0, not descending; required
//   duration_s  run time on one device of the trace's cluster; empty: unknown, a workload draws it
//   iterations  1 to 1e15; decides the size where duration_s is empty
//   gpus        1 to 1,000,000; default 1
//   model, group, name   text
//   estimate_s  what the user asked for or was told
// Other columns are ignored, unless their name is nearly one of these that is missing.
#ifndef WEIR_ENV_WORKLOAD_TRACE_H_
#define WEIR_ENV_WORKLOAD_TRACE_H_

#include <string>
#include <vector>

#include "env/sim/spec.h"

namespace weir {

class CsvTable;

inline constexpr double kMostIterations = 1e15;  // exact in a double
inline constexpr long long kMostGpus = 1000000;

struct TraceJob {
  SimTime arrival = 0;
  double duration = -1;   // seconds; < 0: unknown
  double estimate = -1;   // seconds; < 0: none
  double iterations = 0;  // 0: unknown
  int gpus = 1;
  std::string name, model, group;
};

struct Trace {
  std::vector<TraceJob> jobs;        // by arrival
  std::vector<std::string> notices;  // what was changed or left out on the way, a line each
};

// Throw Error(kInvalid) with file:line: a missing column, arrivals that descend, numbers out of their range, no job.
Trace ReadTrace(const std::string& path);
Trace ParseTrace(const std::string& text, const std::string& source);
enum class TimeOrder { kAscending, kAny };
Trace ReadTraceTable(const CsvTable& table, TimeOrder order);
std::string FormatTrace(const Trace& trace);  // reads back to the same values; columns without any value are left out

// What is kept of a trace. Applied in this order; arrivals then count from the first job that is kept.
struct TraceFilter {
  enum class Outside { kKeep, kClamp, kDrop };  // durations beyond [min_seconds, max_seconds]
  std::string group;                            // empty: all
  double min_seconds = 0, max_seconds = kNever;
  Outside outside = Outside::kKeep;
  long long first = 0, count = -1;  // a window of jobs by number; count < 0: to the end
};
// Adds a notice for whatever it left out or changed. Throws Error(kInvalid) where no job is left.
void ApplyFilter(const TraceFilter& filter, Trace* trace);

// Sorts stably by arrival where that is needed, with a counted notice; arrivals then count from the first.
void SortByArrival(Trace* trace);

struct TraceStatistics {
  long long jobs = 0;
  double span = 0;                                              // last arrival - first, seconds
  double mean_gap = 0, gap_cv = 0;                              // cv: standard deviation (of the population) / mean
  double p50_duration = 0, p90_duration = 0, max_duration = 0;  // nearest rank, of the known ones
  double one_gpu_share = 0;
  double mean_busy_gpus = 0;  // sum of duration * gpus / span
};
TraceStatistics StatisticsOf(const std::vector<TraceJob>& jobs);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_TRACE_H_
