// The short form of `./run proof realism`: one mix of two jobs, one in two parts, over real processes and emulated links; then
// the recorded run is played in the simulator. No bar on errors here: a test machine may be busy. Factors catch what is wrong by
// a unit or a term.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "env/core/file.h"

namespace weir {
namespace {

struct Result {
  int code = 0;
  std::string out, err;
};

class RealismTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "weir-realism-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result Weir(const std::string& arguments) const {
    const std::string out = folder_ + "/out", err = folder_ + "/err";
    const int status = std::system((WEIR_BINARY_DIR "/weir " + arguments + " >" + out + " 2>" + err).c_str());
    return {WEXITSTATUS(status), ReadFile(out), ReadFile(err)};
  }
  nlohmann::json Json(const std::string& arguments) const {
    const Result result = Weir(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  std::string folder_;
};

TEST_F(RealismTest, ARealRunPlaysInTheSimulator) {
  const std::string state = folder_ + "/run/state";
  const auto demo =
      Json("demo --json --file " WEIR_SOURCE_DIR "/tests/data/demo/links.yaml --scheduler greedy --output " + folder_ + "/run");
  ASSERT_EQ(demo["jobs"].size(), 2u);

  const auto played = Json("replay --json " + state);
  const auto& run = played["runs"][0];
  EXPECT_EQ(run["scheduler"], "greedy");
  ASSERT_EQ(run["jobs"].size(), 2u);
  EXPECT_EQ(played["errors"]["jobs_with_iteration_time"], 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& job = run["jobs"][i];
    const double measured = job["measured_iteration_seconds"], predicted = job["predicted_iteration_seconds"];
    EXPECT_GT(measured, 0.3 * predicted) << job;
    EXPECT_LT(measured, 10 * predicted) << job;
    EXPECT_NEAR(job["measured_jct"].get<double>(), demo["jobs"][i]["jct_seconds"].get<double>(), 1e-6);
    EXPECT_GT(job["predicted_jct"].get<double>(), 0.3 * predicted * demo["jobs"][i]["iterations_total"].get<double>());
    EXPECT_GT(job["believed_iteration_seconds"].get<double>(), 0);  // when it was placed
  }
  EXPECT_EQ(run["jobs"][1]["workers"].size(), 2u);  // the wide model, in parts

  EXPECT_EQ(Json("replay --json --scheduler sjf " + state + "/events.jsonl")["played_with"], "sjf");
  EXPECT_EQ(Json("replay --json " + state + " " + state)["errors"]["jobs"], 4);
  // As a scenario for other tools.
  EXPECT_EQ(Weir("replay " + state + " --workload " + folder_ + "/run.scn").code, 0);
  const auto simulated = Json("simulate --json --scheduler fifo --scenario " + folder_ + "/run.scn");
  EXPECT_EQ(simulated["jobs"], 2);

  // A log that ends in the middle of a line.
  std::string log = ReadFile(state + "/events.jsonl");
  log.resize(log.size() - 7);
  WriteFileAtomically(folder_ + "/cut.jsonl", log);
  const Result cut = Weir("replay " + folder_ + "/cut.jsonl");
  EXPECT_EQ(cut.code, 2);
  EXPECT_EQ(cut.err, "weir: " + folder_ + "/cut.jsonl:" + std::to_string(std::count(log.begin(), log.end(), '\n') + 1) +
                         ": the line is cut off\n");
  EXPECT_EQ(Weir("replay " + folder_ + "/nothing").code, 2);
  EXPECT_EQ(Weir("replay --scheduler nobody " + state).code, 2);
}

}  // namespace
}  // namespace weir
