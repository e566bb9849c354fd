#include "agent/baselines/baselines.h"

#include <gtest/gtest.h>

#include "agent/baselines/rule.h"
#include "env/core/error.h"
#include "env/metrics/jct.h"
#include "env/workload/scenario.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

class BaselineTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BaselineTest, HoldsTheContractWithPlentyOfMemory) {
  auto scheduler = MakeBaseline(GetParam());
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    testing::ExpectSchedulerContract(scheduler.get(), testing::StudyEpisodes("small", 0.9, 40), seed);
  }
}

TEST_P(BaselineTest, HoldsTheContractWhereMemoryIsShort) {
  auto scheduler = MakeBaseline(GetParam());
  testing::ExpectSchedulerContract(scheduler.get(), testing::StudyEpisodes("edge8-tight", 0.7, 40), 5);
}

TEST_P(BaselineTest, LogReplaysToTheSameResult) {
  const Episode episode = testing::StudyEpisodes("edge8", 0.9, 60)(7);
  Simulator simulator(episode.workers, episode.jobs);
  auto scheduler = MakeBaseline(GetParam());
  ASSERT_TRUE(RunEpisode(&simulator, scheduler.get()).empty());
  Scenario scenario{episode.workers, {}};
  for (const auto& job : episode.jobs) scenario.jobs.push_back(*job);
  const Scenario copy = ParseScenario(FormatScenario(scenario), "copy.scn");
  Simulator again(copy.workers, MakeWorkload(copy.jobs));
  Replay(&again, ParsePlacementLog(FormatPlacementLog(simulator.actions()), "copy.log", copy), "copy.log");
  EXPECT_EQ(FormatResult(again.records()), FormatResult(simulator.records()));
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, BaselineTest, ::testing::ValuesIn(BaselineNames()), TestName);

// Episodes of an independent implementation: the same decisions, or the same mean where only ties were broken another way.
// Mean JCT of the scheduler / that of the reference's log, less 1.
double RelativeDifference(const std::string& stem, const std::string& scheduler_name) {
  const std::string path = std::string(WEIR_SOURCE_DIR) + "/tests/data/scenarios/" + stem;
  const Scenario scenario = ReadScenario(path + ".scn");
  Simulator reference(scenario.workers, MakeWorkload(scenario.jobs));
  Replay(&reference, ReadPlacementLog(path + ".log", scenario), path);
  const double expected = Summarize(reference.records()).mean_jct;
  Simulator simulator(scenario.workers, MakeWorkload(scenario.jobs));
  auto scheduler = MakeBaseline(scheduler_name);
  RunEpisode(&simulator, scheduler.get());
  return Summarize(simulator.records()).mean_jct / expected - 1;
}

TEST(BaselineOracleTest, MatchesTheReferenceImplementation) {
  EXPECT_NEAR(RelativeDifference("eight_fifo_13", "fifo"), 0, 1e-9);
  EXPECT_NEAR(RelativeDifference("small_sjf_12", "sjf"), 0, 1e-9);
  EXPECT_NEAR(RelativeDifference("small_greedy_11", "greedy"), 0, 1e-9);
  EXPECT_NEAR(RelativeDifference("eight_hold_14", "sbt-mc-hold-1.5"), 0, 1e-9);
  // A tie between two beams is broken the other way: 13290.285 against 13289.727.
  EXPECT_NEAR(RelativeDifference("tight_greedy_15", "greedy"), 0, 1e-4);
}

TEST(MakeBaselineTest, UnknownNameListsTheKnownOnes) {
  try {
    MakeBaseline("gredy");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    EXPECT_NE(std::string(e.what()).find("did you mean 'greedy'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("fifo, sjf, greedy"), std::string::npos) << e.what();
  }
}

TEST(RuleSchedulerTest, WaitsForAFastWorkerRatherThanTakeASlowOne) {
  // Worker 0: 10 FLOP/s, busy for 1 s more. Worker 1: 1 FLOP/s. A job of 100 FLOP: 100 s now, or 1 + 10 = 11 s.
  WorkerSpec fast{"fast", 10, 1, 1, 0, 0, 1}, slow{"slow", 1, 1, 1, 0, 0, 1};
  JobSpec first, second;
  first.subgraphs = second.subgraphs = {{100, 1, 0}};
  first.iterations = 1;
  second.id = 1;
  second.arrival = 9;
  for (const std::string name : {"greedy", "greedy-hold-2", "rule-hand", "rule"}) {
    Simulator simulator({fast, slow}, MakeWorkload({first, second}));
    auto scheduler = MakeBaseline(name);
    RunEpisode(&simulator, scheduler.get());
    EXPECT_NEAR(simulator.records()[1].finish, name == "greedy" ? 109 : 20, 1e-9) << name;
  }
}

TEST(RuleSchedulerTest, FifoStopsAtTheFirstJobThatDoesNotFitAndSjfGoesOn) {
  WorkerSpec worker{"w", 1, 4, 1, 0, 0, 2};
  JobSpec a, big, small;
  a.subgraphs = {{10, 3, 0}};
  big.id = 1;
  big.subgraphs = {{20, 3, 0}};
  small.id = 2;
  small.subgraphs = {{5, 1, 0}};
  for (const std::string name : {"fifo", "sjf"}) {
    Simulator simulator({worker}, MakeWorkload({a, big, small}));
    auto scheduler = MakeBaseline(name);
    simulator.Advance();
    RunPass(&simulator, scheduler.get());
    EXPECT_EQ(simulator.state().waiting().size(), name == "fifo" ? 2u : 1u) << name;
  }
}

}  // namespace
}  // namespace weir
