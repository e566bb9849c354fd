// weir compare, trace and workload as processes: exit codes, files, and that results repeat byte for byte.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "env/core/file.h"
#include "tests/testing/shared_data.h"

namespace weir {
namespace {

struct Result {
  int code = 0;
  std::string out, err;
};

const std::string kConfigs = std::string(WEIR_SOURCE_DIR) + "/configs/";

class CompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "weir-compare-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result Weir(const std::string& arguments) const {
    const std::string out = folder_ + "/out", err = folder_ + "/err";
    const int status = std::system(("timeout 100 " WEIR_BINARY_DIR "/weir " + arguments + " >" + out + " 2>" + err).c_str());
    return {WEXITSTATUS(status), ReadFile(out), ReadFile(err)};
  }
  void ExpectError(const std::string& arguments, int code, const std::string& words) const {
    const Result r = Weir(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
  std::string folder_;
};

TEST_F(CompareTest, AComparisonFileGivesTheSameFilesTwice) {
  WriteFileAtomically(folder_ + "/c.yaml",
                      "clusters: [" + kConfigs + "clusters/small.yaml]\nworkloads: [" + kConfigs +
                          "workloads/study-bursty.yaml, " + kConfigs +
                          "workloads/study-estimates.yaml]\nloads: [0.6, 0.9]\nschedulers: [fifo, rule]\nseeds: 4\njobs: "
                          "20\nresamples: 300\n");
  const Result one = Weir("compare " + folder_ + "/c.yaml --out " + folder_ + "/a --threads 1"),
               two = Weir("compare " + folder_ + "/c.yaml --out " + folder_ + "/b --threads 5");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.err, "");  // no progress bar where stderr is no terminal
  EXPECT_EQ(one.out, two.out);
  for (const char* name : {"result.json", "episodes.csv", "report.html", "episode.trace.json"})
    EXPECT_EQ(ReadFile(folder_ + "/a/" + name), ReadFile(folder_ + "/b/" + name)) << name;
  const auto times = nlohmann::json::parse(ReadFile(folder_ + "/a/timings.json"));
  EXPECT_EQ(times["decisions"].size(), 4u * 3);  // the reference joined the schedulers
  const auto result = nlohmann::json::parse(ReadFile(folder_ + "/a/result.json"));
  EXPECT_EQ(result["cells"].size(), 4u);
  EXPECT_EQ(result["reference"], "greedy");
  // The hash follows what the result rests on, not where it stands.
  std::filesystem::rename(folder_ + "/c.yaml", folder_ + "/d.yaml");
  const auto moved = nlohmann::json::parse(Weir("compare " + folder_ + "/d.yaml --json").out);
  EXPECT_EQ(moved["config_hash"], result["config_hash"]);
  EXPECT_NE(nlohmann::json::parse(Weir("compare " + folder_ + "/d.yaml --json --seed 2").out)["config_hash"],
            result["config_hash"]);
}

TEST_F(CompareTest, FailIfHasItsExitCodeAndIsCheckedFirst) {
  const std::string base = "compare --cluster " + kConfigs + "clusters/small.yaml --workload " + kConfigs +
                           "workloads/study.yaml --jobs 10 --seeds 2 --schedulers fifo,greedy ";
  EXPECT_EQ(Weir(base + "--fail-if 'fifo.mean_jct < 0'").code, 0);
  const Result failed = Weir(base + "--fail-if 'greedy.ratio == 1 and load == 0.7'");
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.out.find("greedy"), std::string::npos);  // the table is printed all the same
  EXPECT_NE(failed.err.find("holds in 1 of 1 cells, first: small, study, load 0.7"), std::string::npos) << failed.err;
  ExpectError(base + "--fail-if 'rule.ratio > 1'", 2, "unknown scheduler 'rule'");
  ExpectError(base + "--fail-if 'fifo.ratio >'", 2, "at position 13");
}

TEST_F(CompareTest, BadInput) {
  const std::string cluster = "--cluster " + kConfigs + "clusters/small.yaml ",
                    workload = "--workload " + kConfigs + "workloads/study.yaml ";
  ExpectError("compare", 2, "give either a comparison file, or --cluster and --workload");
  ExpectError("compare " + cluster, 2, "give either");
  ExpectError("compare " + cluster + workload + "--json --csv", 2, "either --json, --csv or --markdown");
  ExpectError("compare " + cluster + workload + "--load 0", 2, "load must be");
  ExpectError("compare " + cluster + workload + "--load nan", 2, "load must be");
  ExpectError("compare " + cluster + workload + "--seeds 0", 2, "--seeds must be >= 1");
  ExpectError("compare " + cluster + workload + "--episode 99", 2, "the chosen episode must be a seed from 1 to 8");
  ExpectError("compare " + cluster + workload + "--cell 1", 2, "the chosen cell must be from 0 to 0");
  ExpectError("compare " + cluster + workload + "--estimate-error -1", 2, "--estimate-error");
  ExpectError("compare " + cluster + workload + "--schedulers fifo,gredy", 2, "did you mean 'greedy'?");
  ExpectError("compare " + cluster + workload + "--trace-scheduler rule", 2, "--trace-scheduler must be one of");
  ExpectError("compare " + cluster + workload + "--jobs 3 --seeds 1 --out /proc/x", 7, "/proc/x: can't be made");
  ExpectError("compare " + folder_ + "/none.yaml", 2, "none.yaml: can't be read");
}

TEST_F(CompareTest, ATraceGoesFromImportToComparison) {
  std::string swf = "; own sample\n";
  for (int i = 0; i < 60; ++i) {
    swf += std::to_string(i + 1) + " " + std::to_string((i * 7919) % 5000) + " 0 " + std::to_string(60 + i * i) + " 1 -1 -1 1 " +
           std::to_string(120 + i * i) + " -1 1 1 1 -1 -1 -1 -1 -1\n";
  }
  WriteFileAtomically(folder_ + "/s.swf", swf);
  const Result import = Weir("trace import swf " + folder_ + "/s.swf -o " + folder_ + "/t.csv --max-duration 30m");
  EXPECT_EQ(import.code, 0) << import.err;
  EXPECT_NE(import.err.find("rows stood before the row above them"), std::string::npos);
  EXPECT_NE(import.err.find("durations cut to 0 .. 1800 s"), std::string::npos);
  const auto stats = nlohmann::json::parse(Weir("trace stats --json " + folder_ + "/t.csv").out);
  EXPECT_EQ(stats["groups"][0]["jobs"], 60);
  EXPECT_EQ(stats["groups"][0]["max_duration"], 1800);
  WriteFileAtomically(folder_ + "/w.yaml",
                      "name: sample\ntrace: t.csv\nmix: " + kConfigs + "workloads/study.yaml\nestimates: true\n");
  const Result r = Weir("compare --cluster " + kConfigs + "clusters/edge8.yaml --workload " + folder_ +
                        "/w.yaml --jobs 30 --seed 0 --seeds 2 --schedulers fifo-pack,greedy --json");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto cell = nlohmann::json::parse(r.out)["cells"][0];
  ASSERT_EQ(cell["notices"].size(), 2u);
  EXPECT_NE(cell["notices"][1].get<std::string>().find("jobs 30 to 59, arrival times x "), std::string::npos);
  ExpectError("trace import swf " + folder_ + "/s.swf -o " + folder_ + "/t.csv --window 100:5", 2, "no job is left");
  ExpectError("trace import swf " + folder_ + "/s.swf -o " + folder_ + "/t.csv --window 1-5", 2, "--window must be FIRST:COUNT");
  ExpectError("trace import swf " + folder_ + "/s.swf -o " + folder_ + "/t.csv --min-duration 5", 2, "--min-duration must be");
  ExpectError("trace import sfw " + folder_ + "/s.swf -o " + folder_ + "/t.csv", 2, "did you mean 'swf'?");
}

TEST_F(CompareTest, APublicTraceRunsToTheLoadAskedFor) {
  const std::string philly = testing::SharedData("traces/philly/philly_train.csv");
  if (!testing::HasSharedData("traces/philly")) GTEST_SKIP() << "no ../shared/data/traces";
  ASSERT_EQ(Weir("trace import philly " + philly + " --group 103959 -o " + folder_ + "/p.csv").code, 0);
  WriteFileAtomically(folder_ + "/w.yaml",
                      "name: p\ntrace: p.csv\nmix: " + kConfigs + "workloads/study.yaml\nduration: {min: 60s, max: 5h}\n");
  const Result r = Weir("compare --cluster " + kConfigs + "clusters/edge8.yaml --workload " + folder_ +
                        "/w.yaml --jobs 150 --seed 0 --seeds 3 --schedulers greedy,rule --load 0.75 --json");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["cells"][0]["notices"].size(), 3u);
}

// Profiles against what `weir partition` says of the same cut.
TEST_F(CompareTest, ProfilesAreThePartitionersFigures) {
  const std::string model = std::string(WEIR_SOURCE_DIR) + "/models/cnn.onnx";
  const Result r = Weir("workload profiles " + model + " --batches 64 --micro-batches 4 --parts 3 -o " + folder_ + "/p.yaml");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto cut = nlohmann::json::parse(Weir("partition " + model + " -k 3 --batch 16 --micro-batches 4 --json").out);
  const std::string text = ReadFile(folder_ + "/p.yaml");
  const std::size_t at = text.find("subgraphs: ") + 11;
  const auto subgraphs = nlohmann::json::parse(text.substr(at, text.find('\n', at) - at));
  const std::size_t arcs_at = text.find("arcs: ", at) + 6;
  const auto arcs = nlohmann::json::parse(text.substr(arcs_at, text.find('\n', arcs_at) - arcs_at));
  ASSERT_EQ(subgraphs.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto& part = cut["parts"][i];
    EXPECT_EQ(subgraphs[i][0].get<double>(), 4 * (part["forward_flop"].get<double>() + part["backward_flop"].get<double>()) +
                                                 part["optimizer_flop"].get<double>());
    EXPECT_EQ(subgraphs[i][1].get<double>(), part["memory_bytes"].get<double>());
    EXPECT_EQ(subgraphs[i][2].get<double>(), part["parameter_bytes"].get<double>());
  }
  ASSERT_EQ(arcs.size(), cut["arcs"].size());
  for (std::size_t i = 0; i < arcs.size(); ++i)
    EXPECT_EQ(arcs[i][2].get<double>(), 4 * cut["arcs"][i]["forward_bytes"].get<double>());
  ExpectError("workload profiles " + model + " --batches 6 --micro-batches 4", 2, "none of the combinations");
  ExpectError("workload profiles " + folder_, 2, "no .onnx file in the folder");
}

// The profile set that ships is what the models give today.
TEST_F(CompareTest, ShippedProfilesAreUpToDate) {
  EXPECT_EQ(
      Weir("workload profiles " + std::string(WEIR_SOURCE_DIR) + "/models -o " + folder_ + "/p.yaml --name weir-models").code, 0);
  EXPECT_EQ(ReadFile(folder_ + "/p.yaml"), ReadFile(kConfigs + "workloads/profiles/weir-models.yaml"));
  const Result r = Weir("compare --cluster " + kConfigs + "clusters/cpu4.yaml --workload " + kConfigs +
                        "workloads/weir-models.yaml --jobs 20 --seeds 2 --schedulers greedy");
  EXPECT_EQ(r.code, 0) << r.err;
}

}  // namespace
}  // namespace weir
