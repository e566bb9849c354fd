// Whole episodes written by an independent implementation, and five made to be checked by hand, are reproduced to the last digit.
#include <gtest/gtest.h>

#include <filesystem>

#include "env/core/file.h"
#include "env/metrics/jct.h"
#include "env/sim/simulator.h"
#include "env/workload/scenario.h"

namespace weir {
namespace {

const std::string kFolder = std::string(WEIR_SOURCE_DIR) + "/tests/data/scenarios/";

class ScenarioFileTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioFileTest, ReplayGivesTheExpectedText) {
  const std::string stem = kFolder + GetParam();
  const Scenario scenario = ReadScenario(stem + ".scn");
  const std::vector<TimedAction> log = ReadPlacementLog(stem + ".log", scenario);
  Simulator simulator(scenario.workers, MakeWorkload(scenario.jobs));
  Replay(&simulator, log, stem + ".log");
  ASSERT_TRUE(simulator.Done());
  EXPECT_EQ(FormatResult(simulator.records()), ReadFile(stem + ".expected"));
  double sum = 0;
  for (const JobRecord& record : simulator.records()) sum += record.jct();
  EXPECT_NEAR(simulator.job_seconds(), sum, 1e-9 * sum);
}

TEST_P(ScenarioFileTest, WritersReadBack) {
  const std::string stem = kFolder + GetParam();
  const Scenario scenario = ReadScenario(stem + ".scn");
  const std::string text = FormatScenario(scenario);
  EXPECT_EQ(FormatScenario(ParseScenario(text, "copy")), text);
  const std::string log = FormatPlacementLog(ReadPlacementLog(stem + ".log", scenario));
  EXPECT_EQ(FormatPlacementLog(ParsePlacementLog(log, "copy", scenario)), log);
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioFileTest,
                         testing::Values("1_single", "2_corun", "3_cut", "4_nic_share", "5_dag_migrate_preempt", "eight_fifo_13",
                                         "eight_hold_14", "eight_preempt_16", "small_greedy_11", "small_sjf_12",
                                         "tight_greedy_15"),
                         [](const auto& info) { return "case_" + info.param; });

}  // namespace
}  // namespace weir
