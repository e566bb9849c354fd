// Many episodes at once, on all cores. Each environment is a SchedulingEnv of its own and lands at its own index, so results are
// the same on any number of threads.
#ifndef WEIR_ENV_MDP_VECTOR_ENV_H_
#define WEIR_ENV_MDP_VECTOR_ENV_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "env/mdp/scheduler.h"
#include "env/mdp/scheduling_env.h"

namespace weir {

class VectorEnv {
 public:
  // `threads`: 0 for one a core. REQUIRES: count >= 1.
  VectorEnv(int count, const EpisodeSource& source, int threads = 0, ObservationOptions options = {}, ModelOptions model = {});

  int size() const { return static_cast<int>(envs_.size()); }
  const SchedulingEnv& env(int i) const { return envs_[i]; }

  // Environment i starts the episode seeds[i]. REQUIRES: seeds.size() == size().
  void Reset(const std::vector<std::uint64_t>& seeds);
  // One step of every environment that isn't done: actions[i] is an index into env(i).observation(); ignored where env(i) is
  // done, whose result then is {0, 0, true}. REQUIRES: actions.size() == size(), legal.
  const std::vector<SchedulingEnv::StepResult>& Step(const std::vector<int>& actions);
  // Plays every environment to its end: choose(i, observation) names the action of environment i. It is called from several
  // threads, for one i from one thread at a time.
  void Play(const std::function<int(int, const Observation&)>& choose);

 private:
  int threads_;
  std::vector<SchedulingEnv> envs_;
  std::vector<SchedulingEnv::StepResult> results_;
};

// What a scheduler makes of an episode.
struct EpisodeResult {
  std::vector<JobRecord> records;
  std::vector<JobId> left;  // jobs that it never finished
  double job_seconds = 0;
};
// Runs one whole episode a seed, in parallel; result i is that of seeds[i]. `make` gives a fresh scheduler a call (thread-safe).
std::vector<EpisodeResult> RunEpisodes(const EpisodeSource& source, const std::vector<std::uint64_t>& seeds,
                                       const std::function<std::unique_ptr<Scheduler>(std::uint64_t seed)>& make,
                                       const ModelOptions& model = {}, int threads = 0);

}  // namespace weir

#endif  // WEIR_ENV_MDP_VECTOR_ENV_H_
