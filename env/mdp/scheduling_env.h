// The scheduling problem as a Markov decision process: Reset, Step, observation, mask, reward.
// A step is one action; after kWait the clock moves on to the next event. The reward of a step is -(integral of jobs in system
// over the time that passed), so that the rewards of an episode sum to -(sum of JCT). Deterministic given the episode source.
#ifndef WEIR_ENV_MDP_SCHEDULING_ENV_H_
#define WEIR_ENV_MDP_SCHEDULING_ENV_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "env/mdp/observation.h"
#include "env/sim/simulator.h"

namespace weir {

struct Episode {
  std::vector<WorkerSpec> workers;
  Workload jobs;
  std::vector<WorkerEvent> events = {};
};
// The episode of a seed; equal seeds give equal episodes. Must be a pure function (called from several threads).
using EpisodeSource = std::function<Episode(std::uint64_t seed)>;

// Copyable: a copy continues independently from the same point, at the cost of the episode's records. Save and Restore cost
// O(live jobs).
class SchedulingEnv {
 public:
  explicit SchedulingEnv(EpisodeSource source, ObservationOptions options = {}, ModelOptions model = {});

  // Starts the episode at its first decision point (the first event).
  const Observation& Reset(std::uint64_t seed);
  struct StepResult {
    double reward = 0;   // job-seconds, <= 0
    double elapsed = 0;  // seconds that passed
    bool done = false;   // every job finished, or nothing can happen any more
  };
  // Takes actions[index] of the present observation. REQUIRES: mask[index] != 0, not done.
  StepResult Step(int index);
  // Takes any legal action, also one that is not in the list (a baseline's).
  StepResult StepAction(const Action& action);

  // A point of the running episode to come back to (see Simulator::Save for what a snapshot is good for).
  struct Snapshot {
    Simulator::Snapshot simulator;
    Observation observation;
    bool done = false;
    double total_reward = 0;
  };
  Snapshot Save() const { return {simulator_->Save(), observation_, done_, total_reward_}; }
  void Restore(const Snapshot& snapshot) {
    simulator_->Restore(snapshot.simulator);
    observation_ = snapshot.observation;
    done_ = snapshot.done;
    total_reward_ = snapshot.total_reward;
  }

  const Observation& observation() const { return observation_; }
  bool done() const { return done_; }
  const ClusterState& state() const { return simulator_->state(); }
  const Simulator& simulator() const { return *simulator_; }
  double total_reward() const { return total_reward_; }

 private:
  void Observe();  // of what schedulers may see, see ClusterState::WithEstimates

  EpisodeSource source_;
  ModelOptions model_;
  Observer observer_;
  std::optional<Simulator> simulator_;
  Observation observation_;
  bool done_ = true;
  double total_reward_ = 0;
};

}  // namespace weir

#endif  // WEIR_ENV_MDP_SCHEDULING_ENV_H_
