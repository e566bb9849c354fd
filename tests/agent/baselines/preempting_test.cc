#include "agent/baselines/preempting.h"

#include <gtest/gtest.h>

#include "agent/baselines/baselines.h"
#include "env/metrics/jct.h"
#include "env/workload/scenario.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

JobSpec Job(JobId id, double flop, SimTime arrival, double memory = 1) {
  JobSpec job;
  job.id = id;
  job.arrival = arrival;
  job.subgraphs = {{flop, memory, 0}};
  return job;
}
WorkerSpec Worker(double flops, int residents = 1) {
  return {"w", flops, 10, 1, 0, 0, residents};
}
std::vector<JobRecord> Play(const std::string& name, std::vector<WorkerSpec> workers, std::vector<JobSpec> jobs) {
  Simulator simulator(std::move(workers), MakeWorkload(std::move(jobs)));
  auto scheduler = MakeBaseline(name);
  EXPECT_TRUE(RunEpisode(&simulator, scheduler.get()).empty());
  return simulator.records();
}

TEST(SrptTest, PreemptsForAShorterJobOnlyWhereTheReloadPays) {
  // A job of 1000 s is preempted at 10 for one of 100 s, and goes on at 110 after 1 + 2 s of reload.
  auto records = Play("srpt-eft", {Worker(1)}, {Job(0, 1000, 0), Job(1, 100, 10)});
  EXPECT_EQ(records[1].finish, 110);
  EXPECT_EQ(records[0].finish, 110 + 3 + 990);
  EXPECT_EQ(records[0].preemptions, 1);
  // 990 s left against 988: less than the 3 s of reload.
  records = Play("srpt-eft", {Worker(1)}, {Job(0, 1000, 0), Job(1, 988, 10)});
  EXPECT_EQ(records[0].finish, 1000);
  EXPECT_EQ(records[0].preemptions, 0);
}

TEST(LasTest, AJobOfTheFirstQueuePreemptsTheOneOfGreatestAttainedTime) {
  // At 1500 both running jobs are in the second queue (1500 and 1000 s); the older is preempted. 500 s later it goes on.
  auto records = Play("las", {Worker(1), Worker(1)}, {Job(0, 3000, 0), Job(1, 3000, 500), Job(2, 500, 1500)});
  EXPECT_EQ(records[2].finish, 2000);
  EXPECT_EQ(records[0].preemptions, 1);
  EXPECT_EQ(records[1].preemptions, 0);
  EXPECT_EQ(records[0].finish, 2000 + 3 + 1500);
  // Before 900 s nobody is preempted.
  records = Play("las", {Worker(1), Worker(1)}, {Job(0, 3000, 0), Job(1, 3000, 500), Job(2, 500, 800)});
  EXPECT_EQ(records[0].preemptions + records[1].preemptions, 0);
  EXPECT_EQ(records[2].start, 3000);
}

TEST(LasTest, ByAreaCountsWorkers) {
  // A job on two workers attains 2 s a second: after 500 s it is in the second queue, by time alone it isn't.
  JobSpec wide = Job(0, 0, 0);
  wide.subgraphs = {{1000, 8, 0}, {1000, 8, 0}};
  wide.arcs = {{0, 1, 0.001}};
  for (const std::string name : {"las", "las-2d"}) {
    const auto records = Play(name, {Worker(1), Worker(1)}, {wide, Job(1, 10, 500)});
    EXPECT_EQ(records[0].preemptions, name == "las" ? 0 : 1) << name;
  }
}

TEST(PreemptingRuleTest, PreemptsAndMigratesByHand) {
  // The long job sits on the fast worker, alone; a short one arrives. W = 990 + 10; d = 10 on the fast worker: preempted. At the
  // end of the short job both move up.
  auto records = Play("sbt-eft-preempt", {Worker(10)}, {Job(0, 10000, 0), Job(1, 100, 10)});
  EXPECT_EQ(records[0].preemptions, 1);
  EXPECT_EQ(records[1].finish, 20);
  EXPECT_EQ(records[0].finish, 20 + 3 + 990);
  // A job started on a slow worker moves to the fast one when that is free: 1 + 2 s of stop.
  records = Play("sbt-eft-preempt", {Worker(10), Worker(1)}, {Job(0, 1000, 0), Job(1, 400, 1)});
  EXPECT_EQ(records[1].migrations, 1);
  EXPECT_EQ(records[0].finish, 100);
  EXPECT_DOUBLE_EQ(records[1].finish, 100 + 3 + (400 - 99) / 10.0);
}

// The independent implementation's episode with preemption and migration (its rule's parameters aren't known): ours replays
// there, and preempts and migrates too.
TEST(PreemptingRuleTest, GainsOnTheRuleThatNeverWaits) {
  double with = 0, without = 0;
  int preemptions = 0, migrations = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Episode episode = testing::StudyEpisodes("edge8", 0.9, 100)(seed);
    for (const bool preempt : {true, false}) {
      Simulator simulator(episode.workers, episode.jobs);
      auto scheduler = MakeBaseline(preempt ? "sbt-eft-preempt" : "sbt-eft");
      ASSERT_TRUE(RunEpisode(&simulator, scheduler.get()).empty());
      const JctSummary summary = Summarize(simulator.records());
      (preempt ? with : without) += summary.mean_jct;
      preemptions += summary.preemptions;
      migrations += summary.migrations;
    }
  }
  EXPECT_LT(with, 0.95 * without);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(migrations, 0);
}

TEST(ProjectMoveTest, MatchesRunningTheCluster) {
  int moves = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Episode episode = testing::StudyEpisodes("small", 2.0, 8)(seed);
    ClusterState state(episode.workers);
    for (const auto& job : episode.jobs) {
      state.AdvanceTo(std::min(job->arrival, state.NextEventTime()));
      state.AddJob(job);
      const auto candidates = GenerateCandidates(state, job->id);
      if (!candidates.empty()) state.Place(job->id, candidates[seed % candidates.size()].placement);
    }
    const auto finishes = [](ClusterState s, JobId own_id, double* own) {
      std::map<JobId, double> at;
      const SimTime start = s.now();
      while (!s.running().empty()) {
        s.AdvanceTo(s.NextEventTime());
        for (JobId id : s.CompletedJobs()) {
          at[id] = s.now() - start;
          s.Finish(id);
        }
      }
      *own = at[own_id];
      double sum = 0;
      for (const auto& [id, t] : at) sum += t;
      return sum;
    };
    for (JobId id : std::vector<JobId>(state.running().begin(), state.running().end())) {
      for (WorkerId w = 0; w < state.num_workers(); ++w) {
        const Placement target(state.job(id).placement.size(), w);
        if (state.WhyIllegal(Action::Migrate(id, target))) continue;
        ClusterState moved = state;
        moved.Migrate(id, target);
        double own = 0, before_own = 0;
        const double after = finishes(moved, id, &own), before = finishes(state, id, &before_own);
        const MoveProjection projection = ProjectMove(state, id, target);
        EXPECT_NEAR(projection.after - projection.before, after - before, 1e-6 * before);
        EXPECT_NEAR(projection.finish, own, 1e-9 * own);
        ++moves;
      }
    }
  }
  EXPECT_GT(moves, 20);
}

}  // namespace
}  // namespace weir
