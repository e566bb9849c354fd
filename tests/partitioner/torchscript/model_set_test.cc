// Counts of the TorchScript model set, and the lowered graph against the module's own forward().
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <sstream>
#include <string>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/torchscript/lowering.h"
#include "partitioner/torchscript/operator_runner.h"

namespace weir::partitioner {
namespace {

const std::string kModels = WEIR_SOURCE_DIR "/../shared/data/models/torchscript/";

bool Exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

struct Expected {
  const char* file;
  std::int64_t macs;  // per sample at size x size
  std::int64_t parameters;
  std::int64_t size;
};

class TorchScriptModelSetTest : public ::testing::TestWithParam<Expected> {};

TEST_P(TorchScriptModelSetTest, CountsEqualTheOracle) {
  const Expected& e = GetParam();
  if (!Exists(kModels + e.file)) GTEST_SKIP() << "the public model files are not here";
  LoweredModel model = LowerTorchScript(ReadFile(kModels + e.file), e.file);
  MeasureShapes(2, {3, e.size, e.size}, e.file, &model);
  EXPECT_EQ(model.operator_graph.TotalMacs(), 2 * e.macs);
  EXPECT_EQ(model.operator_graph.TrainableElements(), e.parameters);
}

// MACs: torchvision's own tables and RecordFunction agree on them; parameters: torchvision.
INSTANTIATE_TEST_SUITE_P(Files, TorchScriptModelSetTest,
                         ::testing::Values(Expected{"resnet18.ts.pt", 1'814'073'344, 11'689'512, 224},
                                           Expected{"resnet50.ts.pt", 4'089'184'256, 25'557'032, 224},
                                           Expected{"densenet121.ts.pt", 2'834'161'664, 7'978'856, 224},
                                           Expected{"mobilenet_v2.ts.pt", 300'774'272, 3'504'872, 224},
                                           Expected{"squeezenet1_1.ts.pt", 349'151'936, 1'235'496, 224},
                                           Expected{"googlenet.ts.pt", 1'498'376'192, 6'624'904, 224},
                                           Expected{"efficientnet_b0.ts.pt", 385'814'752, 5'288'548, 224},
                                           Expected{"inception_v3.ts.pt", 5'713'216'096, 23'834'568, 299},
                                           Expected{"vgg19.ts.pt", 19'632'062'464, 143'667'240, 224},
                                           Expected{"vit_b_16.ts.pt", 17'563'828'224, 86'567'656, 224}),
                         [](const auto& info) {
                           const std::string name = info.param.file;
                           return name.substr(0, name.find('.'));
                         });

// Runs all operators one after another.
at::Tensor RunWhole(const LoweredModel& model, const at::Tensor& input) {
  const OperatorGraph& graph = model.operator_graph;
  std::vector<at::Tensor> values(graph.tensors.size());
  values[graph.inputs[0]] = input;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    std::vector<at::Tensor> in, weights;
    for (int t : graph.operators[i].inputs) in.push_back(values[t]);
    for (int p : graph.operators[i].parameters) weights.push_back(model.weights[p].tensor);
    const auto out = OperatorRunner(model, static_cast<int>(i), Mode::kEvaluate).Run(in, weights, 0);
    for (std::size_t k = 0; k < out.size(); ++k) values[graph.operators[i].outputs[k]] = out[k];
  }
  return values[graph.outputs[0]];
}

TEST(TorchScriptLoweringTest, EvaluationEqualsTheModulesOwn) {
  torch::NoGradGuard no_grad;
  for (const char* file : {"cnn_ts.pt", "resnet_tiny_ts.pt", "attention_ts.pt", "wide_cnn_ts.pt"}) {
    SCOPED_TRACE(file);
    const std::string path = std::string(WEIR_SOURCE_DIR) + "/models/" + file;
    LoweredModel model = LowerTorchScript(ReadFile(path), file);
    torch::jit::Module module = torch::jit::load(path);
    module.eval();
    torch::manual_seed(1);
    const at::Tensor input = torch::rand({4, 1, 8, 8});
    const at::Tensor expected = module.forward({input}).toTensor();
    EXPECT_TRUE(torch::equal(RunWhole(model, input), expected));
  }
}

TEST(TorchScriptLoweringTest, ListsThatGrowByAppendConnectByTensorsOnly) {
  torch::jit::Module module("Dense");
  module.register_parameter("w", torch::eye(4), false);
  module.define(R"(
    def forward(self, x):
      features = [x]
      for i in range(3):
        features.append(torch.matmul(torch.cat(features, 0), self.w))
      return torch.cat(features, 0)
  )");
  std::ostringstream out;
  module.save(out);
  LoweredModel model = LowerTorchScript(out.str(), "dense");
  MeasureShapes(2, {4}, "dense", &model);
  EXPECT_EQ(model.operator_graph.operators.size(), 7u);  // 3 x (cat, matmul) + cat
  EXPECT_EQ(*model.operator_graph.tensors[model.operator_graph.outputs[0]].shape, (std::vector<std::int64_t>{16, 4}));
  EXPECT_EQ(model.operator_graph.TotalMacs(), (2 + 4 + 8) * 4 * 4);
}

// Above five samples the model isn't run at its batch: shapes and counts follow from two and three samples.
TEST(TorchScriptLoweringTest, LargeBatchesAreExtrapolatedExactly) {
  for (const char* file : {"cnn_ts.pt", "resnet_tiny_ts.pt", "attention_ts.pt"}) {
    SCOPED_TRACE(file);
    const std::string content = ReadFile(std::string(WEIR_SOURCE_DIR) + "/models/" + file);
    LoweredModel five = LowerTorchScript(content, file), many = LowerTorchScript(content, file);
    MeasureShapes(5, {1, 8, 8}, file, &five);
    MeasureShapes(35, {1, 8, 8}, file, &many);
    EXPECT_EQ(many.operator_graph.TotalMacs(), 7 * five.operator_graph.TotalMacs());
    EXPECT_EQ(many.operator_graph.TotalBackwardFlop(), 7 * five.operator_graph.TotalBackwardFlop());
    const auto& tensors = many.operator_graph.tensors;
    EXPECT_EQ((*tensors[many.operator_graph.inputs[0]].shape)[0], 35);
    EXPECT_EQ(*tensors[many.operator_graph.outputs[0]].shape, (std::vector<std::int64_t>{35, 10}));
  }
}

TEST(TorchScriptLoweringTest, WrongInputsNameTheOperator) {
  const std::string path = std::string(WEIR_SOURCE_DIR) + "/models/cnn_ts.pt";
  LoweredModel model = LowerTorchScript(ReadFile(path), "cnn_ts.pt");
  try {
    MeasureShapes(2, {3, 8, 8}, "cnn_ts.pt", &model);
    FAIL() << "an error was expected";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    const std::string what = e.what();
    EXPECT_NE(what.find("cnn_ts.pt: input [2, 3, 8, 8] doesn't fit the model: operator 0"), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
  EXPECT_THROW(LowerTorchScript("PK\x03\x04 nothing", "x.pt"), Error);
}

}  // namespace
}  // namespace weir::partitioner
