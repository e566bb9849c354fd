#include "partitioner/onnx/cost_model.h"

#include <map>
#include <numeric>

#include "partitioner/onnx/einsum.h"

namespace weir::partitioner {
namespace {

using Shape = std::vector<std::int64_t>;

// FLOP an output element, forward; the backward pass takes as many per input that has a gradient. 0: moves elements only.
const std::map<std::string, int>& FlopPerElement() {
  static const auto* table = new std::map<std::string, int>{{"Relu", 1},
                                                            {"LeakyRelu", 1},
                                                            {"PRelu", 2},
                                                            {"Clip", 2},
                                                            {"Abs", 1},
                                                            {"Neg", 1},
                                                            {"Add", 1},
                                                            {"Sub", 1},
                                                            {"Mul", 1},
                                                            {"Div", 1},
                                                            {"Max", 1},
                                                            {"Min", 1},
                                                            {"Sum", 1},
                                                            {"Mean", 1},
                                                            {"Where", 1},
                                                            {"Reciprocal", 1},
                                                            {"Sqrt", 1},
                                                            {"Dropout", 2},
                                                            {"HardSigmoid", 3},
                                                            {"HardSwish", 4},
                                                            {"Sigmoid", 4},
                                                            {"Tanh", 4},
                                                            {"Exp", 4},
                                                            {"Log", 4},
                                                            {"Pow", 4},
                                                            {"Erf", 8},
                                                            {"Gelu", 10},
                                                            {"Elu", 5},
                                                            {"Selu", 5},
                                                            {"Celu", 5},
                                                            {"Softplus", 8},
                                                            {"Softsign", 3},
                                                            {"ThresholdedRelu", 1},
                                                            {"Swish", 5},
                                                            {"Sin", 4},
                                                            {"Cos", 4},
                                                            {"Tan", 8},
                                                            {"RotaryEmbedding", 6},
                                                            {"RMSNormalization", 6},
                                                            {"Mish", 12},
                                                            {"Softmax", 6},
                                                            {"LogSoftmax", 6},
                                                            {"BatchNormalization", 8},
                                                            {"LayerNormalization", 8},
                                                            {"InstanceNormalization", 8},
                                                            {"GroupNormalization", 8},
                                                            {"LRN", 12},
                                                            {"Resize", 4},
                                                            {"Upsample", 1}};
  return *table;
}

class Costing {
 public:
  Costing(const OnnxModel& model, const OnnxNode& node)
      : model_(model), node_(node), what_(model.name + ": node '" + node.name + "'") {}

  OnnxCost Run() {
    if (node_.opaque || node_.outputs.empty() || node_.outputs[0] < 0 || !Known()) return {};
    const std::string& op = node_.op_type;
    const std::int64_t out = Elements(node_.outputs[0]);
    if (op == "Conv") {
      const Shape& w = ShapeAt(1);
      Product(Mul(out, Mul(w[1], Kernel(w))), Has(2) ? out : 0, 0, 1);
    } else if (op == "ConvTranspose") {
      const Shape& w = ShapeAt(1);
      Product(Mul(Elements(node_.inputs[0]), Mul(w[1], Kernel(w))), Has(2) ? out : 0, 0, 1);
    } else if (op == "Gemm") {
      const Shape& a = ShapeAt(0);
      Product(Mul(out, node_.Int("transA", 0) ? a[0] : a[1]), Has(2) ? out : 0, 0, 1);
    } else if (op == "MatMul") {
      Product(Mul(out, ShapeAt(0).back()), 0, 0, 1);
    } else if (op == "Einsum") {
      EinsumProduct();
    } else if (op == "Attention") {
      AttentionProducts();
    } else if (op == "LSTM" || op == "GRU" || op == "RNN") {
      Recurrent(op == "LSTM" ? 4 : op == "GRU" ? 3 : 1);
    } else if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") {
      const Shape kernel = node_.Ints("kernel_shape");
      std::int64_t window = 1;
      for (std::int64_t k : kernel) window = Mul(window, k);
      Elementwise(Mul(out, window), op == "MaxPool" ? out : Elements(node_.inputs[0]));
      if (Gradient(0) && op == "MaxPool") cost_.extra_bytes = Mul(out, 8);
    } else if (op == "GlobalAveragePool" || op == "GlobalMaxPool" || op.rfind("Reduce", 0) == 0) {
      Elementwise(Elements(node_.inputs[0]), Elements(node_.inputs[0]));
      if (op == "ReduceMax" || op == "ReduceMin" || op == "GlobalMaxPool" || op == "ReduceL2") Save(0);
    } else if (auto it = FlopPerElement().find(op); it != FlopPerElement().end()) {
      Mapped(it->second, out);
    }
    return cost_;
  }

 private:
  bool Has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i] >= 0; }
  const OnnxValue& Input(std::size_t i) const { return model_.values[node_.inputs[i]]; }
  const Shape& ShapeAt(std::size_t i) const { return *Input(i).shape; }
  bool Gradient(std::size_t i) const { return Has(i) && Input(i).has_gradient; }
  std::int64_t Mul(std::int64_t a, std::int64_t b) const { return CheckedMul(a, b, what_); }
  std::int64_t Elements(int value) const { return ElementCount(*model_.values[value].shape, what_); }
  std::int64_t Kernel(const Shape& w) const {
    std::int64_t product = 1;
    for (std::size_t d = 2; d < w.size(); ++d) product = Mul(product, w[d]);
    return product;
  }
  bool Known() const {
    for (int v : node_.inputs) {
      if (v >= 0 && !model_.values[v].shape) return false;
    }
    return model_.values[node_.outputs[0]].shape.has_value();
  }
  // Keeps input i if it's an activation or the data; weights are there anyway.
  void Save(std::size_t i) {
    if (!Has(i)) return;
    const OnnxRole role = Input(i).role;
    if (role == OnnxRole::kActivation || role == OnnxRole::kInput) cost_.saves.push_back(node_.inputs[i]);
  }

  void Product(std::int64_t macs, std::int64_t bias, std::size_t a, std::size_t b) {
    cost_.macs = macs;
    cost_.forward_flop = CheckedAdd(Mul(macs, 2), bias, what_);
    const int gradients = (Gradient(a) ? 1 : 0) + (Gradient(b) ? 1 : 0);
    cost_.backward_flop = CheckedAdd(Mul(Mul(macs, 2), gradients), Gradient(2) ? bias : 0, what_);
    if (Gradient(b)) Save(a);
    if (Gradient(a)) Save(b);
  }

  // Two inputs with a label summed over: a product of all labels' sizes. Else elementwise.
  void EinsumProduct() {
    const auto einsum = ParseEinsum(node_.String("equation", ""));
    if (!einsum) return;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) shapes.push_back(ShapeAt(i));
    const auto sizes = EinsumSizes(*einsum, shapes);
    if (!sizes) return;
    std::int64_t all = 1;
    bool summed = false;
    for (const auto& [label, size] : *sizes) {
      all = Mul(all, size);
      summed = summed || einsum->result.find(label) == std::string::npos;
    }
    if (summed && shapes.size() == 2) return Product(all, 0, 0, 1);
    Elementwise(all, all);
    for (std::size_t i = 0; i < shapes.size() && shapes.size() > 1; ++i) Save(i);
  }

  // Q K^T and the weighted sum of V, both kept for the backward pass with the weights.
  void AttentionProducts() {
    const Shape &q = ShapeAt(0), &k = ShapeAt(1);
    const bool joined = q.size() == 3;
    const std::int64_t heads = joined ? node_.Int("q_num_heads", 1) : q[1], rows = joined ? q[1] : q[2],
                       columns = joined ? k[1] : k[2];
    const std::int64_t size = joined ? q[2] / heads : q[3],
                       value_size = joined ? Elements(node_.outputs[0]) / (q[0] * rows * heads) : ShapeAt(2)[3];
    const std::int64_t scores = Mul(Mul(Mul(q[0], heads), rows), columns);
    cost_.macs = Mul(scores, CheckedAdd(size, value_size, what_));
    cost_.forward_flop = CheckedAdd(Mul(cost_.macs, 2), Mul(scores, 6), what_);
    if (Gradient(0) || Gradient(1) || Gradient(2)) cost_.backward_flop = CheckedAdd(Mul(cost_.macs, 4), Mul(scores, 6), what_);
    for (std::size_t i = 0; i < 3; ++i) Save(i);
    cost_.extra_bytes = Mul(scores, 4);
  }

  void Recurrent(std::int64_t gates) {
    const Shape &x = ShapeAt(0), &r = ShapeAt(2);
    const std::int64_t rows = Mul(Mul(x[0], x[1]), r[0]);
    const std::int64_t per_row = Mul(gates, Mul(r[2], CheckedAdd(x[2], r[2], what_)));
    Product(Mul(rows, per_row), Mul(rows, Mul(gates, r[2])), 0, 1);
    cost_.extra_bytes = Mul(Mul(rows, Mul(gates + 1, r[2])), 4);
  }

  void Elementwise(std::int64_t forward, std::int64_t backward) {
    cost_.forward_flop = forward;
    if (Gradient(0)) cost_.backward_flop = backward;
  }

  void Mapped(std::int64_t flop, std::int64_t out) {
    const std::string& op = node_.op_type;
    int gradients = 0, operands = 0;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      gradients += Gradient(i);
      operands += Has(i);
    }
    const bool chain = op == "Sum" || op == "Mean" || op == "Max" || op == "Min";
    cost_.forward_flop = Mul(Mul(flop, out), chain ? std::max(1, operands - 1) : 1);
    if (gradients == 0) return;
    if (op == "BatchNormalization" || op == "LayerNormalization" || op == "InstanceNormalization" || op == "GroupNormalization" ||
        op == "RMSNormalization") {
      cost_.backward_flop = Mul(2, cost_.forward_flop);
      Save(0);
      const Shape& x = ShapeAt(0);
      // Mean and deviation: by channel, or by row of the normalised axes.
      std::int64_t statistics = x.size() > 1 ? x[1] : 1;
      if (op == "InstanceNormalization") statistics = Mul(x[0], statistics);
      if (op == "LayerNormalization" || op == "RMSNormalization") statistics = x.back() > 0 ? out / x.back() : 0;
      cost_.extra_bytes = Mul(statistics, 8);
      return;
    }
    const bool view_like = op == "Add" || op == "Sub" || op == "Sum" || op == "Mean" || op == "Neg";
    cost_.backward_flop = view_like ? 0 : Mul(Mul(flop, out), std::min(gradients, 2));
    if (op == "Dropout") {
      cost_.extra_bytes = out;
    } else if (op == "Relu" || op == "Sigmoid" || op == "Tanh" || op == "Softmax" || op == "LogSoftmax" || op == "Exp" ||
               op == "Sqrt" || op == "Reciprocal") {
      cost_.saves.push_back(node_.outputs[0]);
    } else if (op == "Mul" || op == "Div") {
      if (Gradient(0)) Save(1);
      if (Gradient(1)) Save(0);
    } else if (op == "Where") {
      Save(0);
    } else if (!view_like && op != "Resize" && op != "Upsample") {
      for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
        if (Gradient(i) || i == 0) Save(i);
      }
    }
  }

  const OnnxModel& model_;
  const OnnxNode& node_;
  std::string what_;
  OnnxCost cost_;
};

}  // namespace

OnnxCost CostOf(const OnnxModel& model, const OnnxNode& node) {
  return Costing(model, node).Run();
}

}  // namespace weir::partitioner
