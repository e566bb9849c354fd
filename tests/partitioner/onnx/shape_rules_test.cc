#include <gtest/gtest.h>

#include <algorithm>

#include "env/core/error.h"
#include "partitioner/onnx/onnx_model.h"
#include "tests/partitioner/onnx/onnx_builder.h"

namespace weir::partitioner {
namespace {

using Ints = OnnxBuilder::Ints;

OnnxModel Load(OnnxBuilder& builder, std::int64_t batch = 2) {
  LoadOptions options;
  options.batch = batch;
  return ParseOnnx(builder.Bytes(), "m", options);
}

// Shape of the model's only output.
Ints Shape(OnnxBuilder& builder, std::int64_t batch = 2) {
  const OnnxModel model = Load(builder, batch);
  return model.values[model.outputs.at(0)].shape.value_or(Ints{-99});
}

std::string ErrorOf(OnnxBuilder& builder) {
  try {
    Load(builder);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "";
}

OnnxBuilder Image(int opset = 17) {
  OnnxBuilder b(opset);
  b.Input("x", {-1, 4, 9, 9}).Output("y");
  return b;
}

TEST(ShapeRulesTest, ConvolutionsByStridePadAndGroup) {
  EXPECT_EQ(Shape(Image().Weight("w", {6, 4, 3, 3}).Node("Conv", {"x", "w"}, {"y"})), (Ints{2, 6, 7, 7}));
  EXPECT_EQ(Shape(Image()
                      .Weight("w", {8, 2, 3, 3})
                      .Node("Conv", {"x", "w"}, {"y"})
                      .Set("group", 2)
                      .Set("strides", Ints{2, 2})
                      .Set("pads", Ints{1, 1, 1, 1})),
            (Ints{2, 8, 5, 5}));
  EXPECT_EQ(Shape(Image().Weight("w", {8, 4, 3, 3}).Node("Conv", {"x", "w"}, {"y"}).Set("dilations", Ints{2, 2})),
            (Ints{2, 8, 5, 5}));
  EXPECT_EQ(Shape(Image()
                      .Weight("w", {8, 4, 4, 4})
                      .Node("Conv", {"x", "w"}, {"y"})
                      .Set("auto_pad", "SAME_UPPER")
                      .Set("strides", Ints{2, 2})),
            (Ints{2, 8, 5, 5}));
  EXPECT_EQ(Shape(Image().Weight("w", {4, 5, 2, 2}).Node("ConvTranspose", {"x", "w"}, {"y"}).Set("strides", Ints{2, 2})),
            (Ints{2, 5, 18, 18}));
  EXPECT_NE(ErrorOf(Image().Weight("w", {6, 3, 3, 3}).Node("Conv", {"x", "w"}, {"y"})).find("input channels"), std::string::npos);
  EXPECT_NE(ErrorOf(Image().Weight("w", {6, 4, 11, 11}).Node("Conv", {"x", "w"}, {"y"})).find("doesn't fit"), std::string::npos);
}

TEST(ShapeRulesTest, PoolingWithCeilModeStartsItsLastWindowInside) {
  auto pool = [](std::int64_t kernel, std::int64_t stride, std::int64_t ceil) {
    return Shape(Image()
                     .Node("MaxPool", {"x"}, {"y"})
                     .Set("kernel_shape", Ints{kernel, kernel})
                     .Set("strides", Ints{stride, stride})
                     .Set("ceil_mode", ceil));
  };
  EXPECT_EQ(pool(2, 2, 0), (Ints{2, 4, 4, 4}));
  EXPECT_EQ(pool(2, 2, 1), (Ints{2, 4, 5, 5}));
  EXPECT_EQ(pool(1, 5, 1), (Ints{2, 4, 2, 2}));
  EXPECT_EQ(Shape(Image().Node("GlobalAveragePool", {"x"}, {"y"})), (Ints{2, 4, 1, 1}));
}

TEST(ShapeRulesTest, AttributeAndInputFormsAgree) {
  EXPECT_EQ(Shape(Image(13).Node("ReduceMean", {"x"}, {"y"}).Set("axes", Ints{2, 3}).Set("keepdims", 0)), (Ints{2, 4}));
  EXPECT_EQ(Shape(Image(18).IntConstant("a", {2, -1}).Node("ReduceMean", {"x", "a"}, {"y"}).Set("keepdims", 0)), (Ints{2, 4}));
  EXPECT_EQ(Shape(Image(9).Node("Unsqueeze", {"x"}, {"y"}).Set("axes", Ints{0, 2})), (Ints{1, 2, 1, 4, 9, 9}));
  EXPECT_EQ(Shape(Image(13).IntConstant("a", {0, 2}).Node("Unsqueeze", {"x", "a"}, {"y"})), (Ints{1, 2, 1, 4, 9, 9}));
  EXPECT_EQ(Shape(Image(9).Node("Slice", {"x"}, {"y"}).Set("starts", Ints{1}).Set("ends", Ints{-2}).Set("axes", Ints{3})),
            (Ints{2, 4, 9, 6}));
  EXPECT_EQ(Shape(Image(13)
                      .IntConstant("s", {8})
                      .IntConstant("e", {-100})
                      .IntConstant("a", {3})
                      .IntConstant("t", {-2})
                      .Node("Slice", {"x", "s", "e", "a", "t"}, {"y"})),
            (Ints{2, 4, 9, 5}));
  EXPECT_EQ(Shape(Image(9).Node("Pad", {"x"}, {"y"}).Set("pads", Ints{0, 0, 1, 1, 0, 0, 2, 2})), (Ints{2, 4, 12, 12}));
  EXPECT_EQ(Shape(Image(13).IntConstant("p", {0, 0, 1, 1, 0, 0, 2, 2}).Node("Pad", {"x", "p"}, {"y"})), (Ints{2, 4, 12, 12}));
  EXPECT_EQ(Shape(Image(9).Node("Split", {"x"}, {"y", "z"}).Set("axis", 1).Set("split", Ints{1, 3})), (Ints{2, 1, 9, 9}));
  EXPECT_EQ(Shape(Image(13).IntConstant("p", {3, 1}).Node("Split", {"x", "p"}, {"y", "z"}).Set("axis", 1)), (Ints{2, 3, 9, 9}));
  EXPECT_EQ(Shape(Image(9).Node("Clip", {"x"}, {"y"})), (Ints{2, 4, 9, 9}));
  EXPECT_EQ(Shape(Image(13).Scalar("l", 0).Scalar("h", 6).Node("Clip", {"x", "l", "h"}, {"y"})), (Ints{2, 4, 9, 9}));
  EXPECT_EQ(Shape(Image(9).Node("GlobalAveragePool", {"x"}, {"g"}).Node("Squeeze", {"g"}, {"y"}).Set("axes", Ints{2, 3})),
            (Ints{2, 4}));
  EXPECT_EQ(Shape(Image(13).IntConstant("a", {2, 3}).Node("GlobalAveragePool", {"x"}, {"g"}).Node("Squeeze", {"g", "a"}, {"y"})),
            (Ints{2, 4}));
}

TEST(ShapeRulesTest, MatricesConcatenationsAndMovements) {
  OnnxBuilder gemm;
  gemm.Input("x", {-1, 5}).Output("y").Weight("w", {7, 5}).Weight("c", {7}).Node("Gemm", {"x", "w", "c"}, {"y"}).Set("transB", 1);
  EXPECT_EQ(Shape(gemm), (Ints{2, 7}));
  OnnxBuilder matmul;
  matmul.Input("x", {-1, 3, 4, 5}).Output("y").Weight("w", {5, 6}).Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(Shape(matmul), (Ints{2, 3, 4, 6}));
  EXPECT_EQ(Shape(Image().Node("Concat", {"x", "x"}, {"y"}).Set("axis", 1)), (Ints{2, 8, 9, 9}));
  EXPECT_EQ(Shape(Image().Node("Transpose", {"x"}, {"y"}).Set("perm", Ints{0, 2, 3, 1})), (Ints{2, 9, 9, 4}));
  EXPECT_EQ(Shape(Image().Node("Flatten", {"x"}, {"y"})), (Ints{2, 324}));
  EXPECT_EQ(Shape(Image().IntConstant("s", {0, -1, 81}).Node("Reshape", {"x", "s"}, {"y"})), (Ints{2, 4, 81}));
  EXPECT_EQ(Shape(Image().Weight("w", {4, 1, 1}).Node("Add", {"x", "w"}, {"y"})), (Ints{2, 4, 9, 9}));
  EXPECT_NE(ErrorOf(Image().Weight("w", {3, 1, 1}).Node("Add", {"x", "w"}, {"y"})).find("broadcast"), std::string::npos);
  EXPECT_NE(ErrorOf(Image().IntConstant("s", {0, 7}).Node("Reshape", {"x", "s"}, {"y"})).find("reshaped"), std::string::npos);
}

TEST(ShapeRulesTest, BatchNormalizationWithOneToFiveOutputs) {
  auto norm = [](OnnxBuilder b, const std::vector<std::string>& outputs) {
    b.Weight("s", {4}).Weight("b", {4}).Weight("m", {4}).Weight("v", {4});
    b.Node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs);
    return b;
  };
  OnnxBuilder old = norm(Image(9), {"y", "m1", "v1", "m2", "v2"}), training = norm(Image(17), {"y", "m1", "v1"}),
              plain = norm(Image(7), {"y"});
  training.Set("training_mode", 1).Output("m1").Output("v1");
  for (OnnxBuilder* b : {&old, &training, &plain}) {
    const OnnxModel model = Load(*b);
    EXPECT_EQ(model.outputs.size(), 1u);
    EXPECT_EQ(*model.values[model.outputs[0]].shape, (Ints{2, 4, 9, 9}));
    const OperatorGraph graph = ToOperatorGraph(model);
    EXPECT_EQ(graph.TrainableElements(), 8);
    EXPECT_EQ(graph.BufferElements(), 8);
    EXPECT_EQ(graph.operators.size(), 1u);
  }
}

TEST(ShapeRulesTest, RecurrentNetworksCountTheirProducts) {
  OnnxBuilder b;
  b.Input("x", {7, 3, 5}).Output("y").Weight("w", {2, 32, 5}).Weight("r", {2, 32, 8});
  b.Node("LSTM", {"x", "w", "r"}, {"y"}).Set("hidden_size", 8).Set("direction", "bidirectional");
  LoadOptions options;
  options.batch = 0;
  const OnnxModel model = ParseOnnx(b.Bytes(), "m", options);
  EXPECT_EQ(*model.values[model.outputs[0]].shape, (Ints{7, 2, 3, 8}));
  EXPECT_EQ(ToOperatorGraph(model).TotalMacs(), 7 * 3 * 2 * 4 * 8 * (5 + 8));
}

TEST(ShapeRulesTest, RecurrentWeightsMustFit) {
  auto lstm = [](const Ints& w, const Ints& r, const Ints& b, const std::string& direction) {
    OnnxBuilder builder;
    builder.Input("x", {2, 5, 4}).Weight("w", w).Weight("r", r).Weight("b", b);
    builder.Node("LSTM", {"x", "w", "r", "b"}, {"y"}).Set("hidden_size", std::int64_t{3}).Set("direction", direction).Output("y");
    return ErrorOf(builder);
  };
  EXPECT_EQ(lstm({1, 12, 4}, {1, 12, 3}, {1, 24}, "forward"), "");
  EXPECT_NE(lstm({1, 13, 4}, {1, 12, 3}, {1, 24}, "forward").find("don't fit 4 gates of 3"), std::string::npos);
  EXPECT_NE(lstm({1, 12, 4}, {1, 12, 7}, {1, 24}, "forward").find("don't fit"), std::string::npos);
  EXPECT_NE(lstm({1, 12, 4}, {1, 12, 3}, {1, 5}, "forward").find("B is [1,5]"), std::string::npos);
  EXPECT_NE(lstm({1, 12, 4}, {1, 12, 3}, {1, 24}, "bidirectional").find("bidirectional"), std::string::npos);
  EXPECT_NE(lstm({1, 12, 4}, {1, 12, 3}, {1, 24}, "sideways").find("direction 'sideways' is unknown"), std::string::npos);
  OnnxBuilder gemm;
  gemm.Input("x", {-1, 8}).Weight("w", {8, 7}).Weight("c", {9}).Node("Gemm", {"x", "w", "c"}, {"y"}).Output("y");
  EXPECT_NE(ErrorOf(gemm), "");
}

TEST(ShapeRulesTest, IndexingAndBlocks) {
  auto two = [](int opset = 17) {
    OnnxBuilder b(opset);
    b.Input("x", {-1, 8, 4, 6}).Output("y");
    return b;
  };
  EXPECT_EQ(Shape(two().IntConstant("r", {1, 2, 1, 3}).Node("Tile", {"x", "r"}, {"y"})), (Ints{2, 16, 4, 18}));
  EXPECT_EQ(Shape(two().IntConstant("k", {3}).Node("TopK", {"x", "k"}, {"y", ""}).Set("axis", 1)), (Ints{2, 3, 4, 6}));
  EXPECT_EQ(Shape(two().Node("DepthToSpace", {"x"}, {"y"}).Set("blocksize", 2)), (Ints{2, 2, 8, 12}));
  EXPECT_EQ(Shape(two().Node("SpaceToDepth", {"x"}, {"y"}).Set("blocksize", 2)), (Ints{2, 32, 2, 3}));
  EXPECT_NE(ErrorOf(two().Node("DepthToSpace", {"x"}, {"y"}).Set("blocksize", 3)).find("blocksize 3"), std::string::npos);
  EXPECT_NE(ErrorOf(two().IntConstant("k", {9}).Node("TopK", {"x", "k"}, {"y", ""}).Set("axis", 1)).find("0..8"),
            std::string::npos);
}

TEST(ShapeRulesTest, EinsumAndAttentionCountTheirProducts) {
  OnnxBuilder einsum;
  einsum.Input("x", {-1, 3, 4}).Weight("w", {4, 5}).Node("Einsum", {"x", "w"}, {"y"}).Set("equation", "bik,kj->bij").Output("y");
  EXPECT_EQ(Shape(einsum), (Ints{2, 3, 5}));
  EXPECT_EQ(ToOperatorGraph(Load(einsum)).TotalMacs(), 2 * 3 * 4 * 5);
  OnnxBuilder bad;
  bad.Input("x", {-1, 3, 4}).Weight("w", {5, 5}).Node("Einsum", {"x", "w"}, {"y"}).Set("equation", "bik,kj->bij").Output("y");
  EXPECT_NE(ErrorOf(bad).find("don't fit equation"), std::string::npos);
  OnnxBuilder attention(23);
  attention.Input("x", {-1, 7, 8})
      .Node("Attention", {"x", "x", "x"}, {"y"})
      .Set("q_num_heads", 2)
      .Set("kv_num_heads", 2)
      .Output("y");
  EXPECT_EQ(Shape(attention), (Ints{2, 7, 8}));
  EXPECT_EQ(ToOperatorGraph(Load(attention)).TotalMacs(), 2 * 2 * 7 * 7 * (4 + 4));
}

// An If on a constant becomes the branch that is taken, weights of the branch included; on data it stays opaque.
TEST(NormaliseTest, TakesTheBranchOfAConstantIf) {
  for (const bool condition : {true, false}) {
    OnnxBuilder b;
    b.Input("x", {-1, 4}).Output("y").Node("Not", {"c"}, {"n"}).Node("If", {"n"}, {"y"});
    auto* initializer = b.proto().mutable_graph()->add_initializer();
    initializer->set_name("c");
    initializer->set_data_type(9);
    initializer->add_int32_data(condition ? 1 : 0);
    auto* node = b.proto().mutable_graph()->mutable_node(1);
    for (const char* name : {"then_branch", "else_branch"}) {
      auto* attribute = node->add_attribute();
      attribute->set_name(name);
      attribute->set_type(5);
      auto* graph = attribute->mutable_g();
      graph->set_name("g");
      auto* inner = graph->add_node();
      inner->add_input("x");
      inner->add_output("z");
      if (std::string(name) == "then_branch") {
        inner->set_op_type("MatMul");
        inner->add_input("w");
        auto* weight = graph->add_initializer();
        weight->set_name("w");
        weight->set_data_type(1);
        weight->add_dims(4);
        weight->add_dims(3);
        for (int i = 0; i < 12; ++i) weight->add_float_data(1);
      } else {
        inner->set_op_type("Relu");
      }
      graph->add_output()->set_name("z");
    }
    const OnnxModel model = Load(b);
    EXPECT_TRUE(model.warnings.empty());
    EXPECT_EQ(model.nodes.at(0).op_type, condition ? "Relu" : "MatMul");
    EXPECT_EQ(*model.values[model.outputs.at(0)].shape, condition ? (Ints{2, 4}) : (Ints{2, 3}));
    EXPECT_EQ(ToOperatorGraph(model).TrainableElements(), condition ? 0 : 12);
    // The same with a condition that only the data decides.
    b.proto().mutable_graph()->mutable_initializer()->Clear();
    auto* input = b.proto().mutable_graph()->add_input();
    input->set_name("c");
    input->mutable_type()->mutable_tensor_type()->set_elem_type(9);
    input->mutable_type()->mutable_tensor_type()->mutable_shape();
    EXPECT_NE(Load(b).warnings.at(0).find("1 x If"), std::string::npos);
  }
}

TEST(NormaliseTest, FoldsShapeArithmetic) {
  // y = Reshape(x, [Shape(x)[0], Size / batch]): nothing but the Reshape is left.
  OnnxBuilder b = Image();
  b.IntConstant("zero", {0}).IntConstant("rest", {324});
  b.Node("Shape", {"x"}, {"s"}).Node("Gather", {"s", "zero"}, {"n"}).Node("Concat", {"n", "rest"}, {"t"}).Set("axis", 0);
  b.Node("Reshape", {"x", "t"}, {"y"});
  const OnnxModel model = Load(b, 3);
  ASSERT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(*model.values[model.outputs[0]].shape, (Ints{3, 324}));
  const OnnxValue& target = model.values[model.nodes[0].inputs[1]];
  EXPECT_EQ(target.role, OnnxRole::kConstant);
  EXPECT_EQ(target.data->Ints(), (Ints{3, 324}));
}

TEST(NormaliseTest, ReplacesABatchThatTheFileFixed) {
  for (const Ints& target : {Ints{2, 324}, Ints{2, -1}, Ints{-1, 324}, Ints{0, -1}}) {
    OnnxBuilder b;
    b.Input("x", {2, 4, 9, 9}).Output("y").IntConstant("s", target).Node("Reshape", {"x", "s"}, {"y"});
    EXPECT_EQ(Shape(b, 5), (Ints{5, 324})) << target[0] << "," << target[1];
  }
  for (const Ints& target : {Ints{1, 324}, Ints{1, -1}}) {
    OnnxBuilder b;
    b.Input("x", {1, 4, 9, 9}).Output("y").IntConstant("s", target).Node("Reshape", {"x", "s"}, {"y"});
    EXPECT_EQ(Shape(b, 5), (Ints{5, 324}));
  }
  OnnxBuilder heads;  // batch 2 folded with 4 channels
  heads.Input("x", {2, 4, 9, 9}).Output("y").IntConstant("s", {8, 81}).Node("Reshape", {"x", "s"}, {"y"});
  EXPECT_EQ(Shape(heads, 5), (Ints{20, 81}));
}

TEST(NormaliseTest, TellsParametersBuffersAndConstantsApart) {
  OnnxBuilder b;
  b.Input("x", {-1, 5}).Input("w", {5, 6}).Output("y").Scalar("half", 0.5f).Weight("bias", {6}).IntConstant("shape", {6, 6});
  b.Node("MatMul", {"x", "w"}, {"h"}).Node("Add", {"h", "bias"}, {"i"}).Node("Mul", {"i", "half"}, {"j"});
  b.Node("ConstantOfShape", {"shape"}, {"fill"}).Node("MatMul", {"j", "fill"}, {"y"});
  const OnnxModel model = Load(b);
  auto role = [&](const char* name) { return model.values[model.FindValue(name)].role; };
  EXPECT_EQ(role("x"), OnnxRole::kInput);
  EXPECT_EQ(role("w"), OnnxRole::kParameter);
  EXPECT_EQ(role("bias"), OnnxRole::kParameter);
  EXPECT_EQ(role("half"), OnnxRole::kConstant);
  EXPECT_EQ(role("fill"), OnnxRole::kParameter);
  EXPECT_EQ(model.values[model.FindValue("w")].data, nullptr);
  EXPECT_EQ(model.values[model.FindValue("fill")].data->fill, 0.0);
  EXPECT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.nodes.size(), 4u);
}

TEST(NormaliseTest, SharesAParameterReadThroughIdentity) {
  OnnxBuilder b;
  b.Input("x", {-1, 5}).Output("y").Weight("w", {5, 5});
  b.Node("Identity", {"w"}, {"w2"}).Node("MatMul", {"x", "w"}, {"h"}).Node("MatMul", {"h", "w2"}, {"y"});
  const OperatorGraph graph = ToOperatorGraph(Load(b));
  EXPECT_EQ(graph.parameters.size(), 1u);
  ASSERT_EQ(graph.together.size(), 1u);
  EXPECT_EQ(graph.together[0], (std::vector<int>{0, 1}));
}

// A tied embedding: the second reader, far away, reads a copy that may cross; near ones share the weight and a part.
TEST(NormaliseTest, AWeightReadFarApartIsReadThroughACopy) {
  for (const int between : {2, 20}) {
    OnnxBuilder b;
    b.Input("x", {-1, 4}).Weight("w", {4, 4}).Node("MatMul", {"x", "w"}, {"h0"});
    for (int i = 0; i < between; ++i) b.Node("Relu", {"h" + std::to_string(i)}, {"h" + std::to_string(i + 1)});
    b.Node("Transpose", {"w"}, {"wt"}).Node("MatMul", {"h" + std::to_string(between), "wt"}, {"y"}).Output("y");
    const OperatorGraph graph = ToOperatorGraph(Load(b));
    EXPECT_EQ(graph.TrainableElements(), 16);
    const bool copied =
        std::any_of(graph.operators.begin(), graph.operators.end(), [](const Operator& op) { return op.name == "w#copy"; });
    EXPECT_EQ(copied, between == 20);
    std::size_t largest = 0;
    for (const auto& group : graph.together) largest = std::max(largest, group.size());
    EXPECT_EQ(largest, 2u);
  }
}

TEST(NormaliseTest, InlinesModelFunctions) {
  OnnxBuilder b;
  b.Input("x", {-1, 5}).Output("y").Weight("w", {5, 7}).Node("Dense", {"x", "w"}, {"y"}, "local");
  auto* import = b.proto().add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  auto* function = b.proto().add_functions();
  function->set_name("Dense");
  function->set_domain("local");
  function->add_input("a");
  function->add_input("b");
  function->add_output("c");
  auto* opset = function->add_opset_import();
  opset->set_domain("");
  opset->set_version(17);
  auto* matmul = function->add_node();
  matmul->set_op_type("MatMul");
  matmul->add_input("a");
  matmul->add_input("b");
  matmul->add_output("t");
  auto* relu = function->add_node();
  relu->set_op_type("Relu");
  relu->add_input("t");
  relu->add_output("c");
  const OperatorGraph graph = ToOperatorGraph(Load(b));
  EXPECT_EQ(graph.operators.size(), 2u);
  EXPECT_EQ(graph.TotalMacs(), 2 * 5 * 7);
}

TEST(NormaliseTest, UnknownOperatorsAreOpaqueOrRefused) {
  OnnxBuilder b = Image();
  b.Node("Frobnicate", {"x"}, {"h"}).Node("Relu", {"h"}, {"y"});
  const OnnxModel model = Load(b);
  EXPECT_TRUE(model.nodes[0].opaque);
  ASSERT_FALSE(model.warnings.empty());
  EXPECT_NE(model.warnings[0].find("1 x Frobnicate"), std::string::npos);
  LoadOptions strict;
  strict.strict = true;
  EXPECT_THROW(ParseOnnx(b.Bytes(), "m", strict), Error);
}

TEST(NormaliseTest, OpenDimensionsNeedAShape) {
  OnnxBuilder b;
  b.Input("x", {-1, 4, 9, 9}).Output("y").Node("Relu", {"x"}, {"y"});
  auto* dim = b.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2);
  dim->set_dim_param("height");
  EXPECT_NE(ErrorOf(b).find("'height'"), std::string::npos);
  LoadOptions options;
  options.input_shape = Ints{4, 12, 9};
  const OnnxModel model = ParseOnnx(b.Bytes(), "m", options);
  EXPECT_EQ(*model.values[model.outputs[0]].shape, (Ints{1, 4, 12, 9}));
}

TEST(ToOperatorGraphTest, KeepsDerivedWeightsWithTheirReaders) {
  OnnxBuilder b;
  b.Input("x", {-1, 5}).Output("y").Weight("w", {7, 5});
  b.Node("Transpose", {"w"}, {"t"}).Node("Relu", {"x"}, {"h"}).Node("MatMul", {"h", "t"}, {"y"});
  const OnnxModel model = Load(b);
  OnnxGraphMap map;
  const OperatorGraph graph = ToOperatorGraph(model, &map);
  EXPECT_EQ(graph.parameters.size(), 1u);
  ASSERT_EQ(graph.together.size(), 1u);
  EXPECT_EQ(graph.together[0], (std::vector<int>{0, 2}));
  for (std::size_t i = 0; i < model.nodes.size(); ++i) EXPECT_EQ(graph.operators[i].name, model.nodes[i].name);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    EXPECT_EQ(graph.tensors[t].name, model.values[map.value_of_tensor[t]].name);
    EXPECT_EQ(map.tensor_of_value[map.value_of_tensor[t]], static_cast<int>(t));
  }
}

}  // namespace
}  // namespace weir::partitioner
