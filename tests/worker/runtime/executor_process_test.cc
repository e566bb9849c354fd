// Partitioned training in separate executor processes, over real sockets, against one process that runs the whole lowered graph:
// losses and weights bit for bit. The test plays the daemon.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <memory>

#include "env/core/file.h"
#include "partitioner/cut/partition.h"
#include "worker/daemon/child_process.h"
#include "worker/protocol/channel.h"
#include "worker/protocol/dataset.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/stage_trainer.h"

namespace weir::worker {
namespace {

const std::string kRoot = WEIR_SOURCE_DIR;

// An executor process and the socket that its daemon would hold.
class Executor {
 public:
  Executor(const Context& context, const std::string& folder, int index)
      : router_(context, "ipc://" + folder + "/control" + std::to_string(index)),
        process_({std::string(WEIR_BINARY_DIR) + "/weir", "executor", "--control", router_.address()}) {
    auto [type, body] = Next();
    EXPECT_EQ(type, MessageType::kExecutorReady);
    wire::ExecutorReady ready;
    EXPECT_TRUE(ready.ParseFromString(body));
    bulk_address_ = ready.bulk_address();
  }
  const std::string& bulk_address() const { return bulk_address_; }
  void Send(MessageType type, const google::protobuf::MessageLite& message) {
    EXPECT_EQ(router_.Send(peer_, EncodeFrame(type, message.SerializeAsString())), SendResult::kSent);
  }
  // The next frame; fails the test after a minute.
  std::pair<MessageType, std::string> Next() {
    auto envelope = router_.Receive(Milliseconds(60000));
    if (!envelope) {
      ADD_FAILURE() << "no message within 60 s";
      return {MessageType::kBye, ""};
    }
    peer_ = envelope->peer;
    std::string error;
    auto frame = DecodeFrame(envelope->bytes, &error);
    EXPECT_TRUE(frame) << error;
    return {frame->type, frame->body};
  }
  // Skips progress.
  wire::StageDone Done() {
    while (true) {
      auto [type, body] = Next();
      if (type == MessageType::kProgress) continue;
      wire::StageDone done;
      if (type == MessageType::kStageFailed) {
        wire::StageFailed failed;
        failed.ParseFromString(body);
        ADD_FAILURE() << failed.error();
      }
      EXPECT_EQ(type, MessageType::kStageDone);
      done.ParseFromString(body);
      return done;
    }
  }

 private:
  Router router_;
  ChildProcess process_;
  std::string peer_, bulk_address_;
};

wire::RunStage Plan(const std::string& file) {
  wire::RunStage run;
  run.set_model_path(kRoot + "/models/" + file);
  run.set_data_path(kRoot + "/data/digits8x8/digits.csv.gz");
  wire::Assign* assign = run.mutable_assign();
  assign->mutable_key()->set_attempt(1);
  assign->set_model_name(file);
  assign->set_num_stages(1);
  wire::TrainSpec* train = assign->mutable_train();
  train->set_iterations(5);
  train->set_batch(32);
  train->set_micro_batches(2);
  train->set_loss("cross_entropy");
  train->set_seed(11);
  train->set_init("kaiming");
  train->mutable_optimizer()->set_kind("sgd");
  train->mutable_optimizer()->set_learning_rate(0.05);
  train->mutable_optimizer()->set_momentum(0.9);
  auto* data = train->mutable_data();
  data->set_format("csv");
  for (int d : {1, 8, 8}) data->add_sample_shape(d);
  data->set_num_classes(10);
  data->set_scale(16);
  data->set_holdout(0.2);
  return run;
}

class ExecutorProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weir-executor-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    for (int i = 0; i < 3; ++i) executors_.push_back(std::make_unique<Executor>(context_, folder_, i));
  }
  void TearDown() override {
    executors_.clear();
    // Not std::filesystem: the LibTorch of the Python package exports functions of it that crash in programs that link it.
    for (int i = 0; i < 3; ++i) {
      ::unlink((folder_ + "/control" + std::to_string(i)).c_str());
      ::unlink((folder_ + "/result" + std::to_string(i) + ".pt").c_str());
    }
    ::rmdir(folder_.c_str());
  }

  // Runs `run` in `parts` of the executors; returns the output stage's report.
  wire::StageDone Train(wire::RunStage run, std::int64_t job, int parts) {
    const auto model = LoadLoweredModel(ReadFile(run.model_path()), "model", 16, {1, 8, 8});
    partitioner::CutOptions options;
    options.num_parts = parts;
    options.balance_slack = 0.5;
    const auto partition = partitioner::CutIntoParts(model.operator_graph, options);
    EXPECT_EQ(partition.status, partitioner::Partition::Status::kOk) << partition.reason;
    wire::Assign* assign = run.mutable_assign();
    assign->mutable_key()->set_job(job);
    assign->set_num_stages(parts);
    assign->set_graph_fingerprint(model.operator_graph.Fingerprint());
    for (int part : partition.part_of) assign->add_stage_of(part);
    for (int p = 0; p < parts; ++p) assign->add_peers(executors_[p]->bulk_address());
    for (int p = 0; p < parts; ++p) {
      assign->mutable_key()->set_stage(p);
      run.set_result_path(folder_ + "/result" + std::to_string(p) + ".pt");
      executors_[p]->Send(MessageType::kRunStage, run);
    }
    wire::StageDone result;
    for (int p = 0; p < parts; ++p) {
      wire::StageDone done = executors_[p]->Done();
      if (!done.result_path().empty()) result = done;
    }
    return result;
  }

  Context context_;
  std::string folder_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

TEST_F(ExecutorProcessTest, TwoAndThreeProcessesEqualOne) {
  std::int64_t job = 0;
  for (const char* file : {"cnn.onnx", "resnet_tiny_ts.pt", "attention_ts.pt"}) {
    SCOPED_TRACE(file);
    const wire::StageDone whole = Train(Plan(file), ++job, 1);
    ASSERT_EQ(whole.last_losses_size(), 5);
    ASSERT_FALSE(whole.result_path().empty());
    const torch::jit::Module reference = torch::jit::load(whole.result_path());
    for (int parts : {2, 3}) {
      SCOPED_TRACE(parts);
      const wire::StageDone done = Train(Plan(file), ++job, parts);
      ASSERT_EQ(done.last_losses_size(), 5);
      for (int i = 0; i < 5; ++i) EXPECT_EQ(done.last_losses(i), whole.last_losses(i)) << "iteration " << i;
      EXPECT_EQ(done.accuracy(), whole.accuracy());
      const torch::jit::Module module = torch::jit::load(done.result_path());
      auto expected = reference.named_parameters().begin();
      int compared = 0;
      for (const auto& p : module.named_parameters()) {
        EXPECT_EQ(p.name, (*expected).name);
        EXPECT_TRUE(torch::equal(p.value, (*expected).value)) << p.name;
        ++expected;
        ++compared;
      }
      auto buffer = reference.named_buffers().begin();
      for (const auto& b : module.named_buffers()) {
        EXPECT_TRUE(torch::equal(b.value, (*buffer).value)) << b.name;
        ++buffer;
      }
      EXPECT_GT(compared, 5);
    }
  }
}

TEST_F(ExecutorProcessTest, AFailingStageSaysWhyAndTheProcessLivesOn) {
  wire::RunStage run = Plan("cnn.onnx");
  run.mutable_assign()->mutable_train()->mutable_data()->set_num_classes(9);
  run.mutable_assign()->mutable_key()->set_job(100);
  run.set_result_path(folder_ + "/r.pt");
  executors_[0]->Send(MessageType::kRunStage, run);
  auto [type, body] = executors_[0]->Next();
  ASSERT_EQ(type, MessageType::kStageFailed);
  wire::StageFailed failed;
  ASSERT_TRUE(failed.ParseFromString(body));
  EXPECT_FALSE(failed.infrastructure());
  EXPECT_NE(failed.error().find("digits.csv.gz:"), std::string::npos) << failed.error();
  EXPECT_EQ(Train(Plan("mlp.onnx"), 101, 1).last_losses_size(), 5);
}

}  // namespace
}  // namespace weir::worker
