// ONNX models as LibTorch executes them: shapes against the front end's own inference, operators against hand-computed values.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/onnx/shape_rules.h"
#include "partitioner/torchscript/operator_runner.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/onnx_lowering.h"

namespace weir::worker {
namespace {

using partitioner::LoweredModel;
using partitioner::OperatorRunner;

class OnnxLoweringSetTest : public ::testing::TestWithParam<const char*> {};

// Every operator runs, and gives the shape that the front end inferred without LibTorch.
TEST_P(OnnxLoweringSetTest, ExecutedShapesEqualInferredOnes) {
  const std::string path = std::string(WEIR_SOURCE_DIR "/../shared/data/models/onnx/") + GetParam();
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) GTEST_SKIP() << "the public model files are not here";
  const LoweredModel model = LoadLoweredModel(ReadFile(path), GetParam(), 2, {});
  std::vector<int> ids;
  for (std::size_t i = 0; i < model.weights.size(); ++i) ids.push_back(static_cast<int>(i));
  const std::vector<at::Tensor> weights = InitialWeights(model, ids, Init::kKaiming, 1);
  const partitioner::OperatorGraph& graph = model.operator_graph;
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> values(graph.tensors.size());
  values[graph.inputs[0]] = torch::rand(*graph.tensors[graph.inputs[0]].shape);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    std::vector<at::Tensor> in, parameters;
    for (int t : graph.operators[i].inputs) in.push_back(values[t]);
    for (int p : graph.operators[i].parameters) parameters.push_back(weights[p]);
    const auto out = OperatorRunner(model, static_cast<int>(i), partitioner::Mode::kTrain).Run(in, parameters, 7);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const int t = graph.operators[i].outputs[k];
      ASSERT_TRUE(graph.tensors[t].shape) << graph.operators[i].name;
      ASSERT_EQ(out[k].sizes().vec(), *graph.tensors[t].shape) << graph.operators[i].name;
      values[t] = out[k];
    }
    for (int t : graph.operators[i].inputs) {
      if (graph.tensors[t].readers.back() == static_cast<int>(i) && !graph.tensors[t].is_output) values[t] = at::Tensor();
    }
  }
  EXPECT_TRUE(values[graph.outputs[0]].isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Files, OnnxLoweringSetTest,
                         ::testing::Values("resnet18_train_op17.onnx", "resnet18_dyn_op17.onnx", "light_resnet50.onnx",
                                           "light_densenet121.onnx", "mobilenet_v2_train_op17.onnx", "light_squeezenet.onnx",
                                           "googlenet_train_op17.onnx", "light_inception_v1.onnx", "light_vgg19.onnx",
                                           "vit_b_16_dyn_op17.onnx"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(OnnxLoweringTest, WeightsThatCannotBeTrainedAreRefusedWithAReason) {
  const std::string path = WEIR_SOURCE_DIR "/../shared/data/models/onnx/light_squeezenet.onnx";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) GTEST_SKIP() << "the public model files are not here";
  const LoweredModel model = LoadLoweredModel(ReadFile(path), "light_squeezenet.onnx", 2, {});
  try {
    InitialWeights(model, {0}, Init::kKeep, 1);
    FAIL() << "an error was expected";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("init: kaiming"), std::string::npos) << e.what();
  }
}

TEST(OnnxLoweringTest, KaimingDependsOnSeedAndNameAlone) {
  const std::string content = ReadFile(WEIR_SOURCE_DIR "/models/cnn.onnx");
  const LoweredModel model = LoadLoweredModel(content, "cnn.onnx", 4, {1, 8, 8});
  std::vector<int> all;
  for (std::size_t i = 0; i < model.weights.size(); ++i) all.push_back(static_cast<int>(i));
  const auto whole = InitialWeights(model, all, Init::kKaiming, 5);
  const int last = all.back();
  EXPECT_TRUE(torch::equal(InitialWeights(model, {last}, Init::kKaiming, 5)[last], whole[last]));
  bool differs = false;
  const auto other = InitialWeights(model, all, Init::kKaiming, 6);
  for (int id : all) differs |= !torch::equal(other[id], whole[id]);
  EXPECT_TRUE(differs);
  EXPECT_FALSE(ExecutableOnnxOperators().empty());
}

// docs/operators.md has a row for every operator with a rule, and says of each whether it is executed.
TEST(OnnxLoweringTest, TheTableOfOperatorsIsTrue) {
  const std::string text = ReadFile(WEIR_SOURCE_DIR "/docs/operators.md");
  const auto executable = ExecutableOnnxOperators();
  std::size_t rows = 0, executed = 0;
  for (std::size_t at = text.find("\n| "); at != std::string::npos; at = text.find("\n| ", at + 1)) {
    const std::size_t first = at + 3, second = text.find(" | ", first), third = text.find(" | ", second + 3),
                      fourth = text.find(" | ", third + 3);
    const std::string name = text.substr(first, second - first), shape = text.substr(second + 3, third - second - 3),
                      runs = text.substr(third + 3, fourth - third - 3);
    if (name == "ONNX operator" || name == "---") continue;
    ++rows;
    EXPECT_EQ(shape == "yes", partitioner::HasShapeRule("", name)) << name;
    const bool has_rule = std::find(executable.begin(), executable.end(), name) != executable.end();
    EXPECT_EQ(runs == "yes", has_rule) << name;
    executed += has_rule;
  }
  EXPECT_EQ(executed, executable.size());
  EXPECT_GT(rows, 120u);
}

}  // namespace
}  // namespace weir::worker
