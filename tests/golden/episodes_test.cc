// Golden episodes: what each scheduler makes of some episodes of the study's workload, to the last bit. A change that moves one
// regenerates the file in the same commit (WEIR_WRITE_GOLDEN=1 golden_test) and says why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "agent/baselines/baselines.h"
#include "env/core/file.h"
#include "env/core/rng.h"
#include "env/metrics/jct.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

struct Cell {
  const char* cluster;
  double load;
  int jobs;
  std::uint64_t seed;
};
const std::vector<Cell> kCells = {
    {"small", 0.7, 60, 101}, {"edge8", 0.9, 60, 102}, {"edge8-tight", 0.7, 40, 103}, {"edge32", 0.7, 80, 104}};

// cluster load jobs seed scheduler mean_jct hash, the hash over start, finish and workers of every job.
std::string LineOf(const Cell& cell, const std::string& name) {
  const Episode episode = testing::StudyEpisodes(cell.cluster, cell.load, cell.jobs)(cell.seed);
  Simulator simulator(episode.workers, episode.jobs);
  auto scheduler = MakeBaseline(name);
  RunEpisode(&simulator, scheduler.get());
  std::uint64_t hash = 0;
  for (const JobRecord& record : simulator.records()) {
    hash = Mix64(hash, std::bit_cast<std::uint64_t>(record.start));
    hash = Mix64(hash, std::bit_cast<std::uint64_t>(record.finish));
    for (WorkerId w : record.workers) hash = Mix64(hash, static_cast<std::uint64_t>(w));
  }
  return fmt::format("{} {} {} {} {} {:.17g} {:016x}\n", cell.cluster, cell.load, cell.jobs, cell.seed, name,
                     Summarize(simulator.records()).mean_jct, hash);
}

TEST(GoldenEpisodesTest, AreUnchanged) {
  const std::string path = std::string(WEIR_SOURCE_DIR) + "/tests/golden/episodes.txt";
  std::vector<std::string> lines;
  for (const Cell& cell : kCells) {
    for (const std::string& name : BaselineNames()) lines.push_back(LineOf(cell, name));
  }
  if (std::getenv("WEIR_WRITE_GOLDEN")) {
    std::string text;
    for (const std::string& line : lines) text += line;
    WriteFileAtomically(path, text);
    GTEST_SKIP() << "wrote " << path;
  }
  std::istringstream golden(ReadFile(path));
  std::string expected;
  for (const std::string& line : lines) {
    ASSERT_TRUE(std::getline(golden, expected)) << "the file ends before: " << line;
    EXPECT_EQ(line, expected + "\n");
  }
  EXPECT_FALSE(std::getline(golden, expected)) << "the file has more: " << expected;
}

}  // namespace
}  // namespace weir
