#include "env/mdp/scheduler.h"

#include "env/core/error.h"

namespace weir {

Action DecideOn(const ClusterState& state, Scheduler* scheduler) {
  return state.has_estimates() ? scheduler->Decide(state.WithEstimates()) : scheduler->Decide(state);
}

int RunPass(Simulator* simulator, Scheduler* scheduler) {
  constexpr int kMostActions = 10000;
  for (int taken = 0; taken <= kMostActions; ++taken) {
    const Action action = DecideOn(simulator->state(), scheduler);
    if (action.kind == Action::Kind::kWait) return taken;
    if (auto why = simulator->state().WhyIllegal(action)) {
      throw Failure(ExitCode::kInfrastructure, "scheduler {}: illegal action at t={:.17g}: {}", scheduler->name(),
                    simulator->state().now(), *why);
    }
    simulator->Apply(action);
  }
  throw Failure(ExitCode::kInfrastructure, "scheduler {}: more than {} actions at t={:.17g}", scheduler->name(), kMostActions,
                simulator->state().now());
}

std::vector<JobId> RunEpisode(Simulator* simulator, Scheduler* scheduler) {
  scheduler->Reset();
  while (simulator->Advance()) RunPass(simulator, scheduler);
  return {simulator->state().waiting().begin(), simulator->state().waiting().end()};
}

}  // namespace weir
