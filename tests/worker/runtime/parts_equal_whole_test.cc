// Partitioned training equals unpartitioned training, bit for bit: the oracle is one stage that runs the whole lowered graph;
// that one is compared with plain LibTorch where no micro-batches and no dropout make a difference.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <thread>

#include "env/core/file.h"
#include "partitioner/cut/partition.h"
#include "partitioner/torchscript/lowering.h"
#include "tests/testing/thread_exchange.h"
#include "worker/protocol/dataset.h"
#include "worker/runtime/batches.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/stage_trainer.h"

namespace weir::worker {
namespace {

const std::string kRoot = WEIR_SOURCE_DIR;

const Dataset& Digits() {
  static const Dataset data = ReadDataset(kRoot + "/data/digits8x8/digits.csv.gz", "", "csv", {1, 8, 8}, 10, 16);
  return data;
}

wire::Assign Plan(const std::string& file, int micro_batches, const std::string& optimizer) {
  wire::Assign assign;
  assign.mutable_key()->set_job(1);
  assign.mutable_key()->set_attempt(1);
  assign.set_model_name(file);
  assign.set_num_stages(1);
  wire::TrainSpec* train = assign.mutable_train();
  train->set_iterations(5);
  train->set_batch(32);
  train->set_micro_batches(micro_batches);
  train->set_loss("cross_entropy");
  train->set_seed(7);
  train->set_init("keep");
  train->mutable_optimizer()->set_kind(optimizer);
  train->mutable_optimizer()->set_learning_rate(optimizer == "sgd" ? 0.05 : 0.002);
  train->mutable_optimizer()->set_momentum(0.9);
  train->mutable_optimizer()->set_beta1(0.9);
  train->mutable_optimizer()->set_beta2(0.999);
  train->mutable_optimizer()->set_epsilon(1e-8);
  train->mutable_data()->set_num_classes(10);
  train->mutable_data()->set_holdout(0.2);
  return assign;
}

TrainerResult RunParts(wire::Assign assign, const std::string& content, int parts) {
  if (parts == 1) return TrainStage(assign, content, Digits(), nullptr, {});
  const auto model =
      LoadLoweredModel(content, assign.model_name(), assign.train().batch() / assign.train().micro_batches(), {1, 8, 8});
  partitioner::CutOptions options;
  options.num_parts = parts;
  options.balance_slack = 0.5;
  const partitioner::Partition partition = partitioner::CutIntoParts(model.operator_graph, options);
  EXPECT_EQ(partition.status, partitioner::Partition::Status::kOk) << partition.reason;
  for (int part : partition.part_of) assign.add_stage_of(part);
  assign.set_num_stages(parts);
  testing::ThreadExchange::Boxes boxes;
  for (int p = 0; p < parts; ++p) boxes.push_back(std::make_unique<Mailbox>());
  TrainerResult result;
  std::vector<std::thread> threads;
  for (int p = 0; p < parts; ++p) {
    threads.emplace_back([&, p] {
      at::set_num_threads(1);
      wire::Assign own = assign;
      own.mutable_key()->set_stage(p);
      testing::ThreadExchange exchange(&boxes, p);
      TrainerResult r = TrainStage(own, content, Digits(), &exchange, {});
      if (!r.torchscript.empty()) result = std::move(r);
    });
  }
  for (auto& t : threads) t.join();
  return result;
}

void ExpectSameBits(const TrainerResult& a, const TrainerResult& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_EQ(a.losses[i], b.losses[i]) << "iteration " << i;
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(torch::equal(a.weights[i], b.weights[i])) << "weight " << i;
  EXPECT_EQ(a.accuracy, b.accuracy);
}

struct Case {
  const char* file;
  int micro_batches;
  const char* optimizer;
};

class PartsEqualWhole : public ::testing::TestWithParam<Case> {};

TEST_P(PartsEqualWhole, InLossesAndWeights) {
  at::set_num_threads(1);
  const Case& c = GetParam();
  const std::string content = ReadFile(kRoot + "/models/" + c.file);
  const wire::Assign assign = Plan(c.file, c.micro_batches, c.optimizer);
  const TrainerResult whole = RunParts(assign, content, 1);
  ASSERT_EQ(whole.losses.size(), 5u);
  EXPECT_NE(whole.losses.front(), whole.losses.back());
  for (int parts : {2, 3}) {
    SCOPED_TRACE(parts);
    ExpectSameBits(RunParts(assign, content, parts), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PartsEqualWhole,
                         ::testing::Values(Case{"cnn_ts.pt", 1, "sgd"}, Case{"resnet_tiny_ts.pt", 2, "sgd"},
                                           Case{"attention_ts.pt", 4, "adam"}, Case{"mlp.onnx", 1, "adamw"},
                                           Case{"resnet_tiny.onnx", 2, "sgd"}, Case{"attention.onnx", 2, "adam"},
                                           Case{"cnn.onnx", 4, "sgd"}, Case{"lstm.onnx", 2, "adam"},
                                           Case{"lstm_ts.pt", 2, "adam"}, Case{"unet.onnx", 2, "sgd"},
                                           Case{"unet_ts.pt", 1, "adam"}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name + "_in_" + std::to_string(info.param.micro_batches) + "_" + info.param.optimizer;
                         });

// The loop that any LibTorch user would write, on a scripted module; compares losses and trained weights with ours.
void ExpectEqualsPlainLoop(torch::jit::Module module, const TrainerResult& ours, bool dotted_names) {
  module.train();
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& p : module.parameters()) parameters.push_back(p);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  Batches batches(Digits(), 32, 0.2, 7);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor output = module.forward({batches.Features(i, 0, 32)}).toTensor();
    const at::Tensor loss = torch::cross_entropy_loss(output, batches.Labels(i, 0, 32));
    EXPECT_NEAR(loss.item<double>(), ours.losses[i], 1e-6) << "iteration " << i;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::istringstream trained(ours.torchscript);
  const torch::jit::Module loaded = torch::jit::load(trained);
  for (const auto& named : module.named_parameters()) {
    std::string name = named.name;
    if (!dotted_names) std::replace(name.begin(), name.end(), '.', '_');
    bool found = false;
    for (const auto& mine : loaded.named_parameters()) {
      if (mine.name != name) continue;
      found = true;
      EXPECT_LT((mine.value - named.value).abs().max().item<double>(), 1e-6) << name;
    }
    EXPECT_TRUE(found) << name;
  }
}

torch::jit::Module LoadModule(const std::string& content) {
  std::istringstream stream(content);
  return torch::jit::load(stream);
}

TEST(StageTrainerTest, WholeGraphEqualsPlainLibTorch) {  // a model without dropout
  at::set_num_threads(1);
  const std::string content = ReadFile(kRoot + "/models/resnet_tiny_ts.pt");
  ExpectEqualsPlainLoop(LoadModule(content), RunParts(Plan("resnet_tiny_ts.pt", 1, "sgd"), content, 1), true);
}

// The ONNX file is the same network with other weights: they are put into the scripted module, which then trains by LibTorch
// alone.
TEST(StageTrainerTest, OnnxEqualsPlainLibTorch) {
  at::set_num_threads(1);
  const std::string content = ReadFile(kRoot + "/models/resnet_tiny.onnx");
  const auto model = LoadLoweredModel(content, "resnet_tiny.onnx", 32, {1, 8, 8});
  torch::jit::Module twin = LoadModule(ReadFile(kRoot + "/models/resnet_tiny_ts.pt"));
  std::size_t copied = 0;
  const auto copy = [&](const std::string& name, const at::Tensor& to) {
    for (const auto& weight : model.weights) {
      if (weight.names.front() != name) continue;
      torch::NoGradGuard no_grad;
      at::Tensor(to).copy_(weight.tensor);
      ++copied;
    }
  };
  for (const auto& p : twin.named_parameters()) copy(p.name, p.value);
  for (const auto& b : twin.named_buffers()) copy(b.name, b.value);
  ASSERT_EQ(copied, model.weights.size());
  ExpectEqualsPlainLoop(twin, RunParts(Plan("resnet_tiny.onnx", 1, "sgd"), content, 1), false);
}

TEST(StageTrainerTest, ExportedModelRepeatsTheHeldOutAccuracy) {
  at::set_num_threads(1);
  for (const char* file : {"cnn_ts.pt", "cnn.onnx", "attention.onnx", "lstm_ts.pt", "lstm.onnx", "unet_ts.pt", "unet.onnx"}) {
    SCOPED_TRACE(file);
    const TrainerResult result = RunParts(Plan(file, 2, "sgd"), ReadFile(kRoot + "/models/" + file), 1);
    std::istringstream stream(result.torchscript);
    torch::jit::Module module = torch::jit::load(stream);
    Batches batches(Digits(), 32, 0.2, 7);
    torch::NoGradGuard no_grad;
    const at::Tensor output = module.forward({batches.HeldOutFeatures(0, batches.held_out())}).toTensor();
    const double accuracy =
        output.argmax(1).eq(batches.HeldOutLabels(0, batches.held_out())).to(torch::kDouble).mean().item<double>();
    EXPECT_NEAR(accuracy, result.accuracy, 1e-9);
  }
}

}  // namespace
}  // namespace weir::worker
