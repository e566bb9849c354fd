// From a placement to what each worker is told.
#ifndef WEIR_COORDINATOR_DISPATCH_H_
#define WEIR_COORDINATOR_DISPATCH_H_

#include <string>
#include <vector>

#include "coordinator/planning.h"
#include "env/sim/spec.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

// A stage: consecutive subgraphs (topological order) on one worker.
struct Stage {
  WorkerId worker = -1;
  double flop = 0;  // per iteration
  double memory_bytes = 0;
  bool acknowledged = false;  // the worker has the Assign
  bool done = false;
  double sent_at = -1;  // of the last Assign
};

struct StagePlan {
  std::vector<Stage> stages;
  std::vector<int> stage_of_subgraph;
};
// REQUIRES: one worker per subgraph.
StagePlan MergeStages(const JobSpec& spec, const Placement& placement);

// The Assign of one stage. `bulk_address` by stage.
wire::Assign MakeAssign(const wire::SubmitRequest& submit, const JobPlan& plan, const StagePlan& stages, int stage,
                        std::int64_t job, int attempt, const std::vector<std::string>& bulk_address);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_DISPATCH_H_
