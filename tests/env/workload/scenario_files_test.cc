// Whole episodes written by an independent implementation, and five made to be checked by hand, are reproduced to the last digit.
#include <gtest/gtest.h>

#include <filesystem>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"
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

// Field by field, on values that text forms like to lose.
TEST(ScenarioWriterTest, EveryValueReadsBackExactly) {
  Rng rng(5);
  auto awkward = [&](double low) {
    const double choices[] = {1.0 / 3, 5e-324, 1.7976931348623157e308, 1e9, 0.1 + 0.2, 123456789.123456789, rng.Uniform(), low};
    return std::max(low, choices[rng.Below(8)]);
  };
  for (int round = 0; round < 200; ++round) {
    Scenario s;
    for (int w = 0; w < 3; ++w)
      s.workers.push_back(
          {"w", awkward(1e-300), awkward(1e-300), awkward(1e-300), awkward(0), awkward(0), 1 + static_cast<int>(rng.Below(5))});
    for (int j = 0; j < 4; ++j) {
      JobSpec job;
      job.id = j;
      job.arrival = awkward(0);
      job.iterations = j == 0 ? 1e9 : awkward(1e-300);
      job.micro_batches = 1 + static_cast<int>(rng.Below(1000));
      for (int k = 0; k < 3; ++k) job.subgraphs.push_back({std::min(1e307, awkward(1e-300)), awkward(0), 0});
      job.arcs = {{0, 2, awkward(0)}, {1, 2, awkward(0)}};
      s.jobs.push_back(job);
    }
    const Scenario copy = ParseScenario(FormatScenario(s), "copy");
    ASSERT_EQ(copy.workers.size(), 3u);
    ASSERT_EQ(copy.jobs.size(), 4u);
    for (int w = 0; w < 3; ++w) {
      const WorkerSpec &a = s.workers[w], &b = copy.workers[w];
      ASSERT_TRUE(a.flops == b.flops && a.memory_bytes == b.memory_bytes && a.bandwidth == b.bandwidth &&
                  a.latency == b.latency && a.corun_gain == b.corun_gain && a.max_residents == b.max_residents);
    }
    for (int j = 0; j < 4; ++j) {
      const JobSpec &a = s.jobs[j], &b = copy.jobs[j];
      ASSERT_TRUE(a.arrival == b.arrival && a.iterations == b.iterations && a.micro_batches == b.micro_batches);
      for (int k = 0; k < 3; ++k)
        ASSERT_TRUE(a.subgraphs[k].flop == b.subgraphs[k].flop && a.subgraphs[k].memory_bytes == b.subgraphs[k].memory_bytes);
      for (int k = 0; k < 2; ++k)
        ASSERT_TRUE(a.arcs[k].from == b.arcs[k].from && a.arcs[k].to == b.arcs[k].to && a.arcs[k].bytes == b.arcs[k].bytes);
    }
  }
}

TEST(ScenarioWriterTest, RefusesWhatTheFormatCannotSay) {
  Scenario s = ReadScenario(kFolder + "1_single.scn");
  s.jobs[0].estimated_iterations = 5;
  EXPECT_THROW(FormatScenario(s), Error);
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioFileTest,
                         testing::Values("1_single", "2_corun", "3_cut", "4_nic_share", "5_dag_migrate_preempt", "eight_fifo_13",
                                         "eight_hold_14", "eight_preempt_16", "small_greedy_11", "small_sjf_12",
                                         "tight_greedy_15"),
                         [](const auto& info) { return "case_" + info.param; });

}  // namespace
}  // namespace weir
