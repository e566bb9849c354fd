// What every scheduler must hold on every episode: legal actions only, time never goes back, memory and residencies never broken,
// the reward sums to -(sum of JCT), the same seed gives the same episode.
#ifndef WEIR_TESTS_TESTING_ENV_CONTRACT_H_
#define WEIR_TESTS_TESTING_ENV_CONTRACT_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "env/mdp/scheduler.h"
#include "env/mdp/scheduling_env.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir::testing {

inline const Cluster& StudyCluster(const std::string& name) {
  static std::map<std::string, Cluster> clusters;
  auto [entry, added] = clusters.try_emplace(name);
  if (added) entry->second = ReadCluster(std::string(WEIR_SOURCE_DIR) + "/configs/clusters/" + name + ".yaml");
  return entry->second;
}
inline const ModelMix& StudyMix() {
  static const ModelMix mix = ReadModelMix(std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml");
  return mix;
}
inline EpisodeSource StudyEpisodes(const std::string& cluster, double load, int jobs) {
  return [=](std::uint64_t seed) {
    const std::vector<WorkerSpec>& workers = StudyCluster(cluster).workers;
    return Episode{workers, GenerateWorkload(StudyMix(), workers, {load, jobs, seed})};
  };
}

// Recomputed from the placements alone.
inline void ExpectConsistent(const ClusterState& state) {
  for (int w = 0; w < state.num_workers(); ++w) {
    double memory = 0;
    int residents = 0, cuts = 0;
    for (JobId id : state.running()) {
      const LiveJob& job = state.job(id);
      bool here = false, cut = false;
      for (std::size_t i = 0; i < job.placement.size(); ++i) {
        if (job.placement[i] != w) continue;
        here = true;
        memory += job.spec->subgraphs[i].memory_bytes;
      }
      for (const ArcSpec& arc : job.spec->arcs) cut = cut || (job.placement[arc.from] == w) != (job.placement[arc.to] == w);
      residents += here;
      cuts += cut;
    }
    const WorkerSpec& spec = state.worker(w);
    ASSERT_LE(residents, spec.max_residents);
    ASSERT_LE(memory, spec.memory_bytes * (1 + 1e-8));
    ASSERT_EQ(state.loads()[w].residents, residents);
    ASSERT_EQ(state.loads()[w].cut_jobs, cuts);
    ASSERT_EQ(state.residents(w).size(), static_cast<std::size_t>(residents));
    ASSERT_NEAR(state.free_memory(w), spec.memory_bytes - memory, 1e-6 * spec.memory_bytes);
  }
  ASSERT_EQ(state.num_jobs(), static_cast<int>(state.waiting().size() + state.running().size()));
  for (JobId id : state.running()) {
    const LiveJob& job = state.job(id);
    const double time =
        job.time_factor * IterationTime(*job.spec, job.placement, state.workers(), state.loads(), state.options());
    ASSERT_NEAR(job.iteration_time, time, 1e-12 * time);
    ASSERT_GE(state.RemainingIterations(id), 0);
    ASSERT_GE(state.PredictedFinish(id), state.now());
  }
}

struct Trace {
  std::vector<Action> actions;
  double reward = 0;
  std::vector<JobRecord> records;
};

// Plays one episode through SchedulingEnv with a scheduler's actions.
inline Trace PlayContract(Scheduler* scheduler, const EpisodeSource& source, std::uint64_t seed) {
  Trace trace;
  SchedulingEnv env(source);
  env.Reset(seed);
  scheduler->Reset();
  SimTime before = env.state().now();
  while (!env.done()) {
    const Action action = scheduler->Decide(env.state());
    EXPECT_FALSE(env.state().WhyIllegal(action)) << scheduler->name() << ": " << env.state().WhyIllegal(action).value_or("");
    if (env.state().WhyIllegal(action)) break;
    const SchedulingEnv::StepResult result = env.StepAction(action);
    EXPECT_LE(result.reward, 0);
    EXPECT_GE(env.state().now(), before);
    EXPECT_EQ(action.kind == Action::Kind::kWait ? before + result.elapsed : before, env.state().now());
    before = env.state().now();
    ExpectConsistent(env.state());
    if (::testing::Test::HasFatalFailure()) break;
    trace.actions.push_back(action);
  }
  trace.reward = env.total_reward();
  trace.records = env.simulator().records();
  return trace;
}

inline void ExpectSchedulerContract(Scheduler* scheduler, const EpisodeSource& source, std::uint64_t seed) {
  const Trace first = PlayContract(scheduler, source, seed);
  double sum = 0;
  for (const JobRecord& record : first.records) {
    ASSERT_TRUE(record.finished()) << scheduler->name() << " leaves job " << record.id;
    ASSERT_GE(record.start, record.arrival);
    ASSERT_GT(record.finish, record.start);
    sum += record.jct();
  }
  EXPECT_NEAR(first.reward, -sum, 1e-9 * sum);
  const Trace second = PlayContract(scheduler, source, seed);
  EXPECT_EQ(first.actions, second.actions);
  EXPECT_EQ(first.reward, second.reward);
}

}  // namespace weir::testing

#endif  // WEIR_TESTS_TESTING_ENV_CONTRACT_H_
