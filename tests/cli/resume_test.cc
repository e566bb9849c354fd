// A worker is killed while it trains: the job goes on from its last checkpoint on other workers, in other parts, and returns the
// bits of an undisturbed run. Real processes throughout.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "env/core/file.h"
#include "worker/daemon/child_process.h"

namespace weir {
namespace {

const std::string kWeir = std::string(WEIR_BINARY_DIR) + "/weir";
using worker::ChildProcess;

std::pair<int, std::string> Shell(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

class Cluster {
 public:
  explicit Cluster(const std::string& folder) : folder_(folder) {
    ::setenv("WEIR_LOG", "warning", 0);
    address_ = "ipc://" + folder + "/coordinator";
    coordinator_ = std::make_unique<ChildProcess>(std::vector<std::string>{
        kWeir, "coordinator", "--listen", address_, "--listen-artifacts", "ipc://" + folder + "/artifacts", "--state",
        folder + "/state", "--scheduler", "greedy", "--lost-after", "3"});
  }
  void AddWorker(const std::string& name, const std::string& memory) {
    workers_[name] = std::make_unique<ChildProcess>(std::vector<std::string>{kWeir, "worker", "--coordinator", address_, "--name",
                                                                             name, "--emulate-flops", "2GFLOP/s", "--memory",
                                                                             memory, "--work-folder", folder_ + "/" + name});
  }
  void Kill(const std::string& name) { workers_.at(name)->Signal(SIGKILL); }
  nlohmann::json Job(int id) {
    const auto [code, out] = Shell(kWeir + " show --coordinator " + address_ + " --json " + std::to_string(id));
    return code == 0 ? nlohmann::json::parse(out) : nlohmann::json::object();
  }
  // Waits until `done` holds for the job, at most `seconds`.
  template <typename F>
  nlohmann::json Await(int id, double seconds, F done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    nlohmann::json job;
    do {
      job = Job(id);
      if (!job.empty() && done(job)) return job;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } while (std::chrono::steady_clock::now() < end);
    ADD_FAILURE() << "not within " << seconds << " s: " << job.dump();
    return job;
  }
  const std::string& address() const { return address_; }

 private:
  std::string folder_, address_;
  std::unique_ptr<ChildProcess> coordinator_;
  std::map<std::string, std::unique_ptr<ChildProcess>> workers_;
};

TEST(ResumeTest, AKilledWorkersJobGoesOnElsewhereAndReturnsTheSameBits) {
  char name[] = "/tmp/weir-resume-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string folder = name, root = WEIR_SOURCE_DIR;
  WriteFileAtomically(folder + "/job.yaml", R"(name: resume
model: {torchscript: )" + root + R"(/models/resnet_tiny_ts.pt}
data: {csv: )" + root + R"(/data/digits8x8/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16}
train: {iterations: 24, batch: 32, micro_batches: 2, optimizer: {kind: sgd, lr: 0.05, momentum: 0.9, clip_norm: 1}}
checkpoint: {every: 0.5s}
disconnect: {lost_after: 2s}
)");
  {
    Cluster cluster(folder);
    // None holds the model whole: two parts.
    cluster.AddWorker("a", "3.2MB");
    cluster.AddWorker("b", "3.2MB");
    cluster.AddWorker("c", "3.2MB");
    const auto submit = Shell(kWeir + " submit -q --coordinator " + cluster.address() + " " + folder + "/job.yaml");
    ASSERT_EQ(submit.first, 0) << submit.second;
    auto job = cluster.Await(1, 60, [](const auto& j) { return j.contains("checkpoints") && !j["checkpoints"].empty(); });
    ASSERT_EQ(job["workers"].size(), 2u) << job.dump();
    cluster.Kill(job["workers"][1].get<std::string>());
    job = cluster.Await(1, 90, [](const auto& j) { return j["state"] == "finished" || j["state"] == "failed"; });
    ASSERT_EQ(job["state"], "finished") << job.dump();
    EXPECT_GE(job["attempt"].get<int>(), 2);
    EXPECT_GT(job["resumed_from"].get<int>(), 0);
    const auto get = Shell(kWeir + " get --coordinator " + cluster.address() + " 1 -o " + folder + "/disturbed.pt");
    ASSERT_EQ(get.first, 0) << get.second;
    // The log of a run with a lost worker and a resumption plays in the simulator.
    const auto replay = Shell(kWeir + " replay --json " + folder + "/state");
    ASSERT_EQ(replay.first, 0) << replay.second;
    EXPECT_NE(replay.second.find("resume"), std::string::npos) << replay.second;
  }
  {
    ASSERT_EQ(Shell("rm -rf " + folder + "/state").first, 0);
    Cluster cluster(folder);
    cluster.AddWorker("whole", "1GB");
    const auto submit = Shell(kWeir + " submit -q --wait --coordinator " + cluster.address() + " " + folder + "/job.yaml");
    ASSERT_EQ(submit.first, 0) << submit.second;
    ASSERT_EQ(Shell(kWeir + " get --coordinator " + cluster.address() + " 1 -o " + folder + "/undisturbed.pt").first, 0);
  }
  EXPECT_EQ(ReadFile(folder + "/disturbed.pt"), ReadFile(folder + "/undisturbed.pt"));
  Shell("rm -rf " + folder);
}

}  // namespace
}  // namespace weir
