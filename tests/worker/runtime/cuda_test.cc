// The executor on a GPU against the CPU: the same masks bit for bit, the same training within the difference of the kernels.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <thread>

#include "env/core/file.h"
#include "partitioner/cut/partition.h"
#include "partitioner/torchscript/dropout.h"
#include "tests/testing/thread_exchange.h"
#include "worker/runtime/device_memory.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/stage_trainer.h"

namespace weir::worker {
namespace {

const std::string kRoot = WEIR_SOURCE_DIR;

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU, or LibTorch without CUDA";
    PrepareDevice(kGpu, 0);
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
  }
  const at::Device kGpu = at::Device(at::kCUDA, 0);
};

TEST_F(CudaTest, DropoutMasksEqualTheCpus) {
  for (double p : {0.1, 0.5, 0.9}) {
    for (std::int64_t n : {1, 3, 4, 1021, 1 << 20}) {
      const at::Tensor cpu = partitioner::DropoutMask({n}, p, 5, at::kCPU), gpu = partitioner::DropoutMask({n}, p, 5, kGpu);
      EXPECT_TRUE(torch::equal(cpu, gpu.cpu())) << p << " " << n;
    }
  }
}

TrainerResult Train(const std::string& file, const at::Device& device, int parts, int micro_batches,
                    const std::string& precision = "", bool graphs = true) {
  const Dataset data = ReadDataset(kRoot + "/data/digits8x8/digits.csv.gz", "", "csv", {1, 8, 8}, 10, 16);
  const std::string content = ReadFile(kRoot + "/models/" + file);
  wire::Assign assign;
  assign.set_model_name(file);
  assign.set_num_stages(parts);
  wire::TrainSpec* train = assign.mutable_train();
  train->set_iterations(20);
  train->set_batch(32);
  train->set_micro_batches(micro_batches);
  train->set_seed(7);
  train->set_precision(precision);
  train->mutable_optimizer()->set_kind("sgd");
  train->mutable_optimizer()->set_learning_rate(0.02);
  train->mutable_optimizer()->set_momentum(0.9);
  train->mutable_optimizer()->set_clip_norm(1);
  train->mutable_data()->set_num_classes(10);
  train->mutable_data()->set_holdout(0.2);
  const auto model = LoadLoweredModel(content, file, 32 / micro_batches, {1, 8, 8});
  partitioner::CutOptions options;
  options.num_parts = parts;
  options.balance_slack = 0.5;
  const partitioner::Partition partition = partitioner::CutIntoParts(model.operator_graph, options);
  for (int part : partition.part_of) assign.add_stage_of(part);
  testing::ThreadExchange::Boxes boxes;
  for (int p = 0; p < parts; ++p) boxes.push_back(std::make_unique<Mailbox>());
  TrainerResult result;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int p = 0; p < parts; ++p) {
    threads.emplace_back([&, p] {
      wire::Assign own = assign;
      own.mutable_key()->set_stage(p);
      testing::ThreadExchange exchange(&boxes, p);
      try {
        TrainerResult r = TrainStage(own, content, data, &exchange, {}, {device, {}, graphs});
        std::lock_guard lock(mutex);
        if (!r.torchscript.empty()) result = std::move(r);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        for (auto& box : boxes) box->Abort("a stage failed");
      } catch (const Aborted&) {
      }
    });
  }
  for (auto& t : threads) t.join();
  return result;
}

struct Difference {
  double loss = 0, weight = 0, early = 0;  // most over 20 iterations; early: loss over the first 5
};

Difference Compare(const TrainerResult& a, const TrainerResult& b) {
  Difference d;
  EXPECT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i) {
    d.loss = std::max(d.loss, std::abs(a.losses[i] - b.losses[i]));
    if (i < 5) d.early = d.loss;
  }
  for (std::size_t w = 0; w < std::min(a.weights.size(), b.weights.size()); ++w)
    d.weight = std::max(d.weight, (a.weights[w] - b.weights[w]).abs().max().item<double>());
  return d;
}

// In three parts and with a recorded graph as whole and one operator at a time on the same device. Against the CPU other kernels
// add in another order, and a network with BatchNorm over a handful of values drifts apart from there: only the first iterations
// are held to it.
TEST_F(CudaTest, PartsAndGraphsTrainAsTheWholeDoes) {
  at::globalContext().setDeterministicCuDNN(true);
  for (const char* file : {"resnet_tiny_ts.pt", "attention.onnx", "mlp.onnx", "lstm_ts.pt", "unet.onnx", "cnn_ts.pt"}) {
    SCOPED_TRACE(file);
    const TrainerResult whole = Train(file, kGpu, 1, 2, "", false);
    const Difference parts = Compare(Train(file, kGpu, 3, 2), whole), graph = Compare(Train(file, kGpu, 1, 2), whole),
                     cpu = Compare(Train(file, at::kCPU, 1, 2), whole);
    for (const Difference& d : {parts, graph}) {
      EXPECT_LE(d.loss, 1e-3);
      EXPECT_LE(d.weight, 1e-3);
    }
    EXPECT_LE(cpu.early, 1e-3);
    std::printf(
        "%-18s 20 iterations on the GPU: three parts within %.2g (loss), %.2g (weights); recorded graph %.2g, %.2g; CPU %.2g, "
        "%.2g\n",
        file, parts.loss, parts.weight, graph.loss, graph.weight, cpu.loss, cpu.weight);
  }
}

TEST_F(CudaTest, MixedPrecisionLearns) {
  const TrainerResult exact = Train("resnet_tiny_ts.pt", kGpu, 2, 2);
  for (const char* precision : {"bf16", "fp16"}) {
    const TrainerResult mixed = Train("resnet_tiny_ts.pt", kGpu, 2, 2, precision);
    ASSERT_EQ(mixed.losses.size(), exact.losses.size()) << precision;
    EXPECT_NEAR(mixed.losses.back(), exact.losses.back(), 0.15) << precision;
    EXPECT_NE(mixed.losses.back(), exact.losses.back()) << precision;
  }
}

}  // namespace
}  // namespace weir::worker
