// The executable itself: what it prints, and its exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "env/core/file.h"

namespace weir {
namespace {

struct Result {
  int code = 0;
  std::string out, err;
};

const std::string kScenarios = std::string(WEIR_SOURCE_DIR) + "/tests/data/scenarios/";
const std::string kConfigs = std::string(WEIR_SOURCE_DIR) + "/configs/";

class SimulateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "weir-cli-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result Weir(const std::string& arguments) const {
    const std::string out = folder_ + "/out", err = folder_ + "/err";
    const int status = std::system((std::string(WEIR_BINARY_DIR) + "/weir " + arguments + " >" + out + " 2>" + err).c_str());
    return {WEXITSTATUS(status), ReadFile(out), ReadFile(err)};
  }
  std::string folder_;
};

TEST_F(SimulateTest, ReplayPrintsTheExpectedFileAndNothingElse) {
  for (const std::string stem : {"5_dag_migrate_preempt", "eight_preempt_16"}) {
    const std::string path = kScenarios + stem;
    const Result result = Weir("simulate --scenario " + path + ".scn --replay " + path + ".log");
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, ReadFile(path + ".expected"));
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(SimulateTest, WrittenPlacementsReplayToTheSameResult) {
  const std::string scenario = "--scenario " + kScenarios + "tight_greedy_15.scn ";
  const Result first =
      Weir("simulate " + scenario + "--scheduler rule --placements " + folder_ + "/p.log --events " + folder_ + "/e.jsonl");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(Weir("simulate " + scenario + "--replay " + folder_ + "/p.log").out, first.out);
  EXPECT_NE(ReadFile(folder_ + "/e.jsonl").find("\"event\":\"finish\",\"job\":149"), std::string::npos);
}

TEST_F(SimulateTest, WritesATraceOfTheEpisode) {
  const Result result =
      Weir("simulate --scenario " + kScenarios + "eight_preempt_16.scn --scheduler rule --trace " + folder_ + "/t.json");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string text = ReadFile(folder_ + "/t.json");
  EXPECT_EQ(text.find("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["), 0u);
  EXPECT_NE(text.find("\"job\":149"), std::string::npos);
}

TEST_F(SimulateTest, JobsThatFitNowhereAreReported) {
  WriteFileAtomically(folder_ + "/u.scn", "worker 0 1 8 1 0 0 2\njob 0 0 1 1\nsub 1 9\njob 1 1 10 1\nsub 1 1\n");
  const Result result = Weir("simulate --scenario " + folder_ + "/u.scn --scheduler fifo");
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.out.find("job 1 1 11 10\n"), std::string::npos);
  EXPECT_EQ(result.err, "weir: simulate: 1 of 2 jobs fit nowhere on this cluster, even when it is empty: 0\n");
}

TEST_F(SimulateTest, BadInputIsOneLineAndExitCodeTwo) {
  for (const std::string& arguments :
       {std::string("simulate"), "simulate --scheduler greedy --scenario " + folder_ + "/none.scn",
        std::string("simulate --nonsense"), "simulate --scheduler gredy --scenario " + kScenarios + "1_single.scn",
        "compare --cluster " + kConfigs + "clusters/small.yaml",
        "compare --workload " + kConfigs + "workloads/study.yaml --cluster " + kConfigs + "workloads/study.yaml"}) {
    const Result result = Weir(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(SimulateTest, CompareDoesNotDependOnThreads) {
  const std::string arguments = "compare --cluster " + kConfigs + "clusters/small.yaml --workload " + kConfigs +
                                "workloads/study.yaml --jobs 30 --seeds 5 --schedulers fifo,greedy,rule --json --threads ";
  const Result one = Weir(arguments + "1");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, Weir(arguments + "4").out);
  EXPECT_NE(one.out.find("\"name\":\"rule\""), std::string::npos);
}

}  // namespace
}  // namespace weir
