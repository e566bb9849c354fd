#include "env/mdp/scheduling_env.h"

#include "env/core/check.h"

namespace weir {

SchedulingEnv::SchedulingEnv(EpisodeSource source, ObservationOptions options, ModelOptions model)
    : source_(std::move(source)), model_(model), observer_(options) {}

const Observation& SchedulingEnv::Reset(std::uint64_t seed) {
  Episode episode = source_(seed);
  simulator_.emplace(std::move(episode.workers), std::move(episode.jobs), model_, std::move(episode.events));
  simulator_->set_keep_actions(false);
  total_reward_ = 0;
  done_ = !simulator_->Advance();
  Observe();
  return observation_;
}

void SchedulingEnv::Observe() {
  const ClusterState& state = simulator_->state();
  if (state.has_estimates()) {
    observer_.Observe(state.WithEstimates(), &observation_);
  } else {
    observer_.Observe(state, &observation_);
  }
}

SchedulingEnv::StepResult SchedulingEnv::Step(int index) {
  WEIR_CHECK(index >= 0 && index < observation_.num_actions() && observation_.mask[index]) << "action" << index << "is masked";
  return StepAction(observation_.actions[index]);
}

SchedulingEnv::StepResult SchedulingEnv::StepAction(const Action& action) {
  WEIR_CHECK(!done_);
  StepResult result;
  if (action.kind == Action::Kind::kWait) {
    const SimTime before = simulator_->state().now();
    const double job_seconds = simulator_->job_seconds();
    done_ = !simulator_->Advance() || simulator_->Done();
    result.elapsed = simulator_->state().now() - before;
    result.reward = -(simulator_->job_seconds() - job_seconds);
  } else {
    const std::optional<std::string> why = simulator_->state().WhyIllegal(action);
    WEIR_CHECK(!why) << *why;
    simulator_->Apply(action);
    done_ = simulator_->Done();
  }
  result.done = done_;
  total_reward_ += result.reward;
  Observe();
  return result;
}

}  // namespace weir
