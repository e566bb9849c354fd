// A coordinator on a free loopback port and workers that are scripts: real sockets, no LibTorch. Everything waits with deadlines.
#ifndef WEIR_TESTS_TESTING_CLUSTER_H_
#define WEIR_TESTS_TESTING_CLUSTER_H_

#include <gtest/gtest.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "agent/baselines/baselines.h"
#include "coordinator/coordinator.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/channel.h"
#include "worker/protocol/client.h"
#include "worker/protocol/wire.pb.h"

namespace weir::testing_cluster {

using worker::MessageType;
using worker::Milliseconds;
inline constexpr Milliseconds kPatience(20000);

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "weirXXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A plan without a model: labels parts, memory (bytes a part), iterations, fail (the error of planning), delay_ms (of planning).
inline coordinator::JobPlan StubPlan(const coordinator::PlanRequest& request) {
  const auto& labels = request.submit.labels();
  const auto number = [&](const char* key, double fallback) { return labels.count(key) ? std::stod(labels.at(key)) : fallback; };
  if (labels.count("delay_ms")) std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(number("delay_ms", 0))));
  if (labels.count("fail")) throw Invalid("{}", labels.at("fail"));
  coordinator::JobPlan plan;
  const int parts = static_cast<int>(number("parts", 1));
  for (int k = 0; k < parts; ++k)
    plan.spec.subgraphs.push_back({.flop = 1e9, .memory_bytes = number("memory", 1e6), .param_bytes = 0});
  for (int k = 0; k + 1 < parts; ++k) plan.spec.arcs.push_back({k, k + 1, 1000});
  for (int i = 0; i < 2 * parts; ++i) plan.part_of.push_back(i / 2);
  plan.spec.iterations = number("iterations", 100);
  plan.graph_fingerprint = "stub";
  plan.sample_shape = {4};
  plan.median_memory = request.median_memory;
  plan.largest_memory = request.largest_memory;
  // An operator of that many bytes: no cut fits a smaller worker.
  const double operator_bytes = number("operator", 0);
  if (operator_bytes > std::max(request.median_memory, request.largest_memory)) {
    plan.why_not = "an operator is too large";
    plan.spec.subgraphs.clear();
    plan.spec.arcs.clear();
  }
  return plan;
}

class TestCoordinator {
 public:
  explicit TestCoordinator(const std::string& state, const std::string& scheduler = "fifo", double suspect_after = 4,
                           double lost_after = 60, const std::string& listen = "tcp://127.0.0.1:*") {
    std::promise<std::string> ready;
    auto address = ready.get_future();
    coordinator::CoordinatorOptions options;
    options.listen = listen;
    options.artifact_listen = "tcp://127.0.0.1:*";
    options.state_folder = state;
    options.make_scheduler = [scheduler] { return MakeBaseline(scheduler); };
    options.plan = StubPlan;
    options.suspect_after = suspect_after;
    options.lost_after = lost_after;
    options.stop_fd = stop_.fd();
    thread_ = std::thread([this, options, ready = std::move(ready)]() mutable {
      options.on_ready = [&](const std::string& a) { ready.set_value(a); };
      coordinator::RunCoordinator(options);
    });
    if (address.wait_for(kPatience) == std::future_status::ready) address_ = address.get();
  }
  ~TestCoordinator() { Stop(); }
  void Stop() {
    stop_.Set();
    if (thread_.joinable()) thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  worker::WakeUp stop_;
  std::string address_;
  std::thread thread_;
};

// Talks as a worker, one message at a time.
class ScriptedWorker {
 public:
  ScriptedWorker(const std::string& coordinator, const std::string& name, double memory = 1e9,
                 const std::string& incarnation = "first")
      : dealer_(context_, coordinator) {
    hello_.set_worker(name);
    hello_.set_incarnation(incarnation);
    hello_.set_flops(1e10);
    hello_.set_memory_bytes(memory);
    hello_.set_bandwidth(1e8);
    hello_.set_max_residents(1);
    hello_.set_bulk_address("tcp://127.0.0.1:1#" + name);
  }
  wire::Hello& hello() { return hello_; }
  wire::HelloAck Hello() {
    Send(MessageType::kHello, hello_);
    return Expect<wire::HelloAck>(MessageType::kHelloAck);
  }
  template <typename Message>
  void Send(MessageType type, const Message& message) {
    EXPECT_TRUE(dealer_.Send(worker::Encode(type, message), kPatience));
  }
  // The next message of this type; others are dropped. A failed expectation ends in a default message.
  template <typename Message>
  Message Expect(MessageType type) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    Message message;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto bytes = dealer_.Receive(Milliseconds(100));
      if (!bytes) {
        if (beating_) Beat();
        continue;
      }
      std::string error;
      const auto frame = worker::DecodeFrame(*bytes, &error);
      if (frame && frame->type == type && message.ParseFromString(frame->body)) return message;
    }
    ADD_FAILURE() << "no message of type " << static_cast<int>(type) << " within the deadline";
    return message;
  }
  wire::Assign Assigned() {
    auto assign = Expect<wire::Assign>(MessageType::kAssign);
    wire::AssignAck ack;
    *ack.mutable_key() = assign.key();
    Send(MessageType::kAssignAck, ack);
    return assign;
  }
  void Progress(const wire::StageKey& key, std::int64_t iteration, double loss) {
    wire::Progress progress;
    *progress.mutable_key() = key;
    progress.set_iteration(iteration);
    progress.set_loss(loss);
    progress.set_iteration_seconds(0.01);
    Send(MessageType::kProgress, progress);
  }
  void Done(const wire::StageKey& key, const std::string& artifact) {
    wire::StageDone done;
    *done.mutable_key() = key;
    done.set_result_artifact(artifact);
    done.set_final_loss(0.25);
    done.set_accuracy(0.9);
    Send(MessageType::kStageDone, done);
    EXPECT_EQ(Expect<wire::StageAck>(MessageType::kStageAck).key().job(), key.job());
  }
  void Failed(const wire::StageKey& key, bool infrastructure, const std::string& error) {
    wire::StageFailed failed;
    *failed.mutable_key() = key;
    failed.set_infrastructure(infrastructure);
    failed.set_error(error);
    Send(MessageType::kStageFailed, failed);
    Expect<wire::StageAck>(MessageType::kStageAck);
  }
  void Beat() { dealer_.Send(worker::Encode(MessageType::kHeartbeat, wire::Heartbeat())); }
  void set_beating(bool beating) { beating_ = beating; }

 private:
  worker::Context context_;
  worker::Dealer dealer_;
  wire::Hello hello_;
  bool beating_ = true;
};

// A submit whose model and data are uploaded.
inline wire::SubmitRequest MakeSubmit(worker::Client* client, const std::string& request_id) {
  worker::ArtifactClient artifacts(worker::ArtifactAddress(client));
  wire::SubmitRequest request;
  request.set_name("job-" + request_id);
  request.set_request_id(request_id);
  request.set_model_format("onnx");
  request.set_model_name("model.onnx");
  request.set_model_artifact(artifacts.PutContent("a model"));
  request.mutable_train()->mutable_data()->set_artifact(artifacts.PutContent("1,2,3,4,0\n"));
  request.mutable_train()->mutable_data()->set_format("csv");
  request.set_retry_infra(2);
  return request;
}

inline wire::SubmitReply Submit(worker::Client* client, const wire::SubmitRequest& request) {
  return client->Call<wire::SubmitReply>(MessageType::kSubmitRequest, request, MessageType::kSubmitReply);
}

inline wire::JobInfo Show(worker::Client* client, std::int64_t job) {
  wire::ShowRequest request;
  request.set_job(job);
  return client->Call<wire::ShowReply>(MessageType::kShowRequest, request, MessageType::kShowReply).job();
}

// Asks until the job is in this state; fails the test after the deadline.
inline wire::JobInfo Await(worker::Client* client, std::int64_t job, const std::string& state,
                           const std::function<void()>& between = {}) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  wire::JobInfo info;
  do {
    info = Show(client, job);
    if (info.state() == state) return info;
    if (between) between();
  } while (std::chrono::steady_clock::now() < deadline);
  ADD_FAILURE() << "job " << job << " is " << info.state() << " (" << info.reason() << "), expected " << state;
  return info;
}

}  // namespace weir::testing_cluster

#endif  // WEIR_TESTS_TESTING_CLUSTER_H_
