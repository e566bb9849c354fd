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

// Workers that are lost, join, come back and change during the episode; links and gains by pair. The log replays under the same
// events.
TEST_F(SimulateTest, EpisodesWithWorkerEventsReplay) {
  WriteFileAtomically(folder_ + "/c.yaml",
                      "workers:\n"
                      "  - {name: a, flops: 5TFLOP/s, memory: 8GB, bandwidth: 1Gbit/s, corun_gain: 0.3}\n"
                      "  - {name: b, flops: 9TFLOP/s, memory: 11GB, bandwidth: 1Gbit/s, corun_gain: 0.3}\n"
                      "links: [{between: [a, b], bandwidth: 200Mbit/s, latency: 5ms}]\n"
                      "corun_gain: [{classes: [resnet18, bert-base], gain: -0.3}]\n"
                      "events:\n"
                      "  - {at: 30min, event: lost, worker: b}\n"
                      "  - {at: 1h, event: join, worker: c, flops: 20TFLOP/s, memory: 24GB, bandwidth: 1Gbit/s}\n"
                      "  - {at: 2h, event: back, worker: b}\n"
                      "  - {at: 3h, event: change, worker: c, flops: 4TFLOP/s}\n");
  const std::string episode =
      "simulate --cluster " + folder_ + "/c.yaml --workload " + kConfigs + "workloads/study.yaml --jobs 40 ";
  for (const std::string scheduler : {"greedy", "rule-preempt"}) {
    const Result first =
        Weir(episode + "--scheduler " + scheduler + " --placements " + folder_ + "/p.log --events " + folder_ + "/e.jsonl");
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(Weir(episode + "--replay " + folder_ + "/p.log").out, first.out);
    const std::string events = ReadFile(folder_ + "/e.jsonl");
    for (const char* event : {"worker_lost", "worker_joined", "worker_back", "worker_changed"}) {
      EXPECT_NE(events.find(event), std::string::npos) << event;
    }
  }
}

TEST_F(SimulateTest, TuneWritesARuleFileThatASchedulerReads) {
  WriteFileAtomically(folder_ + "/t.yaml", "cluster: " + kConfigs + "clusters/small.yaml\nworkload: " + kConfigs +
                                               "workloads/study.yaml\njobs: 20\nepisodes: 2\npreempt: true\n"
                                               "cem: {generations: 2, population: 6}\n");
  const std::string tune = "tune " + folder_ + "/t.yaml --out " + folder_;
  const Result one = Weir(tune + "/r1.yaml --threads 1"), three = Weir(tune + "/r3.yaml --threads 3");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.err, "");  // no progress bar where there is no terminal
  EXPECT_EQ(one.out, three.out);
  EXPECT_EQ(ReadFile(folder_ + "/r1.yaml"), one.out);
  EXPECT_EQ(Weir("simulate --scenario " + kScenarios + "small_sjf_12.scn --scheduler rule:" + folder_ + "/r1.yaml").code, 0);
  WriteFileAtomically(folder_ + "/bad.yaml", "cluster: x.yaml\nworkload: y.yaml\nloda: 0.7\n");
  const Result bad = Weir("tune " + folder_ + "/bad.yaml");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.yaml:3: unknown key 'loda', did you mean 'load'?"), std::string::npos) << bad.err;
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
