// Our own models come as ONNX and as TorchScript with equal weights, exported by PyTorch from one module: LibTorch's own run of
// the script is the oracle for what the ONNX rules make of the other file.
#include <torch/script.h>
#include <torch/torch.h>

#include "env/core/file.h"
#include "tests/worker/runtime/stage_harness.h"

namespace weir::worker {
namespace {

class OnnxTwins : public ::testing::TestWithParam<const char*> {};

TEST_P(OnnxTwins, OutputsAndGradientsEqualLibTorch) {
  at::set_num_threads(1);
  const std::string name = GetParam(), folder = WEIR_SOURCE_DIR "/models/";
  const bool text = name == "transformer";
  const std::vector<std::int64_t> sample = text ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{1, 8, 8};
  for (std::int64_t batch : {1, 3, 5}) {
    SCOPED_TRACE(batch);
    const partitioner::LoweredModel model =
        LoadLoweredModel(ReadFile(folder + name + ".onnx"), name, 4, sample);  // lowered for 4
    std::vector<int> all;
    for (std::size_t w = 0; w < model.weights.size(); ++w) all.push_back(static_cast<int>(w));
    torch::manual_seed(batch);
    std::vector<std::int64_t> shape = {batch};
    shape.insert(shape.end(), sample.begin(), sample.end());
    const at::Tensor input = text ? torch::randint(0, 128, shape, torch::kLong) : torch::rand(shape);
    const testing::PassResult ours = testing::RunPass(model, std::vector<int>(model.operator_graph.operators.size(), 0), 1, input,
                                                      InitialWeights(model, all, Init::kKeep, 1));
    torch::jit::Module module = torch::jit::load(folder + name + "_ts.pt");
    module.train();
    const at::Tensor output = module.forward({input}).toTensor();
    ASSERT_EQ(ours.output.sizes(), output.sizes());
    EXPECT_LT((ours.output - output).abs().max().item<double>(), 1e-5);
    output.square().mean().backward();
    // Weights that the export left as they were have their names; the others (transposed, cut into gates) count in the sum.
    int compared = 0;
    double sum = 0, our_sum = 0;
    for (const auto& p : module.named_parameters()) {
      sum += p.value.grad().square().sum().item<double>();
      for (std::size_t w = 0; w < model.weights.size(); ++w) {
        if (model.weights[w].names.front() != p.name || model.weights[w].shape != p.value.sizes().vec()) continue;
        ASSERT_TRUE(ours.gradients[w].defined()) << p.name;
        EXPECT_LT((ours.gradients[w] - p.value.grad()).abs().max().item<double>(), 1e-5) << p.name;
        ++compared;
      }
    }
    for (const at::Tensor& g : ours.gradients) our_sum += g.defined() ? g.square().sum().item<double>() : 0;
    EXPECT_GE(compared, 2);
    EXPECT_NEAR(our_sum, sum, 1e-4 * sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxTwins, ::testing::Values("lstm", "unet", "transformer"));

}  // namespace
}  // namespace weir::worker
