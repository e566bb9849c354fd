// Partitioned training equals unpartitioned training, bit for bit: the oracle is one stage that runs the whole lowered graph;
// that one is compared with plain LibTorch where no micro-batches and no dropout make a difference.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/cut/partition.h"
#include "partitioner/torchscript/lowering.h"
#include "tests/testing/thread_exchange.h"
#include "worker/protocol/dataset.h"
#include "worker/runtime/batches.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/snapshot.h"
#include "worker/runtime/stage.h"
#include "worker/runtime/stage_trainer.h"

namespace weir::worker {
namespace {

const std::string kRoot = WEIR_SOURCE_DIR;

const Dataset& Digits() {
  static const Dataset data = ReadDataset(kRoot + "/data/digits8x8/digits.csv.gz", "", "csv", {1, 8, 8}, 10, 16);
  return data;
}

// Windows of 64 characters of a text, as a data set of tokens.
const Dataset& Text() {
  static const Dataset data = [] {
    Dataset d = ReadDataset(kRoot + "/data/text/us-constitution.txt", "", "tokens", {64}, 128, 1);
    d.samples = 96;  // a few epochs in twenty iterations
    return d;
  }();
  return data;
}

const Dataset& DataOf(const std::string& file) {
  return file.rfind("transformer", 0) == 0 ? Text() : Digits();
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
  if (file.rfind("transformer", 0) == 0) {
    train->set_batch(16);
    train->set_loss("token_cross_entropy");
    train->mutable_data()->set_num_classes(128);
  }
  return assign;
}

// Where a run is to stop with a checkpoint, and where it goes on: files by stage.
struct Migration {
  std::int64_t stop_after = 0;
  std::vector<std::string> files;
  std::int64_t iteration = 0;  // that the files are of
};

TrainerResult RunParts(wire::Assign assign, const std::string& content, int parts, Migration* stop = nullptr,
                       const Migration* resume = nullptr) {
  const Dataset& data = DataOf(assign.model_name());
  TrainerSetup setup;
  if (resume) {
    assign.mutable_resume()->set_iteration(resume->iteration);
    for (std::size_t i = 0; i < resume->files.size(); ++i) {
      setup.resume_paths.push_back(::testing::TempDir() + "resume" + std::to_string(i));
      WriteFileAtomically(setup.resume_paths.back(), resume->files[i]);
    }
  }
  std::mutex mutex;
  const auto hooks_of = [&](int stage) {
    TrainerHooks hooks;
    if (!stop) return hooks;
    auto asked = std::make_shared<std::int64_t>(0);
    hooks.wish = [asked, stop] {
      const bool now = ++*asked == stop->stop_after;
      return CheckpointWish{now, now};
    };
    hooks.checkpoint = [&mutex, stop, stage, parts](std::int64_t iteration, std::string file, bool, double) {
      std::lock_guard lock(mutex);
      stop->files.resize(parts);
      stop->files[stage] = std::move(file);
      stop->iteration = iteration;
    };
    return hooks;
  };
  if (parts == 1) return TrainStage(assign, content, data, nullptr, hooks_of(0), setup);
  const auto model =
      LoadLoweredModel(content, assign.model_name(), assign.train().batch() / assign.train().micro_batches(), data.sample_shape);
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
      TrainerResult r = TrainStage(own, content, data, &exchange, hooks_of(p), setup);
      if (!r.torchscript.empty() || !r.losses.empty()) result = std::move(r);
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
                                           Case{"unet_ts.pt", 1, "adam"}, Case{"transformer.onnx", 2, "adamw"},
                                           Case{"transformer_ts.pt", 4, "sgd"}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name + "_in_" + std::to_string(info.param.micro_batches) + "_" + info.param.optimizer;
                         });

class Migrating : public ::testing::TestWithParam<Case> {};

// Twenty iterations in one piece, and seven of them in two parts, a checkpoint, and the rest in three.
TEST_P(Migrating, ToAnotherPartitionChangesNoBit) {
  at::set_num_threads(1);
  const Case& c = GetParam();
  const std::string content = ReadFile(kRoot + "/models/" + c.file);
  wire::Assign assign = Plan(c.file, c.micro_batches, c.optimizer);
  assign.mutable_train()->set_iterations(20);
  assign.mutable_train()->mutable_optimizer()->set_clip_norm(0.5);
  assign.mutable_train()->mutable_optimizer()->mutable_schedule()->set_kind("cosine");
  assign.mutable_train()->mutable_optimizer()->mutable_schedule()->set_warmup(3);
  const TrainerResult whole = RunParts(assign, content, 1);
  ASSERT_EQ(whole.losses.size(), 20u);
  Migration half;
  half.stop_after = 7;
  const TrainerResult first = RunParts(assign, content, 2, &half);
  EXPECT_TRUE(first.stopped);
  ASSERT_EQ(first.losses.size(), 7u);
  ASSERT_EQ(half.iteration, 7);
  ASSERT_EQ(half.files.size(), 2u);
  const TrainerResult rest = RunParts(assign, content, 3, nullptr, &half);
  ASSERT_EQ(rest.losses.size(), 13u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(first.losses[i], whole.losses[i]) << "iteration " << i;
  for (int i = 0; i < 13; ++i) EXPECT_EQ(rest.losses[i], whole.losses[7 + i]) << "iteration " << 7 + i;
  for (std::size_t w = 0; w < whole.weights.size(); ++w) EXPECT_TRUE(torch::equal(rest.weights[w], whole.weights[w])) << w;
  EXPECT_EQ(rest.accuracy, whole.accuracy);
  EXPECT_EQ(rest.final_loss, whole.final_loss);
  EXPECT_EQ(rest.epoch_losses, whole.epoch_losses);
}

INSTANTIATE_TEST_SUITE_P(Models, Migrating,
                         ::testing::Values(Case{"resnet_tiny_ts.pt", 2, "sgd"}, Case{"attention.onnx", 4, "adam"},
                                           Case{"transformer.onnx", 2, "adamw"}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(StageTrainerTest, OrderOfThePipelineChangesNoBit) {
  at::set_num_threads(1);
  const std::string content = ReadFile(kRoot + "/models/resnet_tiny_ts.pt");
  wire::Assign assign = Plan("resnet_tiny_ts.pt", 8, "sgd");
  const TrainerResult ours = RunParts(assign, content, 3);
  assign.mutable_train()->set_pipeline("gpipe");
  ExpectSameBits(RunParts(assign, content, 3), ours);
}

TEST(StageTrainerTest, NarrowWireAndMixedPrecisionStayClose) {
  at::set_num_threads(1);
  const std::string content = ReadFile(kRoot + "/models/resnet_tiny_ts.pt");
  wire::Assign assign = Plan("resnet_tiny_ts.pt", 2, "sgd");
  const TrainerResult exact = RunParts(assign, content, 2);
  for (const char* type : {"bf16", "fp16"}) {
    assign.mutable_train()->set_wire(type);
    const TrainerResult narrow = RunParts(assign, content, 2);
    EXPECT_NE(narrow.losses.back(), exact.losses.back()) << type;  // something did change
    for (std::size_t i = 0; i < exact.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], exact.losses[i], 0.05) << type << i;
  }
  assign.mutable_train()->clear_wire();
  assign.mutable_train()->set_precision("bf16");
  const TrainerResult mixed = RunParts(assign, content, 2);
  EXPECT_NE(mixed.losses.back(), exact.losses.back());
  for (std::size_t i = 0; i < exact.losses.size(); ++i) EXPECT_NEAR(mixed.losses[i], exact.losses[i], 0.1) << i;
}

TEST(StageTrainerTest, RefusesWhatItDoesNotKnowAndSaysWhereALossIsLost) {
  const std::string content = ReadFile(kRoot + "/models/resnet_tiny_ts.pt");
  const auto message = [&](const std::function<void(wire::TrainSpec*)>& change) {
    wire::Assign assign = Plan("resnet_tiny_ts.pt", 2, "sgd");
    change(assign.mutable_train());
    try {
      TrainStage(assign, content, Digits(), nullptr, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(message([](auto* t) { t->set_loss("hinge"); }).find("cross_entropy, token_cross_entropy or mse, got 'hinge'"),
            std::string::npos);
  EXPECT_NE(message([](auto* t) { t->set_pipeline("zigzag"); }).find("1f1b or gpipe"), std::string::npos);
  EXPECT_NE(message([](auto* t) { t->set_precision("fp8"); }).find("fp32, bf16 or fp16"), std::string::npos);
  EXPECT_NE(message([](auto* t) { t->set_loss("token_cross_entropy"); }).find("a label for each token"), std::string::npos);
  EXPECT_NE(message([](auto* t) { t->mutable_optimizer()->set_learning_rate(1e30); }).find(" at iteration "), std::string::npos);
}

// The trained ONNX file, loaded again: the same weights and the same outputs as the TorchScript one.
TEST(StageTrainerTest, ExportsOnnxThatLoadsAgain) {
  at::set_num_threads(1);
  for (const char* file : {"resnet_tiny.onnx", "attention.onnx", "unet.onnx", "transformer.onnx"}) {
    SCOPED_TRACE(file);
    const TrainerResult result = RunParts(Plan(file, 2, "sgd"), ReadFile(kRoot + "/models/" + file), 2);
    ASSERT_FALSE(result.onnx.empty());
    const Dataset& data = DataOf(file);
    const auto again = LoadLoweredModel(result.onnx, file, 8, data.sample_shape);
    ASSERT_EQ(again.weights.size(), result.weights.size());
    std::vector<int> ids;
    for (std::size_t w = 0; w < again.weights.size(); ++w) {
      EXPECT_TRUE(torch::equal(again.weights[w].tensor, result.weights[w])) << again.weights[w].names.front();
      ids.push_back(static_cast<int>(w));
    }
    Stage stage(again, std::vector<int>(again.operators.size(), 0), 0, InitialWeights(again, ids, Init::kKeep, 1));
    Batches batches(data, 8, 0.2, 7);
    const at::Tensor input = batches.HeldOutFeatures(0, 8);
    const at::Tensor output = stage.Forward(0, partitioner::Mode::kEvaluate, 0, {}, input).output;
    std::istringstream stream(result.torchscript);
    torch::jit::Module module = torch::jit::load(stream);
    torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::allclose(output, module.forward({input}).toTensor(), 1e-5, 1e-6));
  }
}

// A checkpoint cut off or changed anywhere is found out; the bytes of another model or iteration are too.
TEST(StageTrainerTest, DamagedCheckpointsAreFoundOut) {
  Snapshot snapshot;
  snapshot.header.set_fingerprint("f");
  snapshot.header.set_iteration(3);
  snapshot.header.set_has_history(true);
  snapshot.header.add_losses(0.25);
  auto& weight = snapshot.weights[4];
  weight.name = "w";
  weight.value = torch::randn({50, 3});
  weight.optimizer["exp_avg"] = torch::randn({50, 3});
  weight.optimizer["exp_avg_sq"] = torch::randn({50, 3});
  weight.step = 3;
  const std::string good = EncodeSnapshot(snapshot), path = ::testing::TempDir() + "snapshot";
  const auto read = [&](const std::string& bytes, const std::string& fingerprint, std::int64_t iteration) {
    WriteFileAtomically(path, bytes);
    Snapshot back;
    try {
      ReadSnapshot(path, fingerprint, iteration, &back);
    } catch (const DamagedSnapshot&) {
      return false;
    }
    return torch::equal(back.weights.at(4).value, weight.value) && back.weights.at(4).step == 3 &&
           torch::equal(back.weights.at(4).optimizer.at("exp_avg_sq"), weight.optimizer["exp_avg_sq"]) &&
           back.header.losses(0) == 0.25;
  };
  EXPECT_TRUE(read(good, "f", 3));
  EXPECT_FALSE(read(good, "g", 3));
  EXPECT_FALSE(read(good, "f", 4));
  for (std::size_t i = 0; i < good.size(); i += 7) {
    EXPECT_FALSE(read(good.substr(0, i), "f", 3)) << "cut at " << i;
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    EXPECT_FALSE(read(flipped, "f", 3)) << "changed at " << i;
  }
}

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
