#include "env/mdp/vector_env.h"

#include "env/core/check.h"
#include "env/core/parallel.h"

namespace weir {

VectorEnv::VectorEnv(int count, const EpisodeSource& source, int threads, ObservationOptions options, ModelOptions model)
    : threads_(threads), results_(count) {
  WEIR_CHECK_GE(count, 1);
  envs_.reserve(count);
  for (int i = 0; i < count; ++i) envs_.emplace_back(source, options, model);
}

void VectorEnv::Reset(const std::vector<std::uint64_t>& seeds) {
  WEIR_CHECK_EQ(seeds.size(), envs_.size());
  ParallelFor(threads_, size(), [&](int i) { envs_[i].Reset(seeds[i]); });
}

const std::vector<SchedulingEnv::StepResult>& VectorEnv::Step(const std::vector<int>& actions) {
  WEIR_CHECK_EQ(actions.size(), envs_.size());
  ParallelFor(threads_, size(), [&](int i) {
    results_[i] = envs_[i].done() ? SchedulingEnv::StepResult{0, 0, true} : envs_[i].Step(actions[i]);
  });
  return results_;
}

void VectorEnv::Play(const std::function<int(int, const Observation&)>& choose) {
  ParallelFor(threads_, size(), [&](int i) {
    while (!envs_[i].done()) envs_[i].Step(choose(i, envs_[i].observation()));
  });
}

std::vector<EpisodeResult> RunEpisodes(const EpisodeSource& source, const std::vector<std::uint64_t>& seeds,
                                       const std::function<std::unique_ptr<Scheduler>(std::uint64_t seed)>& make,
                                       const ModelOptions& model, int threads) {
  std::vector<EpisodeResult> results(seeds.size());
  ParallelFor(threads, static_cast<int>(seeds.size()), [&](int i) {
    Episode episode = source(seeds[i]);
    Simulator simulator(std::move(episode.workers), std::move(episode.jobs), model, std::move(episode.events));
    simulator.set_keep_actions(false);
    const std::unique_ptr<Scheduler> scheduler = make(seeds[i]);
    results[i].left = RunEpisode(&simulator, scheduler.get());
    results[i].records = simulator.records();
    results[i].job_seconds = simulator.job_seconds();
  });
  return results;
}

}  // namespace weir
