#include "env/sim/iteration_time.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

const WorkerSpec kA{"a", 1e12, 8e9, 1e8, 0.001, 0.3, 2}, kB{"b", 2e12, 8e9, 5e7, 0.002, 0.3, 2};

JobSpec Chain(int micro_batches) {
  JobSpec job;
  job.micro_batches = micro_batches;
  job.subgraphs = {{1e12, 1e9, 1e8}, {2e12, 1e9, 1e8}};
  job.arcs = {{0, 1, 1e7}};
  return job;
}

TEST(IterationTimeTest, CutChainByHand) {
  // t = 1 and 1; arc 2e7/5e7 + 2*0.003 = 0.406; P = 2.406; B = 1; M = 4: 2.406/4 + 0.75 = 1.3515
  const std::vector<WorkerSpec> workers = {kA, kB};
  EXPECT_NEAR(IterationTimeAlone(Chain(4), Placement{0, 1}, workers, {}), 1.3515, 1e-12);
}

TEST(IterationTimeTest, ResidentsShareTheSpeedAndCutJobsTheNic) {
  // n = 2: g = 1.15, each 0.575e12 and 1.15e12; c = 2 at b: 2.5e7
  const std::vector<WorkerSpec> workers = {kA, kB};
  const std::vector<WorkerLoad> loads = {{2, 1}, {2, 2}};
  const double t = 1 / 0.575, arc = 2e7 / 2.5e7 + 0.006;
  EXPECT_NEAR(IterationTime(Chain(1), Placement{0, 1}, workers, loads, {}), t + arc + 2e12 / 1.15e12, 1e-12);
}

TEST(IterationTimeTest, WholeJobIsWorkOverSpeed) {
  const std::vector<WorkerSpec> workers = {kA, kB};
  for (int m : {1, 4, 8}) {
    EXPECT_NEAR(IterationTimeAlone(Chain(m), Placement{1, 1}, workers, {}), WholeJobWork(Chain(m)) / SpeedOf(kB, 1), 1e-12);
  }
}

TEST(IterationTimeTest, UnsortedArcsGiveTheSamePath) {
  JobSpec job;
  job.subgraphs = {{1e12, 0, 0}, {2e12, 0, 0}, {3e12, 0, 0}, {1e12, 0, 0}};
  job.arcs = {{0, 1, 1e6}, {0, 2, 2e6}, {1, 3, 3e6}, {2, 3, 4e6}};
  JobSpec mixed = job;
  mixed.arcs = {job.arcs[3], job.arcs[0], job.arcs[2], job.arcs[1]};
  const std::vector<WorkerSpec> workers = {kA, kB};
  for (const Placement& p : {Placement{0, 0, 1, 1}, Placement{0, 1, 0, 1}, Placement{1, 0, 0, 1}}) {
    EXPECT_DOUBLE_EQ(IterationTimeAlone(job, p, workers, {}), IterationTimeAlone(mixed, p, workers, {}));
  }
}

TEST(IterationTimeTest, PhysicalNeverFallsBelowTheBottleneckAndChargesOneDirection) {
  JobSpec job = Chain(4);
  job.arcs[0].bytes = 1e9;  // communication-bound
  const std::vector<WorkerSpec> workers = {kA, kB};
  ModelOptions physical;
  physical.physical = true;
  // B = 1e9/5e7 = 20; P = 0.25 + (2e9/5e7/4 + 0.006) + 0.25 = 10.506; T = 10.506 + 15 = 25.506
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, physical), 25.506, 1e-9);
  // parallel branches on one worker: never faster than the sum of the work
  JobSpec wide;
  wide.subgraphs = {{1e12, 0, 0}, {1e12, 0, 0}};
  EXPECT_NEAR(IterationTimeAlone(wide, Placement{0, 0}, workers, {}), 1, 1e-12);
  EXPECT_NEAR(IterationTimeAlone(wide, Placement{0, 0}, workers, physical), 2, 1e-12);
}

TEST(IterationTimeTest, ReplicasDivideTheWorkAndPayTheExchange) {
  JobSpec job;
  job.replicas = 2;
  job.subgraphs = {{1e12, 1e9, 1e8}};
  const std::vector<WorkerSpec> workers = {kA, kB};
  // rows 0.5 s and 0.25 s; exchange 2*(1/2)*1e8/5e7 + 2*1*2*0.002 = 2.008
  EXPECT_NEAR(IterationTimeAlone(job, Placement{0, 1}, workers, {}), 0.5 + 2.008, 1e-12);
}

}  // namespace
}  // namespace weir
