// Fields of the event log that let a run be played again in the simulator (read by env/workload/recorded_run.h).
#ifndef WEIR_COORDINATOR_RUN_LOG_H_
#define WEIR_COORDINATOR_RUN_LOG_H_

#include <string>
#include <vector>

#include "env/core/event_log.h"
#include "env/sim/cluster_state.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

EventLog::Fields StartFields(const ModelOptions& model, const std::string& scheduler);
EventLog::Fields WorkerFields(const WorkerSpec& spec, WorkerId id);
EventLog::Fields PlanFields(const JobSpec& spec, const std::string& model);
// `info` has the predictions of this placement; `names` of the workers by subgraph.
EventLog::Fields PlaceFields(const wire::JobInfo& info, const Placement& placement, std::vector<std::string> names);
EventLog::Fields FinishFields(const wire::JobInfo& info);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_RUN_LOG_H_
