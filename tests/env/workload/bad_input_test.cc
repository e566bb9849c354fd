// Every malformed input is refused with the file, the line and the reason.
#include <gtest/gtest.h>

#include "env/core/error.h"
#include "env/sim/simulator.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"
#include "env/workload/scenario.h"

namespace weir {
namespace {

template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    return e.what();
  }
  return "no error";
}

const std::string kWorker = "worker 0 1e12 8e9 1e8 0.001 0.3 2\n";
const std::string kJob = "job 0 0 10 1\nsub 1e12 1e9\n";

TEST(ScenarioParserTest, NamesLineAndReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "f.scn: no worker"},
      {"wrker 0\n", "f.scn:1: expected worker, job, sub or edge, got 'wrker'"},
      {"# note\n\nworker 0 1e12\n", "f.scn:3: memory is missing"},
      {"worker 1 1e12 8e9 1e8 0.001 0.3 2\n", "f.scn:1: the worker's id must be 0"},
      {"worker 0 -1 8e9 1e8 0.001 0.3 2\n", "f.scn:1: flops must be a finite number > 0"},
      {"worker 0 nan 8e9 1e8 0.001 0.3 2\n", "f.scn:1: flops must be a number, got 'nan'"},
      {"worker 0 1e12 8e9 1e8 0.001 0.3 0\n", "f.scn:1: max_residents must be a whole number from 1"},
      {"worker 0 1e12 8e9 1e8 0.001 0.3 2 9\n", "f.scn:1: unexpected '9'"},
      {kWorker + "sub 1 1\n", "f.scn:2: 'sub' stands before any job"},
      {kWorker + "job 0 -1 10 1\n", "f.scn:2: arrival must be >= 0"},
      {kWorker + "job 0 0 0 1\n", "f.scn:2: iterations must be > 0"},
      {kWorker + "job 0 0 10 1.5\n", "f.scn:2: micro_batches must be a whole number"},
      {kWorker + "job 0 0 10 1\n", "f.scn:2: a job must have at least one subgraph"},
      {kWorker + "job 0 0 10 1\nsub 1 -1\n", "f.scn:3: memory must be >= 0"},
      {kWorker + "job 0 0 10 1\nsub 0 1\n", "f.scn:2: the sum of flop"},
      {kWorker + kJob + "edge 0 1 5\n", "f.scn:4: an edge needs two subgraphs"},
      {kWorker + kJob + "sub 1 1\nedge 1 0 5\n", "f.scn:5: an edge's from must be < to"},
      {kWorker + kJob + "sub 1 1\nedge 0 2 5\n", "f.scn:5: the edge's to must be a whole number from 0 to 1"},
      {kWorker + kJob + "sub 1 1\nedge 0 1 x\n", "f.scn:5: bytes must be a number, got 'x'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(ErrorOf([&] { ParseScenario(text, "f.scn"); }).substr(0, expected.size()), expected) << text;
  }
}

TEST(PlacementLogParserTest, NamesLineAndReason) {
  const Scenario scenario = ParseScenario(kWorker + kJob, "f.scn");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"put 0 1 0\n", "f.log:1: expected place, preempt or migrate, got 'put'"},
      {"place 1 1 0\n", "f.log:1: job must be a whole number from 0 to 0, got '1'"},
      {"place 0 x 0\n", "f.log:1: time must be a number, got 'x'"},
      {"place 0 1\n", "f.log:1: job 0 has 1 subgraphs, got 0 workers"},
      {"place 0 1 3\n", "f.log:1: worker must be a whole number from 0 to 0, got '3'"},
      {"place 0 5 0\npreempt 0 4\n", "f.log:2: time 4 lies before that of line 1"},
      {"preempt 0 4 1\n", "f.log:1: unexpected '1'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(ErrorOf([&] { ParsePlacementLog(text, "f.log", scenario); }).substr(0, expected.size()), expected) << text;
  }
}

TEST(ReplayTest, NamesTheEntryThatIsIllegalAtItsTime) {
  const Scenario scenario = ParseScenario(kWorker + "job 0 5 10 1\nsub 1e12 1e9\njob 1 0 10 1\nsub 1e12 9e9\n", "f.scn");
  auto replay = [&](const std::string& text) {
    return ErrorOf([&] {
      Simulator simulator(scenario.workers, MakeWorkload(scenario.jobs));
      Replay(&simulator, ParsePlacementLog(text, "f.log", scenario), "f.log");
    });
  };
  EXPECT_EQ(replay("place 0 1 0\n"), "f.log:1: job 0 is not here (it hasn't arrived, or has finished)");
  EXPECT_EQ(replay("place 0 6 0\nplace 0 7 0\n"), "f.log:2: job 0 is placed already");
  EXPECT_EQ(replay("place 0 6 0\npreempt 0 17\n"), "f.log:2: job 0 is not here (it hasn't arrived, or has finished)");
  EXPECT_EQ(replay("preempt 0 6\n"), "f.log:1: job 0 isn't placed");
  EXPECT_NE(replay("place 1 6 0\n").find("f.log:1: worker 0 lacks memory"), std::string::npos);
}

TEST(ClusterFileTest, NamesLineAndReason) {
  auto parse = [](const std::string& text) { return ErrorOf([&] { ParseCluster(text, "c.yaml"); }); };
  const std::string good = "{flops: 2TFLOP/s, memory: 4GB, bandwidth: 1Gbit/s}";
  EXPECT_EQ(ParseCluster("workers:\n  - " + good, "c.yaml").workers[0].bandwidth, 1.25e8);
  EXPECT_NE(parse("workers: []").find("c.yaml:1: workers must be a list of at least one worker"), std::string::npos);
  EXPECT_NE(parse("workers:\n  - {memory: 4GB, bandwidth: 1Gbit/s}").find("c.yaml:2: workers[0]: 'flops' is missing"),
            std::string::npos);
  EXPECT_NE(parse("workers:\n  - {flops: 2, memory: 4GB, bandwidth: 1Gbit/s}").find("workers[0].flops must be"),
            std::string::npos);
  EXPECT_NE(parse("workers:\n  - {flops: 0TFLOP/s, memory: 4GB, bandwidth: 1Gbit/s}").find("above 0"), std::string::npos);
  EXPECT_NE(parse("workers:\n  - " + good + "\nmodle: {}").find("c.yaml:3: unknown key 'modle', did you mean 'model'?"),
            std::string::npos);
}

TEST(ModelMixTest, StudyHas342ProfilesAndItsMeanDuration) {
  const ModelMix mix = ReadModelMix(std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml");
  EXPECT_EQ(AllProfiles(mix).size(), 342u);
  EXPECT_NEAR(mix.duration.Mean(), 1527, 1);
  // densenet121, batch 16, whole: 6e9*2.9*16 FLOP; 16*8e6 + 110e6*16 + 0.2e9 bytes
  const JobSpec job = MakeProfile(mix, mix.models[4], 16, 1, 8);
  EXPECT_NEAR(job.total_flop(), 278.4e9, 1);
  EXPECT_NEAR(job.total_memory_bytes(), 2088e6, 1);
  // clip in three: stages 0,1 | 2,3 | 4: arcs 1->4 and 3->4 of 512 elements leave two subgraphs
  const JobSpec clip = MakeProfile(mix, mix.models[9], 64, 3, 1);
  ASSERT_EQ(clip.arcs.size(), 2u);
  EXPECT_EQ(clip.arcs[0].bytes, 65536);
}

TEST(GenerateWorkloadTest, IsAFunctionOfTheSeedAndHasTheLoadAskedFor) {
  const Cluster cluster = ReadCluster(std::string(WEIR_SOURCE_DIR) + "/configs/clusters/edge8.yaml");
  const ModelMix mix = ReadModelMix(std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml");
  const Workload a = GenerateWorkload(mix, cluster.workers, {0.7, 20000, 3}),
                 b = GenerateWorkload(mix, cluster.workers, {0.7, 20000, 3});
  double work = 0, flops = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i]->arrival, b[i]->arrival);
    ASSERT_EQ(a[i]->iterations, b[i]->iterations);
    work += a[i]->iterations * a[i]->total_flop();
  }
  for (const WorkerSpec& w : cluster.workers) flops += w.flops;
  EXPECT_NEAR(work / (a.back()->arrival * flops), 0.7, 0.03);
  const Workload other = GenerateWorkload(mix, cluster.workers, {0.35, 20000, 3});
  EXPECT_EQ(other[7]->iterations, a[7]->iterations);  // another load moves arrivals only
  EXPECT_NEAR(other[7]->arrival, 2 * a[7]->arrival, 1e-6 * a[7]->arrival);
  EXPECT_NE(ErrorOf([&] { GenerateWorkload(mix, cluster.workers, {0, 10, 1}); }).find("load must lie in"), std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              GenerateWorkload(mix, {{"w", 1, 1, 1, 0, 0, 1}}, {1, 10, 1});
            }).find("no profile fits"),
            std::string::npos);
}

}  // namespace
}  // namespace weir
