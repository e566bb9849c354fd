// The whole chain in real processes: coordinator, two workers, executors; a model that fits no worker whole; every scheduler.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace weir {
namespace {

// Runs the executable; returns its exit code and what it printed on stdout.
std::pair<int, std::string> Weir(const std::string& arguments) {
  const std::string command = std::string(WEIR_BINARY_DIR) + "/weir " + arguments + " 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

class DemoTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DemoTest, TrainsOnRealWorkersAndReturnsWeightsThatWork) {
  const std::string scheduler = GetParam();
  const auto [code, out] = Weir("demo --json --file " WEIR_SOURCE_DIR "/tests/data/demo/demo.yaml --scheduler " + scheduler);
  ASSERT_EQ(code, 0) << out;
  const auto result = nlohmann::json::parse(out);
  EXPECT_EQ(result["policy_hash"].get<std::string>().empty(), scheduler != "policy");
  ASSERT_EQ(result["jobs"].size(), 2u);
  for (const auto& job : result["jobs"]) {
    EXPECT_EQ(job["state"], "finished");
    EXPECT_EQ(job["problem"], "");
    EXPECT_EQ(job["scheduler"], scheduler);
    EXPECT_GT(job["decision_seconds"].get<double>(), 0);
    // What the executor reported is what the returned file does.
    EXPECT_NEAR(job["held_out_accuracy"].get<double>(), job["accuracy"].get<double>(), 1e-9);
  }
  EXPECT_EQ(result["jobs"][1]["workers"].size(), 2u) << "the wide model fits no worker whole";
  ASSERT_EQ(result["simulated"].size(), 4u);
  for (const auto& row : result["simulated"]) EXPECT_EQ(row["unfinished"], 0);
}

INSTANTIATE_TEST_SUITE_P(Schedulers, DemoTest, ::testing::Values("policy", "fifo", "sjf", "greedy"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weir
