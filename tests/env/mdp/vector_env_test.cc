#include "env/mdp/vector_env.h"

#include <gtest/gtest.h>

#include "env/core/rng.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

// A legal action that depends on the observation and the step alone.
int Choose(const Observation& o, std::uint64_t salt) {
  Rng rng(Mix64(salt, static_cast<std::uint64_t>(o.num_actions())));
  int chosen = static_cast<int>(rng.Below(o.actions.size()));
  while (!o.mask[chosen]) chosen = (chosen + 1) % o.num_actions();
  return chosen;
}

TEST(VectorEnvTest, IsTheSameOnAnyNumberOfThreadsAndAsOneByOne) {
  const EpisodeSource source = testing::StudyEpisodes("small", 0.9, 15);
  const std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 7};
  std::vector<double> alone;
  for (std::uint64_t seed : seeds) {
    SchedulingEnv env(source);
    env.Reset(seed);
    while (!env.done()) env.Step(Choose(env.observation(), 5));
    alone.push_back(env.total_reward());
  }
  for (int threads : {1, 2, 5}) {
    VectorEnv played(static_cast<int>(seeds.size()), source, threads);
    played.Reset(seeds);
    played.Play([](int, const Observation& o) { return Choose(o, 5); });
    VectorEnv stepped(static_cast<int>(seeds.size()), source, threads);
    stepped.Reset(seeds);
    std::vector<double> sum(seeds.size(), 0.0);
    for (bool any = true; any;) {
      any = false;
      std::vector<int> actions;
      for (int i = 0; i < stepped.size(); ++i)
        actions.push_back(stepped.env(i).done() ? 0 : Choose(stepped.env(i).observation(), 5));
      const auto& results = stepped.Step(actions);
      for (int i = 0; i < stepped.size(); ++i) {
        sum[i] += results[i].reward;
        any = any || !results[i].done;
      }
    }
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      EXPECT_EQ(played.env(i).total_reward(), alone[i]);
      EXPECT_EQ(stepped.env(i).total_reward(), alone[i]);
      EXPECT_EQ(sum[i], alone[i]);
    }
  }
}

TEST(SchedulingEnvTest, RestoredEpisodesRepeat) {
  SchedulingEnv env(testing::StudyEpisodes("edge8", 0.9, 20));
  env.Reset(3);
  for (int i = 0; i < 25; ++i) env.Step(Choose(env.observation(), 1));
  const SchedulingEnv::Snapshot snapshot = env.Save();
  std::vector<double> totals;
  for (std::uint64_t salt : {7, 8, 7}) {
    env.Restore(snapshot);
    EXPECT_EQ(env.total_reward(), snapshot.total_reward);
    while (!env.done()) env.Step(Choose(env.observation(), salt));
    double sum = 0;
    for (const JobRecord& record : env.simulator().records()) sum += record.jct();
    EXPECT_NEAR(env.total_reward(), -sum, 1e-9 * sum);
    totals.push_back(env.total_reward());
  }
  EXPECT_EQ(totals[0], totals[2]);
  EXPECT_NE(totals[0], totals[1]);
}

}  // namespace
}  // namespace weir
