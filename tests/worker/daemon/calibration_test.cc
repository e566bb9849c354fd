// Calibration and telemetry through daemon and coordinator; a shell command stands in for the measurement.
#include "worker/daemon/calibration.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "env/core/file.h"
#include "tests/testing/cluster.h"
#include "worker/daemon/daemon.h"

namespace weir::worker {
namespace {

using namespace testing_cluster;

// A command that "measures" this speed.
std::vector<std::string> Measuring(const std::string& folder, double flops) {
  wire::Calibration calibration;
  calibration.set_flops(flops);
  auto* speed = calibration.add_speed();
  speed->set_name("matmul");
  speed->set_flops(2 * flops);
  WriteFileAtomically(folder + "/figures", calibration.SerializeAsString());
  // The file to write is the last argument.
  return {"/bin/sh", "-c", "for f; do :; done; cp " + folder + "/figures \"$f\"", "sh"};
}

class Worker {
 public:
  Worker(const std::string& coordinator, double flops, std::vector<std::string> command, bool emulate = false) {
    options_.coordinator = coordinator;
    options_.name = "w0";
    options_.flops = flops;
    options_.emulate = emulate;
    options_.memory_bytes = 1e9;
    options_.executor_command = {WEIR_FAKE_EXECUTOR};
    options_.calibrate_command = std::move(command);
    options_.stop_fd = stop_.fd();
    thread_ = std::thread([this] { RunDaemon(options_); });
  }
  ~Worker() {
    stop_.Set();
    thread_.join();
  }

 private:
  WakeUp stop_;
  DaemonOptions options_;
  std::thread thread_;
};

// Asks until `good` holds for the only worker.
wire::WorkerInfo AwaitWorker(Client* client, const std::function<bool(const wire::WorkerInfo&)>& good) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  wire::WorkerInfo info;
  do {
    const auto reply = client->Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply);
    if (reply.workers_size() > 0) info = reply.workers(0);
    if (reply.workers_size() > 0 && good(info)) return info;
    std::this_thread::sleep_for(Milliseconds(20));
  } while (std::chrono::steady_clock::now() < deadline);
  ADD_FAILURE() << "the worker isn't as expected within the deadline: " << info.state();
  return info;
}

bool Ready(const wire::WorkerInfo& w) {
  return w.state() == "ready";
}

wire::BenchReply BenchAll(Client* client, const std::vector<std::string>& names = {}) {
  wire::BenchRequest request;
  for (const std::string& name : names) request.add_workers(name);
  return client->Call<wire::BenchReply>(MessageType::kBenchRequest, request, MessageType::kBenchReply);
}

TEST(CalibrationTest, AWorkerWithoutASpeedMeasuresItselfBeforeItJoins) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  Worker worker(coordinator.address(), 0, Measuring(state.path(), 3e9));
  Client client(coordinator.address(), kPatience);
  const auto info = AwaitWorker(&client, [](const auto& w) { return Ready(w) && w.telemetry().has_memory_bytes(); });
  EXPECT_DOUBLE_EQ(info.spec().flops(), 3e9);
  EXPECT_TRUE(info.spec().measured());
  EXPECT_DOUBLE_EQ(info.calibration().speed(0).flops(), 6e9);
  EXPECT_GT(info.telemetry().memory_available_bytes(), 0);  // this machine's own
}

TEST(CalibrationTest, BenchReplacesTheSpeedOfAnIdleWorkerAndTheLogHasIt) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  Client client(coordinator.address(), kPatience);
  {
    Worker worker(coordinator.address(), 1e10, Measuring(state.path(), 3e9));
    EXPECT_DOUBLE_EQ(AwaitWorker(&client, Ready).spec().flops(), 1e10);
    const auto reply = BenchAll(&client, {"w0", "nobody"});
    ASSERT_EQ(reply.started_size(), 1);
    ASSERT_EQ(reply.refused_size(), 1);
    EXPECT_EQ(reply.refused(0), "nobody: there is no such worker");
    const auto info = AwaitWorker(&client, [](const auto& w) { return !w.benching(); });
    EXPECT_DOUBLE_EQ(info.spec().flops(), 3e9);
    EXPECT_DOUBLE_EQ(info.calibration().flops(), 3e9);
    // It takes jobs again, at the new speed: 1 GFLOP takes a third of a second.
    auto request = MakeSubmit(&client, "after");
    request.set_name("done");
    EXPECT_NEAR(Await(&client, Submit(&client, request).job(), "finished").predicted_iteration_seconds(), 1 / 3.0, 1e-9);
  }
  const std::string log = ReadFile(state.path() + "/events.jsonl");
  EXPECT_NE(log.find("\"event\":\"worker_change\",\"worker\":0,\"name\":\"w0\",\"flops\":3000000000"), std::string::npos) << log;
}

TEST(CalibrationTest, AnEmulatedWorkerKeepsTheSpeedThatItWasGiven) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  Client client(coordinator.address(), kPatience);
  Worker worker(coordinator.address(), 1e10, Measuring(state.path(), 3e9), true);
  AwaitWorker(&client, Ready);
  EXPECT_EQ(BenchAll(&client).started_size(), 1);
  const auto info = AwaitWorker(&client, [](const auto& w) { return !w.benching(); });
  EXPECT_DOUBLE_EQ(info.spec().flops(), 1e10);
  EXPECT_DOUBLE_EQ(info.calibration().flops(), 3e9);
}

TEST(CalibrationTest, AWorkerWithAJobIsNotMeasured) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  Client client(coordinator.address(), kPatience);
  Worker worker(coordinator.address(), 1e10, Measuring(state.path(), 3e9));
  AwaitWorker(&client, Ready);
  auto request = MakeSubmit(&client, "busy");
  request.set_name("hang");
  Submit(&client, request);
  AwaitWorker(&client, [](const auto& w) { return w.jobs_size() == 1; });
  const auto reply = BenchAll(&client);
  EXPECT_EQ(reply.started_size(), 0);
  ASSERT_EQ(reply.refused_size(), 1);
  EXPECT_EQ(reply.refused(0), "w0: jobs run there");
}

TEST(CalibrationTest, AMeasurementThatDiesCostsAFigureNotTheWorker) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  Client client(coordinator.address(), kPatience);
  Worker worker(coordinator.address(), 1e10, {"/bin/sh", "-c", "kill -9 $$", "sh"});
  AwaitWorker(&client, Ready);
  EXPECT_EQ(BenchAll(&client).started_size(), 1);
  const auto info = AwaitWorker(&client, [](const auto& w) { return !w.benching(); });
  EXPECT_EQ(info.calibration().error(), "measuring ended with signal 9 (Killed)");
  EXPECT_DOUBLE_EQ(info.spec().flops(), 1e10);
  auto request = MakeSubmit(&client, "after");
  request.set_name("done");
  Await(&client, Submit(&client, request).job(), "finished");
}

TEST(CalibrationTest, WithoutAnySpeedAWorkerDoesNotJoinAndSaysWhy) {
  for (const auto& [script, why] : {std::pair("exit 3", "measuring ended with exit code 3"),
                                    std::pair("for f; do :; done; echo nonsense >\"$f\"", "what was measured can't be read"),
                                    std::pair("for f; do :; done; : >\"$f\"", "what was measured is no speed")}) {
    DaemonOptions options;
    options.name = "w0";
    options.memory_bytes = 1e9;
    options.calibrate_command = {"/bin/sh", "-c", script, "sh"};
    try {
      RunDaemon(options);
      ADD_FAILURE() << script;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInfrastructure);
      EXPECT_EQ(std::string(e.what()), fmt::format("worker w0: its speed can't be measured ({}): give --flops", why));
    }
  }
}

}  // namespace
}  // namespace weir::worker
