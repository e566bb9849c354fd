// The coordinator over real sockets, with workers that are scripts.
#include "coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <fstream>

#include "coordinator/dispatch.h"
#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

using namespace testing_cluster;

constexpr char kResult[] = "00000000000000000000000000000000000000000000000000000000000000aa";

TEST(CoordinatorTest, AJobRunsFromSubmitToFinish) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  EXPECT_EQ(worker.Hello().worker_id(), 0);
  const auto reply = Submit(&client, MakeSubmit(&client, "a"));
  ASSERT_EQ(reply.error(), "");
  const auto assign = worker.Assigned();
  EXPECT_EQ(assign.key().job(), reply.job());
  EXPECT_EQ(assign.key().attempt(), 1);
  EXPECT_EQ(assign.num_stages(), 1);
  EXPECT_EQ(assign.stage_of_size(), 2);
  EXPECT_EQ(assign.peers(0), worker.hello().bulk_address());
  EXPECT_DOUBLE_EQ(assign.iteration_flop(), 1e9);
  EXPECT_DOUBLE_EQ(assign.train().iterations(), 100);
  worker.Progress(assign.key(), 40, 1.5);
  auto info = Await(&client, reply.job(), "running");
  EXPECT_EQ(info.iterations_done(), 40);
  EXPECT_DOUBLE_EQ(info.loss(), 1.5);
  worker.Done(assign.key(), kResult);
  info = Await(&client, reply.job(), "finished");
  EXPECT_EQ(info.result_artifact(), kResult);
  EXPECT_EQ(info.iterations_done(), 100);
  EXPECT_EQ(info.scheduler(), "fifo");
  EXPECT_NEAR(info.predicted_iteration_seconds(), 0.1, 1e-9);  // 1 GFLOP at 10 GFLOP/s
  EXPECT_NEAR(info.measured_iteration_seconds(), 0.01, 1e-9);
  EXPECT_GT(info.decision_seconds(), 0);
  EXPECT_GE(info.finish(), info.start());

  coordinator.Stop();
  std::ifstream log(state.path() + "/events.jsonl");
  std::string events;
  for (std::string line; std::getline(log, line);) {
    const std::size_t at = line.find("\"event\":\"") + 9;
    events += line.substr(at, line.find('"', at) - at) + " ";
  }
  EXPECT_EQ(events, "coordinator_start worker_join submit arrival plan place finish ");
}

TEST(CoordinatorTest, ConsecutiveSubgraphsOnOneWorkerFormAStage) {
  JobSpec spec;
  for (int k = 0; k < 4; ++k) spec.subgraphs.push_back({.flop = 1.0 + k, .memory_bytes = 10, .param_bytes = 0});
  const StagePlan plan = MergeStages(spec, {2, 2, 0, 2});
  EXPECT_EQ(plan.stage_of_subgraph, (std::vector<int>{0, 0, 1, 2}));
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.stages[0].flop, 3);
  EXPECT_DOUBLE_EQ(plan.stages[0].memory_bytes, 20);
  EXPECT_EQ(plan.stages[2].worker, 2);
}

TEST(CoordinatorTest, TheStagesOfAJobAreStoppedWhenOneFails) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker a(coordinator.address(), "a", 1.5e6), b(coordinator.address(), "b", 1.5e6);
  a.Hello();
  b.Hello();
  auto request = MakeSubmit(&client, "two");
  (*request.mutable_labels())["parts"] = "2";  // 1 MB each: no worker holds both
  const auto reply = Submit(&client, request);
  const auto on_a = a.Assigned(), on_b = b.Assigned();
  EXPECT_EQ(on_a.num_stages(), 2);
  EXPECT_EQ(on_a.peers_size(), 2);
  EXPECT_NE(on_a.key().stage(), on_b.key().stage());
  a.Failed(on_a.key(), false, "loss is NaN");
  EXPECT_EQ(b.Expect<wire::Stop>(MessageType::kStop).key().job(), reply.job());
  const auto info = Await(&client, reply.job(), "failed");
  EXPECT_EQ(info.reason(), "loss is NaN on a");
  EXPECT_EQ(info.exit_code(), 1);
}

TEST(CoordinatorTest, AnInfrastructureFailureIsRetriedAsOftenAsAllowed) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  const auto reply = Submit(&client, MakeSubmit(&client, "a"));  // retry_infra 2
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto assign = worker.Assigned();
    EXPECT_EQ(assign.key().attempt(), attempt);
    worker.Failed(assign.key(), true, "the executor ended with signal 9 (Killed)");
  }
  const auto info = Await(&client, reply.job(), "failed");
  EXPECT_EQ(info.exit_code(), 7);
  EXPECT_NE(info.reason().find("signal 9"), std::string::npos) << info.reason();
}

TEST(CoordinatorTest, WhatCarriesAnotherAttemptIsDropped) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  const auto reply = Submit(&client, MakeSubmit(&client, "a"));
  const auto first = worker.Assigned();
  worker.Failed(first.key(), true, "disk");
  const auto second = worker.Assigned();
  EXPECT_EQ(second.key().attempt(), 2);
  worker.Done(first.key(), kResult);  // acknowledged, so that it isn't repeated, but not taken
  worker.Progress(first.key(), 99, 9);
  EXPECT_EQ(worker.Expect<wire::Stop>(MessageType::kStop).key().attempt(), 1);
  EXPECT_EQ(Show(&client, reply.job()).iterations_done(), 0);
  worker.Done(second.key(), kResult);
  EXPECT_EQ(Await(&client, reply.job(), "finished").attempt(), 2);
}

TEST(CoordinatorTest, ASilentWorkerLosesItsJobToAnother) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path(), "fifo", 0.3, 0.6);
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker silent(coordinator.address(), "silent");
  silent.Hello();
  const auto reply = Submit(&client, MakeSubmit(&client, "a"));
  const auto first = silent.Assigned();  // and nothing more
  ScriptedWorker other(coordinator.address(), "other");
  other.Hello();
  const auto second = other.Assigned();
  EXPECT_EQ(second.key().job(), reply.job());
  EXPECT_EQ(second.key().attempt(), 2);
  // It returns: told to say Hello again, then to stop the old attempt.
  silent.Progress(first.key(), 10, 1);
  EXPECT_TRUE(silent.Expect<wire::HeartbeatAck>(MessageType::kHeartbeatAck).unknown());
  *silent.hello().add_running() = first.key();
  EXPECT_EQ(silent.Hello().refused(), "");
  EXPECT_EQ(silent.Expect<wire::Stop>(MessageType::kStop).key().attempt(), 1);
  other.Done(second.key(), kResult);
  EXPECT_EQ(Await(&client, reply.job(), "finished", [&] { other.Beat(); }).workers(0), "other");
}

TEST(CoordinatorTest, AWorkerThatLeavesHandsItsJobBackWithoutUsingUpARetry) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  auto request = MakeSubmit(&client, "a");
  request.set_retry_infra(0);
  ScriptedWorker first(coordinator.address(), "first");
  first.Hello();
  const auto reply = Submit(&client, request);
  first.Assigned();
  first.Send(MessageType::kBye, wire::Bye());
  EXPECT_EQ(Await(&client, reply.job(), "waiting").attempt(), 2);
  ScriptedWorker second(coordinator.address(), "second");
  second.Hello();
  second.Done(second.Assigned().key(), kResult);
  Await(&client, reply.job(), "finished");
}

TEST(CoordinatorTest, ADuplicateNameIsRefusedWhileItsOwnerLives) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  auto first = std::make_unique<ScriptedWorker>(coordinator.address(), "w0");
  EXPECT_EQ(first->Hello().refused(), "");
  ScriptedWorker second(coordinator.address(), "w0", 1e9, "second");
  EXPECT_EQ(second.Hello().refused(), "a worker named 'w0' is connected already: give this one another --name");
  first.reset();  // its connection closes: the name is free at once, long before any silence counts
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!second.Hello().refused().empty() && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(second.Hello().refused(), "");
}

TEST(CoordinatorTest, AJobThatFitsNowhereWaitsWithAReasonUntilAWorkerIsLargeEnough) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  auto request = MakeSubmit(&client, "big");
  (*request.mutable_labels())["memory"] = "5e9";
  const auto reply = Submit(&client, request);
  EXPECT_EQ(Show(&client, reply.job()).reason(), "no worker is connected");
  ScriptedWorker small(coordinator.address(), "small", 1e9);
  small.Hello();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string reason;
  while (reason.find("can't hold") == std::string::npos && std::chrono::steady_clock::now() < deadline)
    reason = Show(&client, reply.job()).reason();
  EXPECT_EQ(reason, "needs 5 GB in 1 part(s), the largest 5 GB; the workers can't hold that (the largest has 1 GB)");
  ScriptedWorker large(coordinator.address(), "large", 8e9);
  large.Hello();
  EXPECT_EQ(large.Assigned().key().job(), reply.job());
}

// Was a fault: only a change of the median worker made the coordinator cut the model again.
TEST(CoordinatorTest, AModelThatNoWorkerHeldIsCutAgainWhenALargerOneJoins) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker a(coordinator.address(), "a", 1e9), b(coordinator.address(), "b", 1e9);
  a.Hello();
  b.Hello();
  auto request = MakeSubmit(&client, "unsplittable");
  (*request.mutable_labels())["operator"] = "5e9";
  (*request.mutable_labels())["memory"] = "5e9";
  const auto reply = Submit(&client, request);
  EXPECT_NE(Show(&client, reply.job()).reason().find("an operator is too large"), std::string::npos);
  ScriptedWorker large(coordinator.address(), "large", 8e9);  // the median stays 1 GB
  large.Hello();
  EXPECT_EQ(large.Assigned().key().job(), reply.job());
}

TEST(CoordinatorTest, AWorkerThatJoinsWhileAJobIsPlannedCounts) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  auto request = MakeSubmit(&client, "a");
  (*request.mutable_labels())["operator"] = "2e6";  // fits no worker that was there when planning began
  (*request.mutable_labels())["delay_ms"] = "300";
  worker::Context context;
  worker::Dealer submitter(context, coordinator.address());
  ASSERT_TRUE(submitter.Send(worker::Encode(MessageType::kSubmitRequest, request), kPatience));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  EXPECT_EQ(worker.Assigned().key().attempt(), 1);
}

TEST(CoordinatorTest, TheSameRequestIdIsTheSameJob) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  const auto request = MakeSubmit(&client, "a");
  const auto first = Submit(&client, request), again = Submit(&client, request);
  EXPECT_EQ(first.job(), again.job());
  EXPECT_NE(Submit(&client, MakeSubmit(&client, "b")).job(), first.job());
}

TEST(CoordinatorTest, ABadSubmitIsRefusedAndLeavesNothing) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  auto request = MakeSubmit(&client, "a");
  (*request.mutable_labels())["fail"] = "model.onnx: expected [1, 8, 8]";
  auto reply = Submit(&client, request);
  EXPECT_EQ(reply.error(), "model.onnx: expected [1, 8, 8]");
  EXPECT_EQ(reply.exit_code(), 2);
  request = MakeSubmit(&client, "b");
  request.set_model_artifact(std::string(64, '1'));
  EXPECT_NE(Submit(&client, request).error().find("wasn't uploaded"), std::string::npos);
  const auto list = client.Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply);
  EXPECT_EQ(list.jobs_size(), 0);
}

TEST(CoordinatorTest, CancelStopsTheStagesAndIsIdempotent) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  const auto reply = Submit(&client, MakeSubmit(&client, "a"));
  const auto assign = worker.Assigned();
  wire::CancelRequest cancel;
  cancel.set_job(reply.job());
  for (int i = 0; i < 2; ++i) {
    const auto answer = client.Call<wire::CancelReply>(MessageType::kCancelRequest, cancel, MessageType::kCancelReply);
    EXPECT_EQ(answer.error(), "");
    EXPECT_EQ(answer.state(), "cancelled");
  }
  EXPECT_EQ(worker.Expect<wire::Stop>(MessageType::kStop).key().job(), reply.job());
  cancel.set_job(99);
  EXPECT_EQ(client.Call<wire::CancelReply>(MessageType::kCancelRequest, cancel, MessageType::kCancelReply).error(),
            "there is no job 99");
}

TEST(CoordinatorTest, AfterARestartUnfinishedJobsRunAgainWithTheNextAttempt) {
  TemporaryFolder state;
  std::int64_t job = 0, done = 0;
  wire::StageKey old_key;
  {
    TestCoordinator coordinator(state.path());
    worker::Client client(coordinator.address(), kPatience);
    ScriptedWorker worker(coordinator.address(), "w0");
    worker.Hello();
    done = Submit(&client, MakeSubmit(&client, "done")).job();
    worker.Done(worker.Assigned().key(), kResult);
    job = Submit(&client, MakeSubmit(&client, "a")).job();
    old_key = worker.Assigned().key();
    worker.Progress(old_key, 50, 1);
    Await(&client, job, "running");
  }
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  EXPECT_EQ(Show(&client, done).state(), "finished");
  ScriptedWorker worker(coordinator.address(), "w0");
  *worker.hello().add_running() = old_key;
  worker.Hello();
  EXPECT_EQ(worker.Expect<wire::Stop>(MessageType::kStop).key().attempt(), 1);
  const auto assign = worker.Assigned();
  EXPECT_EQ(assign.key().job(), job);
  EXPECT_EQ(assign.key().attempt(), 2);
  EXPECT_EQ(Submit(&client, MakeSubmit(&client, "a")).job(), job);  // the request id is remembered
  worker.Done(assign.key(), kResult);
  Await(&client, job, "finished");
}

TEST(CoordinatorTest, AnAssignWithoutAcknowledgementIsRepeated) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  Submit(&client, MakeSubmit(&client, "a"));
  const auto first = worker.Expect<wire::Assign>(MessageType::kAssign);  // lost, as far as the coordinator knows
  const auto second = worker.Assigned();
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
}

TEST(CoordinatorTest, OneCoordinatorAStateFolderAndOneAnAddress) {
  TemporaryFolder state, other;
  TestCoordinator coordinator(state.path());
  CoordinatorOptions options;
  options.make_scheduler = [] { return MakeBaseline("fifo"); };
  options.plan = StubPlan;
  options.state_folder = state.path();
  options.listen = "tcp://127.0.0.1:*";
  for (const char* expected : {"another coordinator uses this state folder", "already in use"}) {
    try {
      RunCoordinator(options);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kNotFound);
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
    options.state_folder = other.path();
    options.listen = coordinator.address();
  }
}

TEST(CoordinatorTest, GarbageIsAnsweredOrDroppedAndNothingFalls) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Context context;
  worker::Dealer dealer(context, coordinator.address());
  std::string bytes = worker::EncodeFrame(MessageType::kSubmitRequest, "\xff\xff\xff");
  for (const std::string& garbage :
       {std::string("x"), std::string(), bytes, bytes.substr(0, 10), worker::EncodeFrame(static_cast<MessageType>(999), "")}) {
    ASSERT_TRUE(dealer.Send(garbage, kPatience));
    const auto reply = dealer.Receive(kPatience);
    ASSERT_TRUE(reply);
    std::string error;
    EXPECT_EQ(worker::DecodeFrame(*reply, &error)->type, MessageType::kErrorReply);
  }
  ScriptedWorker bad(coordinator.address(), "bad");
  bad.hello().set_flops(-1);
  EXPECT_NE(bad.Hello().refused(), "");
  worker::Client client(coordinator.address(), kPatience);
  EXPECT_EQ(client.Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply).workers_size(),
            0);
}

}  // namespace
}  // namespace weir::coordinator
