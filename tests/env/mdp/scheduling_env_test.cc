#include "env/mdp/scheduling_env.h"

#include <gtest/gtest.h>

#include <cmath>

#include "env/core/rng.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

double PlayRandomly(SchedulingEnv* env, std::uint64_t seed, std::vector<int>* actions) {
  Rng rng(seed);
  env->Reset(seed);
  while (!env->done()) {
    const Observation& o = env->observation();
    EXPECT_EQ(o.mask.size(), o.actions.size());
    EXPECT_EQ(o.action_features.size(), o.actions.size() * kCandidateFeatures);
    EXPECT_EQ(o.job_features.size(), o.job_ids.size() * kJobFeatures);
    EXPECT_EQ(o.worker_features.size(), static_cast<std::size_t>(env->state().num_workers()) * kWorkerFeatures);
    EXPECT_EQ(o.global_features.size(), static_cast<std::size_t>(kGlobalFeatures));
    EXPECT_EQ(o.action_worker_begin.size(), o.actions.size() + 1);
    for (const std::vector<float>* features : {&o.action_features, &o.job_features, &o.worker_features, &o.global_features}) {
      for (float f : *features) EXPECT_TRUE(std::isfinite(f) && std::abs(f) < 50) << f;
    }
    std::vector<int> legal;
    for (int i = 0; i < o.num_actions(); ++i) {
      if (!o.mask[i]) continue;
      EXPECT_FALSE(env->state().WhyIllegal(o.actions[i])) << env->state().WhyIllegal(o.actions[i]).value_or("");
      legal.push_back(i);
    }
    EXPECT_FALSE(legal.empty());
    if (legal.empty()) break;
    const int chosen = legal[rng.Below(legal.size())];
    actions->push_back(chosen);
    env->Step(chosen);
    testing::ExpectConsistent(env->state());
  }
  double sum = 0;
  for (const JobRecord& record : env->simulator().records()) {
    EXPECT_TRUE(record.finished());
    sum += record.jct();
  }
  EXPECT_NEAR(env->total_reward(), -sum, 1e-9 * sum);
  return env->total_reward();
}

TEST(SchedulingEnvTest, RandomPlayRespectsTheMaskAndTheRewardSumsToJct) {
  for (const char* cluster : {"small", "edge8-tight"}) {
    SchedulingEnv env(testing::StudyEpisodes(cluster, 0.9, 25));
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      std::vector<int> first, second;
      const double reward = PlayRandomly(&env, seed, &first);
      EXPECT_EQ(reward, PlayRandomly(&env, seed, &second));
      EXPECT_EQ(first, second);
    }
  }
}

TEST(SchedulingEnvTest, RandomPlayWithPreemptionAndMigration) {
  ObservationOptions options;
  options.migrate = true;
  SchedulingEnv env(testing::StudyEpisodes("small", 0.9, 25), options);
  std::vector<int> actions;
  PlayRandomly(&env, 3, &actions);
}

TEST(SchedulingEnvTest, WaitIsMaskedWhereNothingRunsAndSomethingFits) {
  SchedulingEnv env(testing::StudyEpisodes("small", 0.5, 5));
  const Observation& o = env.Reset(1);
  ASSERT_GT(o.num_actions(), 1);
  EXPECT_EQ(o.actions[0].kind, Action::Kind::kWait);
  EXPECT_FALSE(o.mask[0]);
  EXPECT_TRUE(o.mask[1]);
}

TEST(SchedulingEnvTest, CopyGoesOnAlone) {
  SchedulingEnv env(testing::StudyEpisodes("small", 0.9, 10));
  env.Reset(1);
  env.Step(1);
  SchedulingEnv copy = env;
  copy.Step(0);
  EXPECT_LT(env.state().now(), copy.state().now());
  env.Step(0);
  EXPECT_EQ(env.observation().action_features, copy.observation().action_features);
}

TEST(ObservationTest, ShowsReservationsDelayRemainingTimesAndWait) {
  // Worker 0 is fast and full, worker 1 slow and free: the waiting job waits for worker 0 and reserves it.
  std::vector<WorkerSpec> workers = {{"fast", 10, 4, 1, 0, 0, 1}, {"slow", 1, 4, 1, 0, 0, 2}};
  ClusterState state(workers);
  JobSpec job;
  job.subgraphs = {{100, 1, 0}};
  state.AddJob(job);
  state.Place(0, {0});
  job.id = 1;
  state.AddJob(job);
  Observer observer;
  Observation o;
  observer.Observe(state, &o);
  ASSERT_EQ(o.num_actions(), 2);
  auto action = [&](int i, CandidateFeature f) { return o.action_features[i * kCandidateFeatures + static_cast<int>(f)]; };
  auto worker = [&](int w, WorkerFeature f) { return o.worker_features[w * kWorkerFeatures + static_cast<int>(f)]; };
  EXPECT_EQ(o.prices[1].own, 100);
  EXPECT_EQ(o.prices[1].wait, 10 + 10);
  EXPECT_NEAR(action(1, CandidateFeature::kLogWaitOverOwn), std::log(0.2), 1e-6);
  EXPECT_NEAR(action(1, CandidateFeature::kStretch), std::log(10), 1e-6);
  EXPECT_GT(worker(0, WorkerFeature::kReserved), 0);
  EXPECT_EQ(worker(0, WorkerFeature::kClaims), 1);
  EXPECT_NEAR(worker(0, WorkerFeature::kFirstRemaining), 0, 1e-6);
  // A second job on the slow worker: sharing delays the first.
  state.Place(1, {1});
  job.id = 2;
  state.AddJob(job);
  observer.Observe(state, &o);
  ASSERT_EQ(o.num_actions(), 2);
  EXPECT_EQ(o.prices[1].own, 200);
  EXPECT_EQ(o.prices[1].delay, 100);  // 200 s each while both are there, at 2 s in place of 1
  EXPECT_EQ(o.prices[1].least_remaining, 100);
  EXPECT_EQ(action(1, CandidateFeature::kShares), 1);
}

TEST(ObservationTest, NamesMatchTheSchema) {
  EXPECT_EQ(GlobalFeatureNames().size(), static_cast<std::size_t>(kGlobalFeatures));
  EXPECT_EQ(WorkerFeatureNames().size(), static_cast<std::size_t>(kWorkerFeatures));
  EXPECT_EQ(JobFeatureNames().size(), static_cast<std::size_t>(kJobFeatures));
  EXPECT_EQ(CandidateFeatureNames().size(), static_cast<std::size_t>(kCandidateFeatures));
}

}  // namespace
}  // namespace weir
