// The coordinator process: takes jobs, decides with any Scheduler where they run, tells the workers, survives its own end.
// Sockets, disk and threads are here and in coordinator.cc; what it decides is DecisionLoop (decision_loop.h), without any of
// them.
#ifndef WEIR_COORDINATOR_COORDINATOR_H_
#define WEIR_COORDINATOR_COORDINATOR_H_

#include <functional>
#include <memory>
#include <string>

#include "coordinator/planning.h"
#include "env/mdp/scheduler.h"

namespace weir::coordinator {

struct CoordinatorOptions {
  std::string listen = "tcp://127.0.0.1:7700";
  std::string artifact_listen;  // empty: the same host, the next port (any free one where `listen` says *)
  std::string state_folder;     // made where missing: state.db, artifacts/, events.jsonl, lock
  std::function<std::unique_ptr<Scheduler>()> make_scheduler;
  std::string policy_hash;                          // empty unless a policy decides
  std::function<JobPlan(const PlanRequest&)> plan;  // PlanJob; runs in a thread of its own
  ModelOptions model{.physical = true, .restart_seconds = 2};
  bool corrections = true;   // predictions take in what earlier runs taught (coordinator/corrections.h)
  double suspect_after = 4;  // seconds of silence: no new jobs there
  double lost_after = 60;    // the worker is given up; a job's own lost_after moves that job earlier or later
  std::string version;
  int stop_fd = -1;  // readable: end
  // Called once both sockets listen.
  std::function<void(const std::string& address)> on_ready;
};

// Runs until stop_fd is readable or a ShutdownRequest came over loopback. Throws Error: kNotFound where the address or the state
// folder is in use, kInfrastructure for the disk.
void RunCoordinator(const CoordinatorOptions& options);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_COORDINATOR_H_
