// Workers that join, leave, drain and slow down, links and co-run gains by pair: by hand.
#include "env/sim/worker_event.h"

#include <gtest/gtest.h>

#include "env/core/error.h"
#include "env/mdp/candidates.h"
#include "env/sim/best_time.h"
#include "env/sim/simulator.h"

namespace weir {
namespace {

using Kind = WorkerEvent::Kind;

WorkerSpec Worker(const std::string& name, double flops, int residents = 1) {
  return {name, flops, 10, 2, 0, 0.5, residents};
}
JobSpec Job(JobId id, double flop, double iterations, SimTime arrival = 0) {
  JobSpec job;
  job.id = id;
  job.arrival = arrival;
  job.iterations = iterations;
  job.subgraphs = {{flop, 1, 0}};
  return job;
}

TEST(WorkerEventTest, AJobOnALostWorkerGoesOnElsewhereFromWhereItWas) {
  Simulator simulator({Worker("a", 2), Worker("b", 1)}, MakeWorkload({Job(0, 1, 20)}), {}, {{4, Kind::kLost, 0, {}}});
  ASSERT_TRUE(simulator.Advance());
  simulator.Apply(Action::Place(0, {0}));  // 2 iterations a second
  ASSERT_TRUE(simulator.Advance());
  EXPECT_EQ(simulator.state().now(), 4);
  EXPECT_FALSE(simulator.state().available(0));
  EXPECT_EQ(simulator.state().IterationsDone(0), 8);
  ASSERT_EQ(simulator.state().waiting().size(), 1u);
  EXPECT_EQ(simulator.records()[0].preemptions, 1);
  EXPECT_TRUE(simulator.state().WhyIllegal(Action::Place(0, {0})));
  simulator.Apply(Action::Place(0, {1}));
  ASSERT_TRUE(simulator.Advance());
  EXPECT_EQ(simulator.records()[0].finish,
            4 + (1 / 2.0 + 2) + 12);  // reload of 1 byte at 2 bytes/s and the restart, 12 iterations
  EXPECT_EQ(simulator.records()[0].start, 0);
  EXPECT_TRUE(simulator.Done());
}

TEST(WorkerEventTest, JoinsDrainsChangesAndComesBackInOrder) {
  Simulator simulator({Worker("a", 1)}, MakeWorkload({Job(0, 1, 10), Job(1, 1, 10)}), {},
                      {{1, Kind::kDrain, 0, {}},
                       {2, Kind::kJoin, 1, Worker("b", 5)},
                       {5, Kind::kChange, 0, Worker("a", 0.5)},
                       {7, Kind::kBack, 0, {}}});
  simulator.Advance();
  simulator.Apply(Action::Place(0, {0}));
  simulator.Advance();  // drained: its job runs on
  EXPECT_EQ(simulator.state().free_residencies(0), 0);
  EXPECT_EQ(simulator.state().running().size(), 1u);
  simulator.Advance();  // joined
  ASSERT_EQ(simulator.state().num_workers(), 2);
  simulator.Apply(Action::Place(1, {1}));
  EXPECT_EQ(simulator.state().PredictedFinish(1), 4);
  simulator.Advance();  // job 1 ends at 4
  EXPECT_EQ(simulator.records()[1].finish, 4);
  simulator.Advance();  // at 5 job 0 has 5 left, at half the speed
  EXPECT_EQ(simulator.state().now(), 5);
  EXPECT_EQ(simulator.state().PredictedFinish(0), 15);
  simulator.Advance();
  EXPECT_TRUE(simulator.state().available(0));
  simulator.Advance();
  EXPECT_EQ(simulator.records()[0].finish, 15);
  EXPECT_FALSE(simulator.Advance());
}

TEST(WorkerEventTest, CompletionComesFirstAtOneInstant) {
  Simulator simulator({Worker("a", 1)}, MakeWorkload({Job(0, 1, 4)}), {}, {{4, Kind::kLost, 0, {}}});
  simulator.Advance();
  simulator.Apply(Action::Place(0, {0}));
  simulator.Advance();
  EXPECT_EQ(simulator.records()[0].finish, 4);
  EXPECT_EQ(simulator.records()[0].preemptions, 0);
}

TEST(WorkerEventTest, JobsThatWaitForAWorkerToJoinAreNotTheEnd) {
  Simulator simulator({Worker("a", 1)}, MakeWorkload({Job(0, 1, 4)}), {}, {{0, Kind::kLost, 0, {}}, {9, Kind::kBack, 0, {}}});
  ASSERT_TRUE(simulator.Advance());
  EXPECT_TRUE(GenerateCandidates(simulator.state(), 0).empty());
  ASSERT_TRUE(simulator.Advance());
  EXPECT_EQ(simulator.state().now(), 9);
  EXPECT_FALSE(GenerateCandidates(simulator.state(), 0).empty());
}

TEST(WorkerEventTest, BadEventsAreRefused) {
  const auto error = [](std::vector<WorkerEvent> events) -> std::string {
    try {
      CheckEvents(events, 1, "events");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error({{2, Kind::kLost, 0, {}}, {1, Kind::kBack, 0, {}}}).find("events[1]: its time"), std::string::npos);
  EXPECT_NE(error({{std::nan(""), Kind::kLost, 0, {}}}).find("events[0]: its time"), std::string::npos);
  EXPECT_NE(error({{2, Kind::kLost, 1, {}}}).find("no worker 1"), std::string::npos);
  EXPECT_NE(error({{2, Kind::kJoin, 3, Worker("x", 1)}}).find("gets id 1"), std::string::npos);
  EXPECT_NE(error({{2, Kind::kChange, 0, Worker("x", 0)}}).find("flops"), std::string::npos);
  EXPECT_EQ(error({{2, Kind::kJoin, 1, Worker("x", 1)}, {2, Kind::kLost, 1, {}}}), "");
}

// Found when drained workers were added to episodes: the hash that T* is remembered by didn't change with availability.
TEST(WorkerEventTest, BestTimeForgetsADrainedWorker) {
  ClusterState state({Worker("fast", 4), Worker("slow", 1)});
  BestTimes times;
  EXPECT_EQ(times.Get(state, Job(0, 8, 1)), 2);
  state.SetWorkerAvailable(0, false);
  EXPECT_EQ(times.Get(state, Job(0, 8, 1)), 8);
}

TEST(WorkerEventTest, SnapshotsComeBackWithRecordsAndEvents) {
  const auto play = [](Simulator* simulator) {
    while (simulator->Advance()) {
      while (!simulator->state().waiting().empty()) {
        const JobId id = simulator->state().waiting().front();
        const std::vector<Candidate> candidates = GenerateCandidates(simulator->state(), id);
        if (candidates.empty()) break;
        simulator->Apply(Action::Place(id, candidates.front().placement));
      }
    }
  };
  Simulator simulator({Worker("a", 2), Worker("b", 1)}, MakeWorkload({Job(0, 1, 20), Job(1, 1, 5), Job(2, 1, 9, 6)}), {},
                      {{3, Kind::kLost, 0, {}}, {8, Kind::kBack, 0, {}}});
  simulator.Advance();
  simulator.Apply(Action::Place(0, {0}));
  simulator.Apply(Action::Place(1, {1}));
  simulator.Advance();  // lost at 3: job 0 waits
  const Simulator::Snapshot snapshot = simulator.Save();
  const Simulator copy = simulator;
  play(&simulator);
  ASSERT_TRUE(simulator.Done());
  const std::vector<JobRecord> first = simulator.records();
  const double seconds = simulator.job_seconds();
  for (int round = 0; round < 3; ++round) {
    simulator.Restore(snapshot);
    EXPECT_EQ(simulator.state().now(), copy.state().now());
    EXPECT_EQ(simulator.num_events(), copy.num_events());
    EXPECT_EQ(simulator.actions().size(), copy.actions().size());
    for (int id = 0; id < 3; ++id) {
      EXPECT_EQ(simulator.records()[id].finish, copy.records()[id].finish);
      EXPECT_EQ(simulator.records()[id].start, copy.records()[id].start);
      EXPECT_EQ(simulator.records()[id].workers, copy.records()[id].workers);
      EXPECT_EQ(simulator.records()[id].preemptions, copy.records()[id].preemptions);
    }
    play(&simulator);
    EXPECT_EQ(simulator.job_seconds(), seconds);
    for (int id = 0; id < 3; ++id) EXPECT_EQ(simulator.records()[id].finish, first[id].finish);
  }
}

// Found by random episodes: a job within the tolerance of its end after an action of the same instant was acted upon once more,
// and the log didn't replay, since completions come before a command.
TEST(SimulatorTest, AnActionThatEndsANeighbourLetsItCompleteAtOnce) {
  // Two jobs share a worker at half the speed each; at 10 job 0 has 0.75e-8 iterations left: 1.5e-8 s beside job 1, more than the
  // tolerance of 1e-8 s, and 0.75e-8 s alone.
  JobSpec first = Job(0, 1, 5 + 0.75e-8), second = Job(1, 1, 100), third = Job(2, 1, 1, 10);
  WorkerSpec worker = Worker("a", 1, 2);
  worker.corun_gain = 0;
  Simulator simulator({worker}, MakeWorkload({first, second, third}));
  simulator.Advance();
  simulator.Apply(Action::Place(0, {0}));
  simulator.Apply(Action::Place(1, {0}));
  simulator.Advance();
  ASSERT_EQ(simulator.state().now(), 10);
  ASSERT_TRUE(simulator.state().HasJob(0));
  simulator.Apply(Action::Preempt(1));
  EXPECT_FALSE(simulator.state().HasJob(0));
  simulator.Apply(Action::Place(1, {0}));
  while (simulator.Advance()) {
    if (!simulator.state().waiting().empty()) simulator.Apply(Action::Place(2, {0}));
  }
  Simulator again({worker}, MakeWorkload({first, second, third}));
  Replay(&again, simulator.actions(), "log");
  for (int id = 0; id < 3; ++id) EXPECT_EQ(again.records()[id].finish, simulator.records()[id].finish);
}

TEST(LinksTest, AnOverrideStandsInPlaceOfBothInterfaces) {
  JobSpec job = Job(0, 1, 1);
  job.subgraphs = {{2, 1, 0}, {2, 1, 0}};
  job.arcs = {{0, 1, 3}};
  job.micro_batches = 4;
  const std::vector<WorkerSpec> workers = {{"a", 1, 8, 2, 0.1, 0, 2}, {"b", 2, 8, 6, 0.2, 0, 2}};
  auto links = std::make_shared<LinkTable>();
  ModelOptions options;
  // Without: t = 2 and 1, arc 6/2 + 0.6 = 3.6, P = 6.6, B = 3 (the NIC of a), T = 6.6/4 + 3/4 * 3.
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, options), 6.6 / 4 + 0.75 * 3, 1e-12);
  options.links = links;
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, options), 6.6 / 4 + 0.75 * 3, 1e-12);
  links->Set(1, 0, {0.5, 1});  // arc 6/0.5 + 2 = 14, P = 17, B = 12
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, options), 17 / 4.0 + 0.75 * 12, 1e-12);
  links->Set(0, 1, {12, -1});  // faster than the NICs: arc 0.5 + 0.6, P = 4.1, B = 2
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, options), 4.1 / 4 + 0.75 * 2, 1e-12);
  links->Set(0, 1, {0, 0});  // latency alone
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, options), 6.0 / 4 + 0.75 * 3, 1e-12);
  links->Set(0, 1, {0.5, 1});
  const std::vector<WorkerLoad> loads = {{1, 1, 0}, {1, 3, 0}};  // shared by three cut jobs at b: 0.5/3
  EXPECT_NEAR(IterationTime(job, Placement{0, 1}, workers, loads, options), (2 + 36 + 2 + 1) / 4.0 + 0.75 * 36, 1e-12);
}

TEST(LinksTest, BestTimeSeesThem) {
  JobSpec job = Job(0, 1, 1);
  job.subgraphs = {{4, 5, 0}, {4, 5, 0}};
  job.arcs = {{0, 1, 1}};
  const std::vector<WorkerSpec> workers(3, WorkerSpec{"w", 1, 6, 1, 0, 0, 1});
  auto links = std::make_shared<LinkTable>();
  links->Set(1, 2, {4, -1});
  ModelOptions options;
  EXPECT_EQ(BestAloneTime(ClusterState(workers, options), job), 8 + 2);
  options.links = links;
  EXPECT_EQ(BestAloneTime(ClusterState(workers, options), job), 8 + 0.5);  // equal workers, but not with equal links
  EXPECT_NE(ClusterState(workers, options).cluster_hash(), ClusterState(workers).cluster_hash());
}

TEST(CorunTest, ResidentsUseTheMeanOverTheirPairs) {
  auto table = std::make_shared<CorunTable>();
  table->Set("a", "b", -0.5);
  table->Set("a", "a", 1);
  ModelOptions options;
  options.corun = table;
  ClusterState state({{"w", 6, 100, 1, 0, 0.4, 4}}, options);
  const auto add = [&](JobId id, const std::string& name) {
    JobSpec job = Job(id, 1, 1000);
    job.job_class = name;
    state.AddJob(job);
    state.Place(id, {0});
  };
  add(0, "a");
  EXPECT_DOUBLE_EQ(state.job(0).iteration_time, 1 / 6.0);
  add(1, "b");  // gain -0.5: together 6 * 0.75, each half
  EXPECT_DOUBLE_EQ(state.job(0).iteration_time, 1 / 2.25);
  EXPECT_DOUBLE_EQ(state.job(1).iteration_time, 1 / 2.25);
  add(2, "a");  // pairs ab -0.5, aa 1, ba -0.5: mean 0; a third of 6 each
  EXPECT_DOUBLE_EQ(state.job(1).iteration_time, 1 / 2.0);
  add(3, "other");  // three more pairs with the worker's own 0.4: mean 0.2, g = 1.15
  EXPECT_NEAR(state.job(3).iteration_time, 1 / (6 * 1.15 / 4), 1e-12);
  state.Finish(1);  // aa 1, twice 0.4: mean 0.6, g(3) = 1.4
  EXPECT_NEAR(state.job(0).iteration_time, 1 / (6 * 1.4 / 3), 1e-12);
}

// Prices with gains by pair and links: what the candidates say is what happens, and the projection is what the cluster does.
TEST(CorunTest, CandidatesAndProjectionsAreWhatHappens) {
  auto table = std::make_shared<CorunTable>();
  table->Set("a", "b", -0.6);
  table->Set("b", "b", 0.8);
  auto links = std::make_shared<LinkTable>();
  links->Set(0, 1, {5, 0.01});
  ModelOptions options;
  options.corun = table;
  options.links = links;
  ClusterState state({{"x", 6, 100, 1, 0, 0.4, 3}, {"y", 4, 100, 2, 0, 0.2, 3}}, options);
  for (JobId id = 0; id < 5; ++id) {
    JobSpec job = Job(id, 1 + id, 40 + 10 * id);
    job.subgraphs.push_back({2, 1, 0});
    job.arcs = {{0, 1, 0.5}};
    job.job_class = id % 2 ? "a" : "b";
    state.AddJob(job);
    const std::vector<Candidate> candidates = GenerateCandidates(state, id, true);
    ASSERT_FALSE(candidates.empty());
    for (const Candidate& c : candidates) {
      EXPECT_NEAR(state.IterationTimeIfPlaced(id, c.placement), c.iteration_time, 1e-12);
      ClusterState copy = state;
      copy.Place(id, c.placement);
      EXPECT_NEAR(copy.RemainingTime(id), c.own, 1e-9 * c.own);
      const auto run = [](ClusterState s, JobId own_id, double* own) {
        double sum = 0;
        while (!s.running().empty()) {
          s.AdvanceTo(s.NextEventTime());
          for (JobId gone : s.CompletedJobs()) {
            (gone == own_id ? *own : sum) += s.now();
            s.Finish(gone);
          }
        }
        return sum;
      };
      double own = 0, none = 0;
      ClusterState without = state;
      without.Cancel(id);
      const double delay = run(copy, id, &own) - run(without, -1, &none);
      const Projection projection = Project(state, c);
      EXPECT_NEAR(projection.own, own, 1e-9 * own);
      EXPECT_NEAR(projection.delay, std::max(0.0, delay), 1e-6);
    }
    state.Place(id, candidates[id % candidates.size()].placement);
  }
}

}  // namespace
}  // namespace weir
