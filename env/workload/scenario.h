// Scenario files (.scn), placement logs (.log) and results (.expected): a plain-text exchange format for the model of
// env/sim/iteration_time.h. `#` starts a comment, fields are separated by blanks, SI units, ids 0,1,2,... in order:
//
//   worker ID FLOPS MEM_BYTES BW_BYTES_PER_S LATENCY_S GAMMA MAX_RESIDENTS
//   job ID ARRIVAL_S ITERATIONS MICROBATCHES
//   sub FLOP_PER_ITERATION MEM_BYTES         of the last job; subgraphs 0,1,2,... in topological order
//   edge FROM TO BYTES                       of the last job (an arc); FROM < TO; bytes forward, the same again backward
//
//   place JOB TIME W0 W1 ...                 a log: stably sorted by time; one worker per subgraph
//   preempt JOB TIME
//   migrate JOB TIME W0 W1 ...
//
// Every error names file and line.
#ifndef WEIR_ENV_WORKLOAD_SCENARIO_H_
#define WEIR_ENV_WORKLOAD_SCENARIO_H_

#include <string>
#include <vector>

#include "env/sim/action.h"
#include "env/sim/spec.h"

namespace weir {

struct Scenario {
  std::vector<WorkerSpec> workers;
  std::vector<JobSpec> jobs;
};

// Throw Error(kInvalid): `small.scn:12: max_residents must be >= 1, got 0`. `source` is the name used in errors.
Scenario ReadScenario(const std::string& path);
Scenario ParseScenario(const std::string& text, const std::string& source);
// Reads back to the same numbers. Throws Error(kInvalid) for what the format can't say (replicas, estimates of iterations).
std::string FormatScenario(const Scenario& scenario);

// Entries carry their line. Job and worker numbers are checked against the scenario.
std::vector<TimedAction> ReadPlacementLog(const std::string& path, const Scenario& scenario);
std::vector<TimedAction> ParsePlacementLog(const std::string& text, const std::string& source, const Scenario& scenario);
std::string FormatPlacementLog(const std::vector<TimedAction>& log);  // times with 17 digits

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_SCENARIO_H_
