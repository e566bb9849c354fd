// What a job asks of the workers that run its parts, beyond memory: `resources.gpus`, `min_link` and `arch` of the job file.
#ifndef WEIR_COORDINATOR_RESOURCES_H_
#define WEIR_COORDINATOR_RESOURCES_H_

#include <functional>
#include <optional>
#include <string>

#include "env/sim/cluster_state.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

// Why the worker can't run a part of the job, as a clause; nullopt where it can.
std::optional<std::string> WhyNotSuited(const wire::SubmitRequest& submit, const wire::Hello& worker);

// `placement` where all its workers are allowed. Otherwise the workers that aren't are replaced, part by part in topological
// order, by the allowed one that makes the job's iteration shortest; nullopt where nothing fits now. Schedulers don't know of
// these conditions.
std::optional<Placement> OnAllowedWorkers(const ClusterState& state, JobId job, const Placement& placement,
                                          const std::function<bool(WorkerId)>& allowed);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_RESOURCES_H_
