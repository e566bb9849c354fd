// Every scheduler on every scenario file: the log that it leaves replays to the same result, through the text of the file.
#include <gtest/gtest.h>

#include <filesystem>

#include "agent/baselines/baselines.h"
#include "env/core/parallel.h"
#include "env/metrics/bounds.h"
#include "env/metrics/jct.h"
#include "env/workload/scenario.h"

namespace weir {
namespace {

TEST(ScenarioReplayTest, EveryLogOfEverySchedulerReplays) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WEIR_SOURCE_DIR) + "/tests/data/scenarios")) {
    if (entry.path().extension() == ".scn") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), 11u);
  for (const std::string& path : paths) {
    const Scenario scenario = ReadScenario(path);
    const Workload jobs = MakeWorkload(scenario.jobs);
    const double bound = LowerBounds(scenario.workers, jobs).best;
    const std::vector<std::string>& names = BaselineNames();
    std::vector<std::string> wrong(names.size());
    ParallelFor(0, static_cast<int>(names.size()), [&](int i) {
      Simulator simulator(scenario.workers, jobs);
      auto scheduler = MakeBaseline(names[i]);
      const std::vector<JobId> left = RunEpisode(&simulator, scheduler.get());
      if (!left.empty()) {
        wrong[i] = "leaves jobs waiting";
        return;
      }
      const std::string log = FormatPlacementLog(simulator.actions());
      Simulator again(scenario.workers, jobs);
      Replay(&again, ParsePlacementLog(log, "out.log", scenario), "out.log");
      if (FormatResult(again.records()) != FormatResult(simulator.records())) wrong[i] = "its log replays to another result";
      if (Summarize(simulator.records()).mean_jct < bound * (1 - 1e-9)) wrong[i] = "below the lower bound";
    });
    for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(wrong[i], "") << names[i] << " on " << path;
  }
}

// A job that fits nowhere: no scheduler hangs or aborts, and none but the strict ones (which stop at it) leaves anything else.
TEST(ScenarioReplayTest, AJobThatFitsNowhereIsLeftAndNothingHangs) {
  std::vector<WorkerSpec> workers = {{"a", 1e12, 4e9, 1e8, 0, 0.2, 2}, {"b", 2e12, 4e9, 1e8, 0, 0.2, 2}};
  std::vector<JobSpec> jobs;
  for (int id = 0; id < 6; ++id) {
    JobSpec job;
    job.id = id;
    job.arrival = id;
    job.iterations = id == 3 ? 1e9 : 10;
    job.subgraphs = {{1e12, id == 2 ? 5e9 : 1e9, 0}};
    jobs.push_back(job);
  }
  jobs[3].subgraphs[0].flop = 1e3;
  for (const std::string& name : BaselineNames()) {
    Simulator simulator(workers, MakeWorkload(jobs));
    auto scheduler = MakeBaseline(name);
    const std::vector<JobId> left = RunEpisode(&simulator, scheduler.get());
    EXPECT_TRUE(std::find(left.begin(), left.end(), 2) != left.end()) << name;
    const bool strict = name == "fifo" || name == "fifo-pack" || name == "fifo-eft" || name == "sjf-strict";
    if (!strict) {
      EXPECT_EQ(left.size(), 1u) << name;
    }
  }
}

}  // namespace
}  // namespace weir
