// What a coordinator's event log (events.jsonl) says of a real run: workers, jobs as the scheduler saw them, decisions, and what
// was measured. One JSON object a line; the events and fields read here:
//
//   coordinator_start  physical, restart_seconds, scheduler
//   worker_join        name, flops, memory, bandwidth, latency, corun_gain, max_residents    (again: it came back, or changed)
//   worker_change      the same, of a worker that is there
//   worker_lost        name
//   link               a, b (names), bandwidth, latency
//   arrival            job, name
//   plan               job, model, iterations, micro_batches, flop[], memory[], param_bytes[], arcs[from, to, bytes, ...],
//                      evaluation_share
//   place              job, workers[] (ids of this coordinator's life), names[] (by subgraph), iteration_seconds, finish,
//                      overhead_seconds, correction: as believed then
//   preempt            job, iterations (kept)
//   finish             job, iteration_seconds, overhead_seconds: measured
//   fail | cancel      job, iterations (done)
// Others are skipped. Times are seconds since the store's epoch.
#ifndef WEIR_ENV_WORKLOAD_RECORDED_RUN_H_
#define WEIR_ENV_WORKLOAD_RECORDED_RUN_H_

#include <string>
#include <vector>

#include "env/sim/iteration_time.h"
#include "env/sim/simulator.h"
#include "env/sim/spec.h"
#include "env/sim/worker_event.h"

namespace weir {

struct RecordedJob {
  JobSpec spec;  // of its last plan; arrival as recorded. A job that failed or was cancelled has the iterations it did
  std::string name, model;
  enum class End { kOpen, kFinished, kFailed, kCancelled } end = End::kOpen;
  SimTime start = -1;             // first placement
  SimTime finish = -1;            // < 0: still open
  double iteration_seconds = 0;   // measured mean, without evaluations; 0: none
  double overhead_seconds = 0;    // measured
  double believed_iteration = 0;  // at its (last) placement, without evaluations
  SimTime believed_finish = -1;
  std::vector<std::string> workers;  // of the last placement, by subgraph
  bool placed() const { return start >= 0; }
};

// In the order of the log.
struct RecordedEvent {
  enum class Kind { kArrival, kFinish, kWorker, kPlace, kPreempt };
  Kind kind = Kind::kArrival;
  SimTime time = 0;
  int line = 0;
  JobId job = -1;
  Placement placement;    // kPlace: indices into `workers`
  double iterations = 0;  // kPreempt: kept
};

struct RecordedRun {
  std::string source;  // the file
  std::string scheduler;
  ModelOptions model;
  std::vector<WorkerEvent> worker_events;  // every worker begins with a kJoin
  std::vector<std::string> workers;        // names, by index
  std::vector<RecordedJob> jobs;           // by job number
  std::vector<RecordedEvent> events;
  const RecordedJob* Find(JobId id) const;
};

// `path`: the log, or the state folder that holds it as events.jsonl. Throws Error(kInvalid) with file:line for a line that is no
// event, is cut off, lacks a field or contradicts an earlier one.
RecordedRun ReadRun(const std::string& path);
RecordedRun ParseRun(const std::string& text, const std::string& source);

// The jobs that were placed, as a scenario on the workers that took part, arrivals counted from the first one; iterations hold
// the evaluations too, for the format has no other place for them.
std::string RunAsScenario(const RecordedRun& run);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_RECORDED_RUN_H_
