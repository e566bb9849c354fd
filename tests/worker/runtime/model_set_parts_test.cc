// Every part of every model of the public set, and of our own, cut into 2, 3 and 4 parts: bit for bit the whole. Some run in the
// suite, all of them with WEIR_PROOF set (./run proof parts). MACs counted at run time are a second opinion on the cost model.
#include <sys/stat.h>
#include <torch/torch.h>

#include <cstdlib>

#include "env/core/file.h"
#include "partitioner/torchscript/lowering.h"
#include "tests/worker/runtime/count_macs.h"
#include "tests/worker/runtime/stage_harness.h"

namespace weir::worker {
namespace {

struct Case {
  std::string path;  // from the root of the repository
  bool in_suite = false;
  std::vector<std::int64_t> sample = {3, 224, 224};
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::string set = "../shared/data/models/";
  for (const char* name :
       {"googlenet_train_op17", "light_densenet121", "light_inception_v1", "light_resnet50", "light_squeezenet", "light_vgg19",
        "mobilenet_v2_train_op17", "resnet18_dyn_op17", "resnet18_train_op17", "vit_b_16_dyn_op17"}) {
    cases.push_back(
        {set + "onnx/" + name + ".onnx", name == std::string("light_squeezenet") || name == std::string("resnet18_dyn_op17")});
  }
  for (const char* name : {"densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mobilenet_v2", "resnet18", "resnet50",
                           "squeezenet1_1", "vgg19", "vit_b_16"}) {
    cases.push_back(
        {set + "torchscript/" + name + ".ts.pt", name == std::string("mobilenet_v2") || name == std::string("squeezenet1_1")});
    if (name == std::string("inception_v3")) cases.back().sample = {3, 299, 299};
  }
  for (const char* name :
       {"attention.onnx", "attention_ts.pt", "cnn.onnx", "cnn_ts.pt", "lstm.onnx", "lstm_ts.pt", "mlp.onnx", "resnet_tiny.onnx",
        "resnet_tiny_ts.pt", "unet.onnx", "unet_ts.pt", "wide_cnn_ts.pt", "wide_mlp.onnx"}) {
    cases.push_back({std::string("models/") + name, true, {1, 8, 8}});
  }
  for (const char* name : {"transformer.onnx", "transformer_ts.pt"}) cases.push_back({std::string("models/") + name, true, {64}});
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.path.substr(info.param.path.rfind('/') + 1);
  for (char& ch : name) ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  return name;
}

// TorchScript files are counted at run time anyway.
std::vector<Case> OnnxCases() {
  std::vector<Case> cases = Cases();
  std::erase_if(cases, [](const Case& c) { return c.path.find(".onnx") == std::string::npos; });
  return cases;
}

class ModelSetParts : public ::testing::TestWithParam<Case> {};

TEST_P(ModelSetParts, EqualTheWhole) {
  const Case& c = GetParam();
  const std::string path = WEIR_SOURCE_DIR "/" + c.path;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) GTEST_SKIP() << "the public model files are not here";
  if (!c.in_suite && std::getenv("WEIR_PROOF") == nullptr) GTEST_SKIP() << "runs in ./run proof parts";
  at::set_num_threads(1);
  const partitioner::LoweredModel model = LoadLoweredModel(ReadFile(path), c.path, 2, c.sample);
  std::vector<std::int64_t> shape = {2};
  shape.insert(shape.end(), c.sample.begin(), c.sample.end());
  torch::manual_seed(5);
  const bool tokens = c.sample.size() == 1;
  const at::Tensor input = tokens ? torch::randint(0, 128, shape, torch::kLong) : torch::rand(shape);
  testing::ExpectPartsEqualWhole(model, input, {2, 3, 4});
}

// What the operators of an ONNX file really multiply, counted while they run, equals what the cost model says.
class OnnxModelSetMacs : public ModelSetParts {};

TEST_P(OnnxModelSetMacs, EqualWhatTheCostModelCounts) {
  const Case& c = GetParam();
  const std::string path = WEIR_SOURCE_DIR "/" + c.path;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) GTEST_SKIP() << "the public model files are not here";
  at::set_num_threads(1);
  const partitioner::LoweredModel model = LoadLoweredModel(ReadFile(path), c.path, 2, c.sample);
  std::vector<std::int64_t> shape = {2};
  shape.insert(shape.end(), c.sample.begin(), c.sample.end());
  const at::Tensor input = c.sample.size() == 1 ? torch::randint(0, 128, shape, torch::kLong) : torch::rand(shape);
  std::vector<int> all;
  for (std::size_t w = 0; w < model.weights.size(); ++w) all.push_back(static_cast<int>(w));
  const std::vector<at::Tensor> weights = InitialWeights(model, all, Init::kKaiming, 3);
  torch::NoGradGuard no_grad;
  Stage stage(model, std::vector<int>(model.operator_graph.operators.size(), 0), 0, weights);
  const std::int64_t counted = testing::CountMacs([&] { stage.Forward(0, partitioner::Mode::kEvaluate, 1, {}, input); });
  EXPECT_EQ(counted, model.operator_graph.TotalMacs());
  EXPECT_GT(counted, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelSetParts, ::testing::ValuesIn(Cases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Models, OnnxModelSetMacs, ::testing::ValuesIn(OnnxCases()), NameOf);

}  // namespace
}  // namespace weir::worker
