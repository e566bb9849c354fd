// An episode as segments of time on workers: what Gantt charts, traces and utilisation are made from.
#ifndef WEIR_ENV_METRICS_TIMELINE_H_
#define WEIR_ENV_METRICS_TIMELINE_H_

#include <string>
#include <vector>

#include "env/sim/simulator.h"
#include "env/sim/worker_event.h"

namespace weir {

// A job sits on its workers from `start` to `end`: until it finishes, is preempted or migrates.
struct Segment {
  JobId job = 0;
  SimTime start = 0, end = 0;
  Placement workers;  // one per subgraph (and replica)
  bool finished = false;
};

// By (start, job). `actions` are all of the episode's (Simulator::actions), `events` its changes of workers: a lost worker ends
// the stays of its jobs. A job that never finishes ends at the last event known.
std::vector<Segment> SegmentsOf(const std::vector<JobRecord>& records, const std::vector<TimedAction>& actions,
                                const std::vector<WorkerEvent>& events = {});

// Share of (workers x time from first arrival to last finish) during which a worker holds a job.
double Utilisation(const std::vector<Segment>& segments, const std::vector<JobRecord>& records, int num_workers);

// Chrome trace event format (JSON), which Perfetto and chrome://tracing open: a process per worker, a thread per residency, a
// slice per stay of a job, a counter of waiting jobs. Microseconds of simulated time. `jobs` gives names, by id; it may lack
// some.
std::string FormatChromeTrace(const std::vector<WorkerSpec>& workers, const Workload& jobs, const std::vector<JobRecord>& records,
                              const std::vector<Segment>& segments);

}  // namespace weir

#endif  // WEIR_ENV_METRICS_TIMELINE_H_
