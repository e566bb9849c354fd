// The daemon with a real coordinator and a process that stands in for the executor.
#include "worker/daemon/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/testing/cluster.h"
#include "worker/daemon/child_process.h"

namespace weir::worker {
namespace {

using namespace testing_cluster;

class TestDaemon {
 public:
  TestDaemon(const std::string& coordinator, const std::string& name) {
    options_.coordinator = coordinator;
    options_.name = name;
    options_.flops = 1e10;
    options_.memory_bytes = 1e9;
    options_.executor_command = {WEIR_FAKE_EXECUTOR};
    options_.stop_fd = stop_.fd();
    thread_ = std::thread([this] { RunDaemon(options_); });
  }
  ~TestDaemon() { Stop(); }
  void Stop() {
    stop_.Set();
    if (thread_.joinable()) thread_.join();
  }

 private:
  WakeUp stop_;
  DaemonOptions options_;
  std::thread thread_;
};

std::int64_t SubmitNamed(Client* client, const std::string& name) {
  static int count = 0;
  auto request = MakeSubmit(client, "r" + std::to_string(++count));
  request.set_name(name);
  return Submit(client, request).job();
}

TEST(DaemonTest, RunsAStageAndUploadsItsResult) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  TestDaemon daemon(coordinator.address(), "w0");
  Client client(coordinator.address(), kPatience);
  const auto info = Await(&client, SubmitNamed(&client, "done"), "finished");
  EXPECT_EQ(ArtifactClient(ArtifactAddress(&client)).GetContent(info.result_artifact()), "trained from a model and 1,2,3,4,0\n");
  EXPECT_DOUBLE_EQ(info.accuracy(), 0.75);
  EXPECT_DOUBLE_EQ(info.loss(), 0.5);
  Await(&client, SubmitNamed(&client, "done"), "finished");  // from the cache now
}

TEST(DaemonTest, TheJobsOwnFailureComesThroughWithItsReason) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  TestDaemon daemon(coordinator.address(), "w0");
  Client client(coordinator.address(), kPatience);
  EXPECT_EQ(Await(&client, SubmitNamed(&client, "fail"), "failed").reason(), "loss is NaN on w0");
}

TEST(DaemonTest, AnExecutorThatDiesIsReplacedAndItsStagesFailAsInfrastructure) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  TestDaemon daemon(coordinator.address(), "w0");
  Client client(coordinator.address(), kPatience);
  const auto info = Await(&client, SubmitNamed(&client, "die"), "failed");  // attempts 1 to 3, each by a fresh executor
  EXPECT_EQ(info.exit_code(), 7);
  EXPECT_EQ(info.attempt(), 3);
  EXPECT_NE(info.reason().find("the executor ended with signal 9 (Killed) on w0"), std::string::npos) << info.reason();
  Await(&client, SubmitNamed(&client, "done"), "finished");
}

TEST(DaemonTest, CancelReachesTheWorkerAndFreesIt) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  TestDaemon daemon(coordinator.address(), "w0");
  Client client(coordinator.address(), kPatience);
  const std::int64_t job = SubmitNamed(&client, "hang");
  Await(&client, job, "starting");
  wire::CancelRequest cancel;
  cancel.set_job(job);
  client.Call<wire::CancelReply>(MessageType::kCancelRequest, cancel, MessageType::kCancelReply);
  Await(&client, SubmitNamed(&client, "done"), "finished");
}

TEST(DaemonTest, ReconnectsToACoordinatorThatStartedAgain) {
  TemporaryFolder state;
  auto coordinator = std::make_unique<TestCoordinator>(state.path());
  const std::string address = coordinator->address();
  TestDaemon daemon(address, "w0");
  std::int64_t job;
  {
    Client client(address, kPatience);
    job = SubmitNamed(&client, "hang");
    Await(&client, job, "starting");
  }
  coordinator.reset();
  coordinator = std::make_unique<TestCoordinator>(state.path(), "fifo", 4, 60, address);
  Client client(address, kPatience);
  EXPECT_EQ(Await(&client, job, "starting").attempt(), 2);
}

TEST(DaemonTest, AWorkerThatStopsSaysGoodbye) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  TestDaemon daemon(coordinator.address(), "w0");
  Client client(coordinator.address(), kPatience);
  const std::int64_t job = SubmitNamed(&client, "hang");
  Await(&client, job, "starting");
  daemon.Stop();
  EXPECT_EQ(Await(&client, job, "waiting").attempt(), 2);
}

TEST(DaemonTest, NoCoordinatorIsOneClearLineAfterTheTimeout) {
  DaemonOptions options;
  options.coordinator = "tcp://127.0.0.1:9";
  options.name = "w0";
  options.flops = options.memory_bytes = 1e9;
  options.executor_command = {WEIR_FAKE_EXECUTOR};
  options.connect_timeout = 0.5;
  try {
    RunDaemon(options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnreachable);
    EXPECT_STREQ(e.what(), "coordinator at tcp://127.0.0.1:9: no answer within 0.5 s");
  }
}

TEST(DaemonTest, AnExecutorThatNeverStartsEndsTheWorkerWithAReason) {
  DaemonOptions options;
  options.coordinator = "tcp://127.0.0.1:9";
  options.name = "w0";
  options.flops = options.memory_bytes = 1e9;
  options.executor_command = {"/bin/false"};
  try {
    RunDaemon(options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInfrastructure);
    EXPECT_STREQ(e.what(), "worker w0: the executor ended with exit code 1 before it was ready, 5 times");
  }
  options.executor_command = {"/nonexistent"};
  EXPECT_THROW(RunDaemon(options), Error);
}

TEST(ChildProcessTest, TellsHowAChildEnded) {
  ChildProcess child({"/bin/sleep", "100"});
  EXPECT_FALSE(child.HowItEnded());
  child.Signal(SIGTERM);
  child.Stop(10);
  EXPECT_EQ(child.HowItEnded(), "signal 15 (Terminated)");
}

}  // namespace
}  // namespace weir::worker
