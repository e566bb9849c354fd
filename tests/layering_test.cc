// Reads every #include of the sources and fails on an arrow that runs up or across the floors of docs/architecture.md.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Folder -> floor. The longest matching prefix counts. A file may include its own folder and lower floors only.
const std::map<std::string, int> kFloor = {
    {"env/core", 0},       {"partitioner", 1},     {"worker/protocol", 1},
    {"worker/kernels", 1}, {"env/sim", 2},         {"env/workload", 2},
    {"env/metrics", 2},    {"env/mdp", 3},         {"agent/baselines", 4},
    {"worker/sync", 4},    {"worker/shaping", 4},  {"agent/policy", 5},
    {"agent/train", 5},    {"agent/lookahead", 5}, {"worker/runtime", 5},
    {"worker/daemon", 5},  {"coordinator", 5},     {"cli", 6},
};
// Arrows across one floor that are part of the design: what the row's folder may include besides lower floors.
const std::map<std::string, std::set<std::string>> kAcross = {
    {"env/workload", {"env/sim"}},  // a workload is a list of the simulator's job specifications
    {"env/metrics", {"env/sim"}},   // metrics read the simulator's job records
    {"agent/train", {"agent/policy", "agent/lookahead"}},
    {"agent/lookahead", {"agent/policy"}},
    {"coordinator", {"agent/policy", "agent/lookahead", "worker/runtime"}},
    {"worker/daemon", {"worker/runtime"}},
};
// Headers of LibTorch may appear in these folders' .cc files (and private headers) only.
const std::set<std::string> kTorchFolders = {"agent/policy", "agent/train", "worker/runtime", "worker/sync",
                                             "partitioner/torchscript"};

std::string FolderOf(const std::string& path) {
  std::string best;
  for (const auto& [folder, floor] : kFloor) {
    if (path.rfind(folder + "/", 0) == 0 && folder.size() > best.size()) best = folder;
  }
  return best;
}

struct Include {
  std::string file;
  std::string target;
  bool system;
};

std::vector<Include> AllIncludes() {
  std::vector<Include> includes;
  const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  for (const char* top : {"env", "partitioner", "worker", "agent", "coordinator", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(WEIR_SOURCE_DIR) / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      std::ifstream in(entry.path());
      std::string line;
      while (std::getline(in, line)) {
        std::smatch match;
        if (std::regex_search(line, match, pattern)) {
          includes.push_back({fs::relative(entry.path(), WEIR_SOURCE_DIR).string(), match[2], match[1] == "<"});
        }
      }
    }
  }
  return includes;
}

TEST(LayeringTest, IncludesRunDownward) {
  const std::vector<Include> includes = AllIncludes();
  ASSERT_GT(includes.size(), 50u);
  for (const Include& include : includes) {
    if (include.system) continue;
    const std::string from = FolderOf(include.file), to = FolderOf(include.target);
    ASSERT_NE(from, "") << include.file << " lies in no folder of the table";
    if (to.empty() || from == to) continue;
    auto across = kAcross.find(from);
    const bool allowed = kFloor.at(to) < kFloor.at(from) || (across != kAcross.end() && across->second.count(to));
    EXPECT_TRUE(allowed) << include.file << " includes " << include.target;
  }
}

TEST(LayeringTest, LibTorchStaysInItsFolders) {
  for (const Include& include : AllIncludes()) {
    if (!include.system || !(include.target.rfind("torch/", 0) == 0 || include.target.rfind("ATen/", 0) == 0 ||
                             include.target.rfind("c10/", 0) == 0)) {
      continue;
    }
    const std::string folder = fs::path(include.file).parent_path().string();
    EXPECT_TRUE(kTorchFolders.count(folder)) << include.file << " includes <" << include.target << ">";
  }
}

}  // namespace
