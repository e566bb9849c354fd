// The one interface between decisions and the world: baselines, the policy and lookahead implement it, the simulator and the
// coordinator call it.
#ifndef WEIR_ENV_MDP_SCHEDULER_H_
#define WEIR_ENV_MDP_SCHEDULER_H_

#include <string>

#include "env/sim/action.h"
#include "env/sim/cluster_state.h"
#include "env/sim/simulator.h"

namespace weir {

// At every event (after all completions and arrivals of that instant) the caller asks Decide again and again, applying each
// action to the state, until it returns kWait. That sequence is one pass. Decide must return legal actions only
// (ClusterState::WhyIllegal), must end every pass, and depends on nothing but the states it was shown since Reset.
// Not thread-safe; one object per thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string name() const = 0;
  // Forgets everything; called before each episode.
  virtual void Reset() {}
  virtual Action Decide(const ClusterState& state) = 0;
};

// Asks for one action, showing the state, or where jobs carry estimates of N, the state with the estimates.
Action DecideOn(const ClusterState& state, Scheduler* scheduler);

// Runs one pass at the simulator's present instant. Throws Error(kInfrastructure) naming the scheduler for an illegal action or a
// pass of more than 10,000 actions. Returns the number of actions taken.
int RunPass(Simulator* simulator, Scheduler* scheduler);

// Runs the episode from where the simulator stands to its end: Advance, pass, Advance, pass ... (Reset first).
// Jobs that the scheduler leaves waiting when nothing else can happen stay unfinished in the records; their ids are returned.
std::vector<JobId> RunEpisode(Simulator* simulator, Scheduler* scheduler);

}  // namespace weir

#endif  // WEIR_ENV_MDP_SCHEDULER_H_
