// The least mean JCT of a tiny episode over all non-preemptive schedules of the model that know the future: at every event (an
// arrival or a completion) any subset of the waiting jobs is placed, each on any placement that memory and residencies allow.
// Branch and bound on the simulator itself. Meant for up to about 6 jobs of one subgraph or 3 jobs of four, on 3 workers.
#ifndef WEIR_ENV_METRICS_EXACT_OPTIMUM_H_
#define WEIR_ENV_METRICS_EXACT_OPTIMUM_H_

#include <vector>

#include "env/sim/simulator.h"

namespace weir {

struct ExactOptimum {
  bool proven = false;               // the search was complete
  double mean_jct = kNever;          // of the best schedule found; kNever: none finishes every job
  double lower_bound = 0;            // = mean_jct where proven, else the root's
  std::vector<TimedAction> actions;  // of that schedule; replays to mean_jct
  long nodes = 0;                    // decisions tried
};

// Stops after `max_nodes`, with proven = false. Jobs with replicas are placed in rows as any placement.
ExactOptimum FindExactOptimum(const std::vector<WorkerSpec>& workers, const Workload& jobs, const ModelOptions& options = {},
                              long max_nodes = 20'000'000);

}  // namespace weir

#endif  // WEIR_ENV_METRICS_EXACT_OPTIMUM_H_
