#include "env/sim/cluster_state.h"

#include <gtest/gtest.h>

#include "env/core/rng.h"
#include "env/mdp/candidates.h"
#include "env/sim/simulator.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

WorkerSpec Worker(double flops, int residents = 2) {
  return {"w", flops, 10, 2, 0, 0.5, residents};
}
JobSpec Job(JobId id, double flop, double iterations, double memory = 1) {
  JobSpec job;
  job.id = id;
  job.iterations = iterations;
  job.subgraphs = {{flop, memory, 0}};
  return job;
}

TEST(ClusterStateTest, RealReportsCorrectTheModel) {
  ClusterState state({Worker(1)});
  state.AddJob(Job(3, 1, 100));
  state.Place(3, {0});
  EXPECT_EQ(state.PredictedFinish(3), 100);
  state.AdvanceTo(10);
  EXPECT_EQ(state.IterationsDone(3), 10);
  state.SetIterationsDone(3, 5);
  EXPECT_EQ(state.PredictedFinish(3), 105);
  state.SetTimeFactor(3, 2);
  EXPECT_EQ(state.PredictedFinish(3), 200);
  state.SetResumeAt(3, 20);
  state.AdvanceTo(15);
  EXPECT_EQ(state.IterationsDone(3), 5);
  EXPECT_EQ(state.PredictedFinish(3), 210);
  state.AdvanceTo(500);  // the real job is late: it is predicted to finish now, and stays
  EXPECT_EQ(state.PredictedFinish(3), 500);
  EXPECT_EQ(state.RemainingTime(3), 0);
  state.Finish(3);
  EXPECT_FALSE(state.HasJob(3));
  EXPECT_EQ(state.free_residencies(0), 2);
}

TEST(ClusterStateTest, SchedulersSeeEstimatesAndTheTruthStaysHidden) {
  ClusterState state({Worker(1)});
  JobSpec job = Job(3, 1, 100);
  EXPECT_FALSE(state.has_estimates());
  job.estimated_iterations = 40;
  state.AddJob(job);
  ASSERT_TRUE(state.has_estimates());
  EXPECT_EQ(state.RemainingIterations(3), 100);
  EXPECT_EQ(state.WithEstimates().RemainingIterations(3), 40);
  state.Place(3, {0});
  state.AdvanceTo(10);
  ClusterState seen = state.WithEstimates();
  EXPECT_EQ(seen.PredictedFinish(3), 40);
  EXPECT_EQ(seen.NextEventTime(), 40);
  seen.AdvanceTo(40);  // as a projection on a copy does
  EXPECT_EQ(seen.CompletedJobs(), std::vector<JobId>{3});
  // Past its estimate the job is believed to need 5 % of the estimate more, however much it needs.
  state.AdvanceTo(60);
  seen = state.WithEstimates();
  EXPECT_EQ(seen.IterationsDone(3), 60);
  EXPECT_EQ(seen.RemainingIterations(3), 2);
  EXPECT_EQ(seen.PredictedFinish(3), 62);
  EXPECT_EQ(state.PredictedFinish(3), 100);
  state.Finish(3);
  EXPECT_FALSE(state.has_estimates());
}

TEST(ClusterStateTest, WorkersJoinDrainSlowDownAndAreLost) {
  ClusterState state({Worker(1, 1)});
  state.AddJob(Job(0, 1, 10));
  state.Place(0, {0});
  const WorkerId added = state.AddWorker(Worker(2, 1));
  state.AddJob(Job(1, 1, 10));
  EXPECT_EQ(state.total_slots(), 2);
  state.SetWorkerAvailable(added, false);
  EXPECT_FALSE(state.CanPlace(1, Placement{added}));
  EXPECT_NE(state.WhyNotPlaceable(1, Placement{added})->find("takes no jobs"), std::string::npos);
  state.SetWorkerAvailable(added, true);
  state.Place(1, {added});
  EXPECT_EQ(state.PredictedFinish(1), 5);
  state.AdvanceTo(2);
  state.UpdateWorker(added, Worker(1, 1));  // 4 done, 6 left at 1 s
  EXPECT_EQ(state.PredictedFinish(1), 8);
  EXPECT_EQ(state.RemoveWorker(added), std::vector<JobId>{1});
  EXPECT_EQ(std::vector<JobId>(state.waiting().begin(), state.waiting().end()), std::vector<JobId>{1});
  EXPECT_EQ(state.IterationsDone(1), 4);
  state.Finish(0);
  EXPECT_EQ(state.StopSeconds(1, Placement{0}), 1 / 2.0 + 2);  // reload
  state.Place(1, {0});
  EXPECT_EQ(state.PredictedFinish(1), 2 + 2.5 + 6);
}

TEST(ClusterStateTest, SaysWhyAPlacementIsRefused) {
  ClusterState state({Worker(1, 1), Worker(1, 1)});
  state.AddJob(Job(0, 1, 10, 11));
  state.AddJob(Job(1, 1, 10));
  state.AddJob(Job(2, 1, 10));
  EXPECT_NE(state.WhyNotPlaceable(0, Placement{0})->find("lacks memory"), std::string::npos);
  EXPECT_NE(state.WhyNotPlaceable(1, Placement{0, 1})->find("needs 1 workers"), std::string::npos);
  EXPECT_NE(state.WhyNotPlaceable(1, Placement{7})->find("no worker 7"), std::string::npos);
  EXPECT_NE(state.WhyNotPlaceable(9, Placement{0})->find("not here"), std::string::npos);
  state.Place(1, {0});
  EXPECT_NE(state.WhyNotPlaceable(2, Placement{0})->find("no free residency"), std::string::npos);
  EXPECT_FALSE(state.FitsEmptyCluster(state.job(0).spec ? *state.job(0).spec : JobSpec{}));
  EXPECT_TRUE(state.WhyIllegal(Action::Preempt(2)));
  EXPECT_TRUE(state.WhyIllegal(Action::Migrate(1, {0})));
  EXPECT_FALSE(state.WhyIllegal(Action::Migrate(1, {1})));
}

TEST(ClusterStateTest, CopiesAreIndependent) {
  ClusterState state({Worker(1)});
  state.AddJob(Job(0, 1, 10));
  ClusterState copy = state;
  copy.Place(0, {0});
  copy.AdvanceTo(5);
  EXPECT_EQ(state.now(), 0);
  EXPECT_FALSE(state.job(0).running());
}

TEST(ClusterStateTest, PreemptedJobStandsAtItsArrival) {
  ClusterState state({Worker(1, 1)});
  JobSpec early = Job(5, 1, 10), late = Job(2, 1, 10);
  late.arrival = 1;
  state.AddJob(early);
  state.Place(5, {0});
  state.AdvanceTo(1);
  state.AddJob(late);
  state.Preempt(5);
  EXPECT_EQ(std::vector<JobId>(state.waiting().begin(), state.waiting().end()), (std::vector<JobId>{5, 2}));
}

// Random legal actions, preemptions and migrations included: nothing is ever broken, and the work adds up.
TEST(ClusterStateTest, RandomLegalActionsConserveIterationsAndMemory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const Episode episode = testing::StudyEpisodes(seed % 2 ? "small" : "edge8-tight", 1.2, 30)(seed);
    Simulator simulator(episode.workers, episode.jobs);
    long guard = 0;
    while (!simulator.Done() && ++guard < 20000) {
      const SimTime before = simulator.state().now();
      std::vector<std::pair<JobId, double>> done;
      for (JobId id : simulator.state().running()) done.emplace_back(id, simulator.state().IterationsDone(id));
      ASSERT_TRUE(simulator.Advance());
      ASSERT_GE(simulator.state().now(), before);
      for (const auto& [id, iterations] : done) {
        if (simulator.state().HasJob(id)) {
          ASSERT_GE(simulator.state().IterationsDone(id), iterations);
        }
      }
      for (int tries = 0; tries < 6; ++tries) {
        const ClusterState& state = simulator.state();
        if (!state.running().empty() && rng.Uniform() < 0.1) {
          const JobId id = state.running()[rng.Below(state.running().size())];
          const double iterations = state.IterationsDone(id);
          simulator.Apply(Action::Preempt(id));
          ASSERT_DOUBLE_EQ(state.IterationsDone(id), iterations);
        } else if (!state.running().empty() && rng.Uniform() < 0.2) {
          const JobId id = state.running()[rng.Below(state.running().size())];
          Placement target(state.job(id).placement.size());
          for (WorkerId& w : target) w = static_cast<int>(rng.Below(state.num_workers()));
          const Action action = Action::Migrate(id, target);
          if (!state.WhyIllegal(action)) simulator.Apply(action);
        } else if (!state.waiting().empty()) {
          const JobId id = state.waiting()[rng.Below(state.waiting().size())];
          std::vector<Candidate> candidates = GenerateCandidates(state, id, rng.Uniform() < 0.5);
          if (!candidates.empty()) simulator.Apply(Action::Place(id, candidates[rng.Below(candidates.size())].placement));
        }
        ASSERT_NO_FATAL_FAILURE(testing::ExpectConsistent(state));
      }
      if (simulator.NextEventTime() == kNever && !simulator.Done()) {  // all wait: place the first
        const JobId id = simulator.state().waiting().front();
        const std::vector<Candidate> candidates = GenerateCandidates(simulator.state(), id);
        ASSERT_FALSE(candidates.empty());
        simulator.Apply(Action::Place(id, candidates.front().placement));
      }
    }
    ASSERT_TRUE(simulator.Done()) << "seed " << seed;
    double sum = 0;
    for (const JobRecord& record : simulator.records()) sum += record.jct();
    EXPECT_NEAR(simulator.job_seconds(), sum, 1e-9 * sum);
  }
}

// M/M/1 in closed form: one worker, one residency, FIFO, exponential sizes: mean JCT = 1 / (mu - lambda).
TEST(SimulatorTest, MatchesTheMM1Formula) {
  Rng rng(11);
  std::vector<JobSpec> jobs;
  double now = 0;
  for (int id = 0; id < 200000; ++id) {
    now += rng.Exponential(2.0);  // lambda 0.5
    JobSpec job = Job(id, std::max(1e-9, rng.Exponential(1.0)), 1);
    job.arrival = now;
    jobs.push_back(std::move(job));
  }
  Simulator simulator({Worker(1, 1)}, MakeWorkload(std::move(jobs)));
  while (simulator.Advance()) {
    if (simulator.state().running().empty() && !simulator.state().waiting().empty()) {
      simulator.Apply(Action::Place(simulator.state().waiting().front(), {0}));
    }
  }
  EXPECT_NEAR(simulator.job_seconds() / 200000, 2.0, 0.06);
}

TEST(SimulatorTest, GoesOnFromASnapshot) {
  const Episode episode = testing::StudyEpisodes("edge8", 0.8, 40)(3);
  Simulator whole(episode.workers, episode.jobs);
  auto greedy = [](Simulator* simulator) {
    for (bool placed = true; placed;) {
      placed = false;
      for (JobId id : simulator->state().waiting()) {
        const std::vector<Candidate> candidates = GenerateCandidates(simulator->state(), id);
        if (candidates.empty()) continue;
        simulator->Apply(Action::Place(id, candidates.front().placement));
        placed = true;
        break;
      }
    }
  };
  for (int i = 0; i < 30; ++i) {
    whole.Advance();
    greedy(&whole);
  }
  Workload future;
  for (const auto& job : episode.jobs) {
    if (job->arrival > whole.state().now()) future.push_back(job);
  }
  Simulator rest(whole.state(), future);
  for (Simulator* simulator : {&whole, &rest}) {
    while (simulator->Advance()) greedy(simulator);
    ASSERT_TRUE(simulator->Done());
  }
  for (const JobRecord& record : rest.records()) EXPECT_EQ(record.finish, whole.records()[record.id].finish);
}

}  // namespace
}  // namespace weir
