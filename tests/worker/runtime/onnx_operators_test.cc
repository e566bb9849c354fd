// Single ONNX operators, executed, against values computed here by loops or by another route through LibTorch.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "env/core/error.h"
#include "partitioner/torchscript/operator_runner.h"
#include "tests/partitioner/onnx/onnx_builder.h"
#include "worker/runtime/load_model.h"

namespace weir::worker {
namespace {

using partitioner::OnnxBuilder;
using Ints = OnnxBuilder::Ints;

// Runs the model on one input; the weights are the file's own. Shapes must be as inferred.
std::vector<at::Tensor> Execute(const OnnxBuilder& builder, const at::Tensor& input,
                                const std::vector<at::Tensor>& weights = {}) {
  const std::vector<std::int64_t> sample(input.sizes().begin() + 1, input.sizes().end());
  const partitioner::LoweredModel model = LoadLoweredModel(builder.Bytes(), "test.onnx", input.size(0), sample);
  const auto& graph = model.operator_graph;
  std::vector<int> ids;
  for (std::size_t i = 0; i < model.weights.size(); ++i) ids.push_back(static_cast<int>(i));
  std::vector<at::Tensor> parameters = InitialWeights(model, ids, Init::kKeep, 1);
  for (std::size_t i = 0; i < weights.size(); ++i) parameters[i] = weights[i];
  std::vector<at::Tensor> values(graph.tensors.size());
  for (int t : graph.inputs) values[t] = input;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    std::vector<at::Tensor> in, own;
    for (int t : graph.operators[i].inputs) in.push_back(values[t]);
    for (int p : graph.operators[i].parameters) own.push_back(parameters[p]);
    const auto out = partitioner::OperatorRunner(model, static_cast<int>(i), partitioner::Mode::kTrain).Run(in, own, 1);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const auto& tensor = graph.tensors[graph.operators[i].outputs[k]];
      EXPECT_TRUE(tensor.shape && *tensor.shape == out[k].sizes().vec()) << tensor.name;
      values[graph.operators[i].outputs[k]] = out[k];
    }
  }
  std::vector<at::Tensor> result;
  for (int t : graph.outputs) result.push_back(values[t]);
  return result;
}

OnnxBuilder One(const std::string& op, const Ints& shape, const std::vector<std::string>& more = {}, int opset = 18) {
  OnnxBuilder builder(opset);
  std::vector<std::string> inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  builder.Input("x", shape).Node(op, inputs, {"y"}).Output("y");
  return builder;
}

void ExpectNear(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>(), tolerance);
}

// y[i] = f(x[i]) one by one.
void ExpectMaps(const OnnxBuilder& builder, const at::Tensor& x, const std::function<double(double)>& f) {
  const at::Tensor y = Execute(builder, x)[0];
  const at::Tensor flat = x.flatten(), out = y.flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i) EXPECT_NEAR(out[i].item<double>(), f(flat[i].item<double>()), 1e-5) << i;
}

TEST(OnnxOperatorsTest, ElementwiseFunctions) {
  const at::Tensor x = torch::linspace(-2.3, 2.7, 12).reshape({3, 4});
  ExpectMaps(One("Softsign", {3, 4}), x, [](double v) { return v / (1 + std::fabs(v)); });
  ExpectMaps(One("Sign", {3, 4}), x, [](double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; });
  ExpectMaps(One("Round", {3, 4}), x, [](double v) { return std::nearbyint(v); });
  ExpectMaps(One("ThresholdedRelu", {3, 4}), x, [](double v) { return v > 1 ? v : 0; });
  ExpectMaps(One("Celu", {3, 4}), x, [](double v) { return std::max(0.0, v) + std::min(0.0, std::exp(v) - 1); });
  ExpectMaps(One("Swish", {3, 4}), x, [](double v) { return v / (1 + std::exp(-v)); });
  ExpectMaps(One("Atan", {3, 4}), x, [](double v) { return std::atan(v); });
  ExpectMaps(One("Cosh", {3, 4}), x, [](double v) { return std::cosh(v); });
}

TEST(OnnxOperatorsTest, Reductions) {
  const at::Tensor x = torch::rand({2, 3, 4}) + 0.1;
  auto reduced = [&](const char* op) {
    OnnxBuilder builder = One(op, {2, 3, 4}, {}, 13);
    builder.Set("axes", Ints{1, -1}).Set("keepdims", std::int64_t{0});
    return Execute(builder, x)[0];
  };
  for (int b = 0; b < 2; ++b) {
    double sum = 0, squares = 0, product = 1, exps = 0;
    for (int i = 0; i < 12; ++i) {
      const double v = x[b].flatten()[i].item<double>();
      sum += v;
      squares += v * v;
      product *= v;
      exps += std::exp(v);
    }
    EXPECT_NEAR(reduced("ReduceL1")[b].item<double>(), sum, 1e-5);
    EXPECT_NEAR(reduced("ReduceL2")[b].item<double>(), std::sqrt(squares), 1e-5);
    EXPECT_NEAR(reduced("ReduceSumSquare")[b].item<double>(), squares, 1e-5);
    EXPECT_NEAR(reduced("ReduceProd")[b].item<double>(), product, 1e-5);
    EXPECT_NEAR(reduced("ReduceLogSum")[b].item<double>(), std::log(sum), 1e-5);
    EXPECT_NEAR(reduced("ReduceLogSumExp")[b].item<double>(), std::log(exps), 1e-5);
  }
}

TEST(OnnxOperatorsTest, SliceBackwards) {
  OnnxBuilder builder = One("Slice", {2, 6}, {"s", "e", "a", "t"});
  builder.IntConstant("s", {-1}).IntConstant("e", {-100}).IntConstant("a", {1}).IntConstant("t", {-2});
  const at::Tensor x = torch::arange(12, torch::kFloat).reshape({2, 6});
  ExpectNear(Execute(builder, x)[0], torch::tensor({{5.f, 3.f, 1.f}, {11.f, 9.f, 7.f}}));
}

TEST(OnnxOperatorsTest, GatherAndScatter) {
  const at::Tensor x = torch::arange(12, torch::kFloat).reshape({3, 4});
  auto shaped = [](OnnxBuilder& builder, int index, const Ints& shape) {
    auto* tensor = builder.proto().mutable_graph()->mutable_initializer(index);
    tensor->clear_dims();
    for (auto d : shape) tensor->add_dims(d);
  };
  OnnxBuilder elements = One("GatherElements", {3, 4}, {"i"});
  elements.Set("axis", std::int64_t{1}).IntConstant("i", {0, -1, 2, 1, 3, 3});
  shaped(elements, 0, {3, 2});
  ExpectNear(Execute(elements, x)[0], torch::tensor({{0.f, 3.f}, {6.f, 5.f}, {11.f, 11.f}}));
  OnnxBuilder nd = One("GatherND", {3, 4}, {"i"});
  nd.IntConstant("i", {0, 1, 2, 3});
  shaped(nd, 0, {2, 2});
  ExpectNear(Execute(nd, x)[0], torch::tensor({1.f, 11.f}));
  OnnxBuilder scatter = One("ScatterND", {3, 4}, {"i", "u"});
  scatter.IntConstant("i", {0, 2}).Weight("u", {2, 4});
  shaped(scatter, 0, {2, 1});
  at::Tensor expected = x.clone();
  expected[0].fill_(1);
  expected[2].fill_(1);
  ExpectNear(Execute(scatter, x)[0], expected);
  OnnxBuilder add = One("ScatterElements", {3, 4}, {"i", "u"});
  add.Set("axis", std::int64_t{1}).Set("reduction", std::string("add")).IntConstant("i", {0, 0, 1, 1, 2, 2}).Weight("u", {3, 2});
  shaped(add, 0, {3, 2});
  expected = x.clone();
  for (int r = 0; r < 3; ++r) expected[r][r] += 2;
  ExpectNear(Execute(add, x)[0], expected);
}

TEST(OnnxOperatorsTest, TopKOneHotCumSumTile) {
  const at::Tensor x = torch::tensor({{3.f, 1.f, 2.f}, {5.f, 9.f, 7.f}});
  OnnxBuilder top = One("TopK", {2, 3}, {"k"});
  top.IntConstant("k", {2});
  ExpectNear(Execute(top, x)[0], torch::tensor({{3.f, 2.f}, {9.f, 7.f}}));
  OnnxBuilder sum = One("CumSum", {2, 3}, {"a"});
  sum.Set("reverse", std::int64_t{1}).IntConstant("a", {1});
  ExpectNear(Execute(sum, x)[0], torch::tensor({{6.f, 3.f, 2.f}, {21.f, 16.f, 7.f}}));
  OnnxBuilder tile = One("Tile", {2, 3}, {"r"});
  tile.IntConstant("r", {1, 2});
  ExpectNear(Execute(tile, x)[0], torch::cat({x, x}, 1));
  OnnxBuilder hot(17);
  hot.Input("x", {2, 2}, 7).IntConstant("d", {3});
  hot.Weight("v", {2}).Node("OneHot", {"x", "d", "v"}, {"y"}).Set("axis", std::int64_t{1}).Output("y");
  hot.proto().mutable_graph()->mutable_initializer(1)->set_float_data(0, -1);
  hot.proto().mutable_graph()->mutable_initializer(1)->set_float_data(1, 4);
  const at::Tensor y = Execute(hot, torch::tensor({{0, -1}, {1, 2}}, torch::kLong))[0];
  ASSERT_EQ(y.sizes().vec(), (std::vector<std::int64_t>{2, 3, 2}));
  const int index[2][2] = {{0, 2}, {1, 2}};
  for (int a = 0; a < 2; ++a)
    for (int d = 0; d < 3; ++d)
      for (int b = 0; b < 2; ++b) EXPECT_EQ(y[a][d][b].item<float>(), index[a][b] == d ? 4 : -1);
}

TEST(OnnxOperatorsTest, DepthToSpaceAndBack) {
  const at::Tensor x = torch::arange(2 * 8 * 2 * 3, torch::kFloat).reshape({2, 8, 2, 3});
  for (const char* mode : {"DCR", "CRD"}) {
    OnnxBuilder builder = One("DepthToSpace", {2, 8, 2, 3});
    builder.Set("blocksize", std::int64_t{2}).Set("mode", std::string(mode));
    const at::Tensor y = Execute(builder, x)[0];
    for (int c = 0; c < 2; ++c)
      for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 6; ++w) {
          const int block = (h % 2) * 2 + w % 2, depth = mode == std::string("DCR") ? block * 2 + c : c * 4 + block;
          ASSERT_EQ(y[1][c][h][w].item<float>(), x[1][depth][h / 2][w / 2].item<float>()) << mode;
        }
    if (mode == std::string("DCR")) {
      OnnxBuilder back = One("SpaceToDepth", {2, 2, 4, 6});
      back.Set("blocksize", std::int64_t{2});
      ExpectNear(Execute(back, y)[0], x);
    }
  }
}

TEST(OnnxOperatorsTest, EinsumEqualsItsLoops) {
  OnnxBuilder builder = One("Einsum", {2, 3, 4}, {"w"});
  builder.Set("equation", std::string("bik,kj->bji")).Weight("w", {4, 5});
  const at::Tensor x = torch::rand({2, 3, 4}), w = torch::rand({4, 5});
  ExpectNear(Execute(builder, x, {w})[0], torch::matmul(x, w).transpose(1, 2), 1e-5);
}

TEST(OnnxOperatorsTest, GroupAndRmsNormalisation) {
  const at::Tensor x = torch::rand({2, 4, 3, 3});
  for (int opset : {18, 21}) {
    OnnxBuilder group = One("GroupNormalization", {2, 4, 3, 3}, {"s", "b"}, opset);
    group.Set("num_groups", std::int64_t{2}).Weight("s", {opset == 18 ? 2 : 4}).Weight("b", {opset == 18 ? 2 : 4});
    const at::Tensor y = Execute(group, x)[0];
    for (int n = 0; n < 2; ++n)
      for (int g = 0; g < 2; ++g) {
        const at::Tensor part = x[n].slice(0, 2 * g, 2 * g + 2);
        ExpectNear(y[n].slice(0, 2 * g, 2 * g + 2), (part - part.mean()) / (part.var(false) + 1e-5).sqrt() + 1, 1e-5);
      }
  }
  OnnxBuilder rms = One("RMSNormalization", {2, 4, 3, 3}, {"s"}, 23);
  rms.Weight("s", {3});
  ExpectNear(Execute(rms, x)[0], x / (x.square().mean(-1, true) + 1e-5).sqrt(), 1e-5);
}

TEST(OnnxOperatorsTest, AttentionEqualsTheFormula) {
  const at::Tensor q = torch::rand({2, 3, 8});
  OnnxBuilder builder = One("Attention", {2, 3, 8}, {"x", "x"}, 23);
  builder.Set("q_num_heads", std::int64_t{2}).Set("kv_num_heads", std::int64_t{2}).Set("is_causal", std::int64_t{1});
  const at::Tensor y = Execute(builder, q)[0];
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 2; ++h) {
      const at::Tensor x = q[b].slice(1, 4 * h, 4 * h + 4);
      for (int i = 0; i < 3; ++i) {
        const at::Tensor scores = torch::mv(x.slice(0, 0, i + 1), x[i]) / 2;
        ExpectNear(y[b][i].slice(0, 4 * h, 4 * h + 4), torch::mv(x.slice(0, 0, i + 1).t(), torch::softmax(scores, 0)), 1e-5);
      }
    }
}

TEST(OnnxOperatorsTest, ResizeAndUnevenTransposedConvolution) {
  const at::Tensor x = torch::arange(8, torch::kFloat).reshape({1, 1, 2, 4});
  OnnxBuilder nearest = One("Resize", {1, 1, 2, 4}, {"", "", "size"});
  nearest.IntConstant("size", {1, 1, 4, 8});
  const at::Tensor y = Execute(nearest, x)[0];
  for (int h = 0; h < 4; ++h)
    for (int w = 0; w < 8; ++w) EXPECT_EQ(y[0][0][h][w].item<float>(), x[0][0][h / 2][w / 2].item<float>());
  // Pads of 1 before and 0 after: the full result without its first row and column.
  OnnxBuilder deconv = One("ConvTranspose", {1, 1, 2, 4}, {"w"});
  deconv.Set("strides", Ints{2, 2}).Set("pads", Ints{1, 1, 0, 0}).Weight("w", {1, 1, 3, 3});
  const at::Tensor z = Execute(deconv, x)[0];
  ASSERT_EQ(z.sizes().vec(), (std::vector<std::int64_t>{1, 1, 4, 8}));
  at::Tensor full = torch::zeros({5, 9});
  for (int h = 0; h < 2; ++h)
    for (int w = 0; w < 4; ++w) full.slice(0, 2 * h, 2 * h + 3).slice(1, 2 * w, 2 * w + 3) += x[0][0][h][w];
  ExpectNear(z[0][0], full.slice(0, 1).slice(1, 1), 1e-5);
}

// The recurrences, step by step, in ONNX's own order of gates; backwards too.
TEST(OnnxOperatorsTest, LstmAndGruEqualTheirEquations) {
  const int steps = 4, batch = 2, size = 3, hidden = 5;
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({steps, batch, size});
  for (const char* direction : {"forward", "reverse"}) {
    SCOPED_TRACE(direction);
    const at::Tensor w = torch::randn({1, 4 * hidden, size}), r = torch::randn({1, 4 * hidden, hidden}),
                     b = torch::randn({1, 8 * hidden});
    OnnxBuilder lstm = One("LSTM", {steps, batch, size}, {"w", "r", "b"}, 14);
    lstm.Set("hidden_size", std::int64_t{hidden}).Set("direction", std::string(direction));
    lstm.Weight("w", {1, 4 * hidden, size}).Weight("r", {1, 4 * hidden, hidden}).Weight("b", {1, 8 * hidden});
    const at::Tensor y = Execute(lstm, x, {w, r, b})[0];
    at::Tensor h = torch::zeros({batch, hidden}), c = torch::zeros({batch, hidden});
    for (int s = 0; s < steps; ++s) {
      const int t = direction == std::string("forward") ? s : steps - 1 - s;
      const at::Tensor gates =
          torch::matmul(x[t], w[0].t()) + torch::matmul(h, r[0].t()) + b[0].slice(0, 0, 4 * hidden) + b[0].slice(0, 4 * hidden);
      const auto gate = gates.chunk(4, 1);  // i, o, f, c
      c = torch::sigmoid(gate[2]) * c + torch::sigmoid(gate[0]) * torch::tanh(gate[3]);
      h = torch::sigmoid(gate[1]) * torch::tanh(c);
      ExpectNear(y[t][0], h, 1e-5);
    }
  }
  const at::Tensor w = torch::randn({1, 3 * hidden, size}), r = torch::randn({1, 3 * hidden, hidden}),
                   b = torch::randn({1, 6 * hidden});
  OnnxBuilder gru = One("GRU", {steps, batch, size}, {"w", "r", "b"}, 14);
  gru.Set("hidden_size", std::int64_t{hidden}).Set("linear_before_reset", std::int64_t{1});
  gru.Weight("w", {1, 3 * hidden, size}).Weight("r", {1, 3 * hidden, hidden}).Weight("b", {1, 6 * hidden});
  const at::Tensor y = Execute(gru, x, {w, r, b})[0];
  at::Tensor h = torch::zeros({batch, hidden});
  for (int t = 0; t < steps; ++t) {
    const auto in = (torch::matmul(x[t], w[0].t()) + b[0].slice(0, 0, 3 * hidden)).chunk(3, 1);  // z, r, h
    const auto state = (torch::matmul(h, r[0].t()) + b[0].slice(0, 3 * hidden)).chunk(3, 1);
    const at::Tensor z = torch::sigmoid(in[0] + state[0]), reset = torch::sigmoid(in[1] + state[1]);
    h = (1 - z) * torch::tanh(in[2] + reset * state[2]) + z * h;
    ExpectNear(y[t][0], h, 1e-5);
  }
}

TEST(OnnxOperatorsTest, WhatIsNotSupportedIsSaid) {
  OnnxBuilder gru = One("GRU", {4, 2, 3}, {"w", "r"}, 14);
  gru.Set("hidden_size", std::int64_t{5}).Weight("w", {1, 15, 3}).Weight("r", {1, 15, 5});
  try {
    LoadLoweredModel(gru.Bytes(), "test.onnx", 4, {2, 3});
    FAIL() << "an error was expected";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("linear_before_reset"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace weir::worker
