// Other people's job traces in the words of trace.h. Columns are found by name; what each format has, and what is made of it,
// stands in docs/traces.md. Every error is Error(kInvalid) with file:line, the column, what was expected and what was found.
//
// Common rules: rows out of the order of time are sorted (stably, with a counted notice); a negative or non-finite number where
// a time is expected is an error; several files share one clock.
#ifndef WEIR_ENV_WORKLOAD_TRACE_IMPORT_H_
#define WEIR_ENV_WORKLOAD_TRACE_IMPORT_H_

#include <string>
#include <vector>

#include "env/workload/trace.h"

namespace weir {

struct TraceFile {
  std::string path;  // the name used in errors
  std::string text;
};

// philly  timestamp ("2017-10-09 07:01:55", UTC), duration s, num_gpus, cluster -> group
// muri    submit_time ms, duration ms, num_gpu, iterations, model_name
// pollux  time s, application -> model, num_replicas -> gpus, name; no durations
// swf     Standard Workload Format (18 fields, ';' comments): submit, run time, processors (allocated, else requested), requested
//         time -> estimate, user -> group. Jobs without a run time or processors (-1) are left out, with a counted notice.
// csv     Weir's own columns (trace.h), in any order of time
const std::vector<std::string>& TraceFormats();
// Throws Error(kInvalid) for an unknown format too.
Trace ImportTrace(const std::string& format, const std::vector<TraceFile>& files);

// What Gavel measured: two jobs on one device, against each alone.
struct PairGain {
  std::string device, job_a, job_b;
  int gpus = 1;
  double alone_a = 0, alone_b = 0;        // steps/s
  double together_a = 0, together_b = 0;  // steps/s
  double normalised_sum() const { return together_a / alone_a + together_b / alone_b; }
  double gamma() const { return 2 * (normalised_sum() - 1); }  // g(2) = 1 + gamma/2 = the sum
};
struct DeviceSpeed {
  std::string device, job;
  int gpus = 1;
  double steps_per_second = 0;
};
struct GavelTable {
  std::vector<DeviceSpeed> speeds;  // alone, > 0
  std::vector<PairGain> pairs;      // each unordered pair once, both alone > 0; one that doesn't run together (0, 0) is left out
  std::vector<std::string> notices;
};
// gavel  JSON: device -> "('ResNet-18 (batch size 16)', 1)" -> "null": steps/s alone, or another job: [own, other's] together.
GavelTable ImportGavel(const TraceFile& file);
std::string FormatPairGains(const std::vector<PairGain>& pairs);  // CSV
// The `corun_gain` list of a cluster file: the pairs of one device type on one GPU each, classes = job types, gains cut to what
// the key takes (-0.99 to 10). Throws Error(kInvalid) naming the device types there are.
std::string FormatCorunGains(const std::vector<PairGain>& pairs, const std::string& device);
std::string FormatDeviceSpeeds(const std::vector<DeviceSpeed>& speeds);  // CSV

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_TRACE_IMPORT_H_
