#include "agent/baselines/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "agent/baselines/baselines.h"
#include "agent/baselines/heft.h"
#include "env/core/rng.h"
#include "env/mdp/candidates.h"

namespace weir {
namespace {

JobSpec Job(JobId id, double flop, double iterations, SimTime arrival = 0, double memory = 1) {
  JobSpec job;
  job.id = id;
  job.arrival = arrival;
  job.iterations = iterations;
  job.subgraphs = {{flop, memory, 0}};
  return job;
}
WorkerSpec Worker(double flops, int residents = 1, double memory = 10) {
  return {"w", flops, memory, 1, 0, 0, residents};
}

TEST(LeastAssignmentTest, MatchesEveryPermutation) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const int rows = 1 + static_cast<int>(rng.Below(5)), columns = rows + static_cast<int>(rng.Below(3));
    std::vector<std::vector<double>> cost(rows, std::vector<double>(columns));
    for (auto& row : cost) {
      for (double& c : row) c = double(rng.Below(20)) + (rng.Below(6) == 0 ? 1e18 : 0);
    }
    const std::vector<int> assigned = LeastAssignment(cost);
    std::vector<char> used(columns, 0);
    double found = 0;
    for (int i = 0; i < rows; ++i) {
      ASSERT_FALSE(used[assigned[i]]++);
      found += cost[i][assigned[i]];
    }
    std::vector<int> order(columns);
    std::iota(order.begin(), order.end(), 0);
    double least = kNever;
    do {
      double sum = 0;
      for (int i = 0; i < rows; ++i) sum += cost[i][order[i]];
      least = std::min(least, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_DOUBLE_EQ(found, least);
  }
}

// Two workers, 4 and 1 FLOP/s; jobs of 8, 12 and 40 FLOP that arrive together. Least own: 2, 3 and 10 s on the fast one.
JobId FirstPlaced(const std::string& name, WorkerId* where) {
  Simulator simulator({Worker(4), Worker(1)}, MakeWorkload({Job(0, 12, 1), Job(1, 40, 1), Job(2, 8, 1)}));
  simulator.Advance();
  auto scheduler = MakeBaseline(name);
  scheduler->Reset();
  const Action action = scheduler->Decide(simulator.state());
  *where = action.placement.at(0);
  return action.job;
}

TEST(BatchTest, MinMinMaxMinAndSufferageByHand) {
  WorkerId where = -1;
  EXPECT_EQ(FirstPlaced("min-min", &where), 2);
  EXPECT_EQ(where, 0);
  EXPECT_EQ(FirstPlaced("max-min", &where), 1);
  EXPECT_EQ(where, 0);
  EXPECT_EQ(FirstPlaced("sufferage", &where), 1);  // 40 - 10 against 12 - 3 and 8 - 2
  EXPECT_EQ(where, 0);
}

TEST(BatchTest, AssignmentLeavesUnscheduledWhatWaitsCheaper) {
  // All three free at once: the sum is least with 40 on the fast worker and 8 on the slow one; 12 waits at no more than that.
  Simulator simulator({Worker(4), Worker(1)}, MakeWorkload({Job(0, 12, 1), Job(1, 40, 1), Job(2, 8, 1)}));
  simulator.Advance();
  auto scheduler = MakeBaseline("assignment");
  scheduler->Reset();
  std::vector<std::pair<JobId, WorkerId>> placed;
  while (true) {
    const Action action = scheduler->Decide(simulator.state());
    if (action.kind == Action::Kind::kWait) break;
    placed.emplace_back(action.job, action.placement[0]);
    simulator.Apply(action);
  }
  // Nothing runs: nobody waits by choice, and two of three can start: 10 + 8 is the least sum with one at the sink.
  std::sort(placed.begin(), placed.end());
  ASSERT_EQ(placed.size(), 2u);
  // With the fast worker busy for 10 s more, a job of 8 FLOP rather waits 10 + 2 s than takes 20 s on a worker of 0.4 FLOP/s.
  Simulator later({Worker(4), Worker(0.4)}, MakeWorkload({Job(0, 40, 1), Job(1, 8, 1, 0.5)}));
  later.Advance();
  later.Apply(Action::Place(0, {0}));
  later.Advance();
  scheduler->Reset();
  EXPECT_EQ(scheduler->Decide(later.state()).kind, Action::Kind::kWait);
}

TEST(BatchTest, TetrisPrefersTheAlignedJobAndWithAWeightTheShortOne) {
  // Demand of memory 8/10 against 1/10; the short job is the small one.
  Simulator simulator({Worker(1, 2)}, MakeWorkload({Job(0, 50, 1, 0, 8), Job(1, 1, 1, 0, 1)}));
  simulator.Advance();
  EXPECT_EQ(MakeBaseline("tetris-0")->Decide(simulator.state()).job, 0);
  EXPECT_EQ(MakeBaseline("tetris-5")->Decide(simulator.state()).job, 1);
}

TEST(HeftTest, ChainGoesToTheFastWorkerAndAForkToBoth) {
  // Workers of 2 and 1.9 FLOP/s, links that cost next to nothing. A chain stays; two branches of equal weight are spread.
  std::vector<WorkerSpec> workers = {{"a", 2, 10, 1e9, 0, 0, 2}, {"b", 1.9, 10, 1e9, 0, 0, 2}};
  ClusterState state(workers);
  JobSpec chain = Job(0, 4, 1);
  chain.subgraphs.assign(3, {4, 1, 0});
  chain.arcs = {{0, 1, 1}, {1, 2, 1}};
  JobSpec fork = chain;
  fork.id = 1;
  fork.subgraphs.assign(4, {4, 1, 0});
  fork.arcs = {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}};
  state.AddJob(chain);
  state.AddJob(fork);
  for (auto place : {HeftPlacement, PeftPlacement}) {
    EXPECT_EQ(place(state, 0), (Placement{0, 0, 0}));
    const Placement forked = place(state, 1);
    EXPECT_EQ(forked[0], 0);
    EXPECT_NE(forked[1], forked[2]);
    // A slow link keeps everything together.
    for (WorkerSpec& w : workers) w.bandwidth = 0.01;
    ClusterState slow(workers);
    slow.AddJob(fork);
    EXPECT_EQ(place(slow, 1), (Placement{0, 0, 0, 0}));
    for (WorkerSpec& w : workers) w.bandwidth = 1e9;
  }
  // Memory for two subgraphs each.
  for (WorkerSpec& w : workers) w.memory_bytes = 2;
  ClusterState tight(workers);
  tight.AddJob(fork);
  const Placement placed = HeftPlacement(tight, 1);
  ASSERT_EQ(placed.size(), 4u);
  EXPECT_TRUE(tight.CanPlace(1, placed));
  workers.pop_back();
  ClusterState none(workers);
  none.AddJob(fork);
  EXPECT_TRUE(HeftPlacement(none, 1).empty());
}

}  // namespace
}  // namespace weir
