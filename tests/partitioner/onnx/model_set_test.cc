// Counts of real architectures against published and independently measured figures; broken and unusual files.
#include <gtest/gtest.h>

#include <filesystem>

#include "env/core/error.h"
#include "partitioner/front_end.h"
#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {
namespace {

struct Expected {
  const char* file;
  std::int64_t macs;        // a sample
  std::int64_t parameters;  // trainable
  std::int64_t buffers;
};

class ModelSetTest : public testing::TestWithParam<Expected> {};

TEST_P(ModelSetTest, CountsEqualTheOracleAtEveryBatch) {
  const std::string path = std::string(WEIR_SOURCE_DIR "/../shared/data/models/onnx/") + GetParam().file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model set beside the sources: " << path;
  for (std::int64_t batch : {1, 3, 8}) {
    LoadOptions options;
    options.batch = batch;
    options.strict = true;
    const OperatorGraph graph = LoadModel(path, options);
    EXPECT_EQ(graph.TotalMacs(), batch * GetParam().macs);
    EXPECT_EQ(graph.TrainableElements(), GetParam().parameters);
    EXPECT_EQ(graph.BufferElements(), GetParam().buffers);
    EXPECT_EQ(graph.warnings, std::vector<std::string>());
    for (const Tensor& tensor : graph.tensors) EXPECT_TRUE(tensor.shape) << tensor.name;
  }
}

// MACs: RecordFunction over the torchvision models and exact ONNX shapes agree to the last digit. Parameters of
// light_densenet121: torchvision's 7,978,856 plus 256 scales that the file keeps as plain initialisers.
INSTANTIATE_TEST_SUITE_P(Files, ModelSetTest,
                         testing::Values(Expected{"resnet18_train_op17.onnx", 1'814'073'344, 11'689'512, 9'600},
                                         Expected{"resnet18_dyn_op17.onnx", 1'814'073'344, 11'689'512, 9'600},
                                         Expected{"light_resnet50.onnx", 4'089'184'256, 25'557'032, 53'120},
                                         Expected{"light_densenet121.onnx", 2'834'161'664, 7'979'112, 83'648},
                                         Expected{"mobilenet_v2_train_op17.onnx", 300'774'272, 3'504'872, 34'112},
                                         Expected{"light_squeezenet.onnx", 349'151'936, 1'235'496, 0},
                                         Expected{"googlenet_train_op17.onnx", 1'498'376'192, 6'624'904, 14'560},
                                         Expected{"light_inception_v1.onnx", 1'431'556'352, 6'998'552, 0},
                                         Expected{"light_vgg19.onnx", 19'632'062'464, 143'667'240, 0},
                                         Expected{"vit_b_16_dyn_op17.onnx", 17'563'828'224, 86'567'656, 0}),
                         [](const auto& info) {
                           const std::string name = info.param.file;
                           return name.substr(0, name.find('.'));
                         });

std::string Malformed(const std::string& file) {
  return WEIR_SOURCE_DIR "/tests/data/malformed/" + file;
}

TEST(MalformedTest, BrokenFilesEndInOneLineThatNamesTheCause) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Malformed("cycle.onnx"), "cycle: p (Add) -> q (Relu) -> p"},
      {Malformed("dim_overflow.onnx"), "'w': count overflows"},
      {Malformed("external_escape.onnx"), "'../../../etc/passwd' is refused"},
      {Malformed("empty.onnx"), "empty"},
      {Malformed("garbage.onnx"), "not an ONNX model"},
      {Malformed("trunc.onnx"), "cut short"},
      {Malformed("missing.onnx"), "no such file"},
      {WEIR_SOURCE_DIR "/tests", "folder"}};
  for (const auto& [path, cause] : cases) {
    try {
      LoadModel(path);
      ADD_FAILURE() << path << " was read";
    } catch (const Error& e) {
      const std::string message = e.what();
      EXPECT_EQ(e.code(), ExitCode::kInvalid) << message;
      EXPECT_EQ(message.rfind(path, 0), 0u) << message;
      EXPECT_NE(message.find(cause), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(MalformedTest, UnusualButValidFilesAreRead) {
  EXPECT_EQ(LoadModel(Malformed("resnet18_op21_ir10.onnx")).TotalMacs(), 1'814'073'344);
  EXPECT_EQ(LoadModel(Malformed("reducemean_op18.onnx")).TotalMacs(), 16 * 64 * 64);
  EXPECT_EQ(LoadModel(Malformed("layernorm_op17.onnx")).TotalMacs(), 16 * 64 * 64);
  EXPECT_EQ(LoadModel(Malformed("gelu_op20.onnx")).TotalMacs(), 16 * 64 * 64);
  EXPECT_EQ(LoadModel(Malformed("unsorted.onnx")).operators.size(), 2u);
  const OperatorGraph custom = LoadModel(Malformed("custom_domain.onnx"));
  ASSERT_FALSE(custom.warnings.empty());
  EXPECT_NE(custom.warnings[0].find("1 x com.microsoft.FusedMatMul"), std::string::npos);
  EXPECT_TRUE(custom.operators[0].opaque);
}

TEST(MalformedTest, EveryPrefixOfAFileIsReadOrRefusedInOneLine) {
  const OnnxModel whole = LoadOnnx(Malformed("cycle.onnx").replace(Malformed("cycle.onnx").find("cycle"), 5, "unsorted"));
  EXPECT_EQ(whole.nodes.size(), 2u);
  LoadOptions options;
  std::string bytes(4096, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 + i / 7);
  for (std::size_t length = 0; length < bytes.size(); length += 13) {
    EXPECT_THROW(ParseOnnx(std::string_view(bytes).substr(0, length), "noise", options), Error);
  }
}

TEST(DemoModelTest, HaveRealWeightsAndKnownShapes) {
  const std::vector<std::pair<std::string, std::int64_t>> models = {{"mlp.onnx", 85'002},
                                                                    {"cnn.onnx", 61'050},
                                                                    {"resnet_tiny.onnx", 151'274},
                                                                    {"attention.onnx", 102'090},
                                                                    {"wide_mlp.onnx", 1'076'010}};
  for (const auto& [file, parameters] : models) {
    LoadOptions options;
    options.batch = 16;
    options.strict = true;
    const OnnxModel model = LoadOnnx(WEIR_SOURCE_DIR "/models/" + file, options);
    const OperatorGraph graph = ToOperatorGraph(model);
    EXPECT_EQ(graph.TrainableElements(), parameters) << file;
    EXPECT_EQ(graph.warnings, std::vector<std::string>()) << file;
    ASSERT_EQ(graph.outputs.size(), 1u);
    EXPECT_EQ(*graph.tensors[graph.outputs[0]].shape, (std::vector<std::int64_t>{16, 10})) << file;
    for (const OnnxValue& value : model.values) {
      if (value.role == OnnxRole::kParameter) {
        ASSERT_NE(value.data, nullptr) << value.name;
        EXPECT_FALSE(value.data->fill) << value.name;
      }
    }
  }
}

}  // namespace
}  // namespace weir::partitioner
