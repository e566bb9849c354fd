// Fills shapes and counts of a lowered model's operator graph by running it on a few samples.
#include <ATen/record_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <string_view>

#include "env/core/error.h"
#include "env/core/units.h"
#include "partitioner/torchscript/lowering.h"
#include "partitioner/torchscript/operator_runner.h"

namespace weir::partitioner {
namespace {

// MACs of the products and convolutions dispatched on this thread while it is installed. Nested products (a convolution that
// calls a matrix product) count once, at the outermost.
thread_local std::int64_t g_macs = 0;
thread_local int g_depth = 0;

bool IsProduct(std::string_view name) {
  static constexpr std::string_view kNames[] = {"aten::convolution", "aten::_convolution",    "aten::mm", "aten::addmm",
                                                "aten::bmm",         "aten::baddbmm",         "aten::mv", "aten::dot",
                                                "aten::addmv",       "aten::mkldnn_rnn_layer"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::int64_t Product(const std::vector<std::int64_t>& values) {
  std::int64_t product = 1;
  for (std::int64_t v : values) product = CheckedMul(product, v, "MACs");
  return product;
}

std::int64_t CountMacs(std::string_view name, c10::ArrayRef<const c10::IValue> in) {
  auto sizes = [&](std::size_t i) { return in[i].toTensor().sizes(); };
  if (name == "aten::mm") return Product({sizes(0)[0], sizes(0)[1], sizes(1)[1]});
  if (name == "aten::addmm") return Product({sizes(1)[0], sizes(1)[1], sizes(2)[1]});
  if (name == "aten::bmm") return Product({sizes(0)[0], sizes(0)[1], sizes(0)[2], sizes(1)[2]});
  if (name == "aten::baddbmm") return Product({sizes(1)[0], sizes(1)[1], sizes(1)[2], sizes(2)[2]});
  if (name == "aten::mv") return Product({sizes(0)[0], sizes(0)[1]});
  if (name == "aten::addmv") return Product({sizes(1)[0], sizes(1)[1]});
  if (name == "aten::dot") return sizes(0)[0];
  if (name == "aten::mkldnn_rnn_layer") {  // oneDNN: a whole recurrent layer of one direction as one operator
    const std::int64_t steps_and_samples = in[0].toTensor().numel() / sizes(0).back();
    return CheckedMul(steps_and_samples, CheckedAdd(in[1].toTensor().numel(), in[2].toTensor().numel(), "MACs"), "MACs");
  }
  // convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
  const auto input = sizes(0), weight = sizes(1);
  const auto stride = in[3].toIntVector(), padding = in[4].toIntVector(), dilation = in[5].toIntVector();
  const std::int64_t groups = in[8].toInt();
  const bool transposed = in[6].toBool();
  std::int64_t macs = 1;
  for (std::size_t d = 2; d < weight.size(); ++d) macs = CheckedMul(macs, weight[d], "MACs");
  if (transposed) {  // each input element meets every kernel element of its group's outputs
    for (std::int64_t d : input) macs = CheckedMul(macs, d, "MACs");
    return CheckedMul(macs, weight[1], "MACs");
  }
  macs = CheckedMul(macs, CheckedMul(input[0], CheckedMul(weight[0], input[1] / groups, "MACs"), "MACs"), "MACs");
  for (std::size_t d = 2; d < input.size(); ++d) {
    const std::size_t k = d - 2;
    const auto at = [&](const std::vector<std::int64_t>& v) { return v.size() > 1 ? v[k] : v[0]; };
    const std::int64_t out = (input[d] + 2 * at(padding) - at(dilation) * (weight[d] - 1) - 1) / at(stride) + 1;
    macs = CheckedMul(macs, out, "MACs");
  }
  return macs;
}

std::unique_ptr<at::ObserverContext> OnEnter(const at::RecordFunction& fn) {
  if (!IsProduct(fn.name())) return nullptr;
  if (g_depth++ == 0) g_macs = CheckedAdd(g_macs, CountMacs(fn.name(), fn.inputs()), "MACs");
  return nullptr;
}
void OnExit(const at::RecordFunction& fn, at::ObserverContext*) {
  if (IsProduct(fn.name())) --g_depth;
}

class MacCounter {
 public:
  MacCounter() {
    g_macs = g_depth = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&OnEnter, &OnExit).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~MacCounter() { at::removeCallback(handle_); }
  std::int64_t Take() { return std::exchange(g_macs, 0); }

 private:
  at::CallbackHandle handle_;
};

constexpr std::int64_t kMaxInputBytes = std::int64_t{1} << 30;

DType FromScalarType(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kLong:
      return DType::kInt64;
    case at::kInt:
      return DType::kInt32;
    case at::kShort:
      return DType::kInt16;
    case at::kChar:
      return DType::kInt8;
    case at::kByte:
      return DType::kUint8;
    case at::kBool:
      return DType::kBool;
    default:
      return DType::kOther;
  }
}

// Bytes kept for the backward pass, by what the operator's derivative needs (partitioning.md section 7).
std::int64_t SavedBytes(const OperatorGraph& graph, const Operator& op) {
  std::int64_t in = 0, out = 0, out_elements = 0;
  for (int t : op.inputs)
    in += graph.tensors[t].has_gradient || graph.tensors[t].dtype == DType::kFloat32 ? graph.tensors[t].bytes : 0;
  for (int t : op.outputs) {
    out += graph.tensors[t].bytes;
    out_elements += graph.tensors[t].bytes / std::max<std::int64_t>(1, DTypeSize(graph.tensors[t].dtype));
  }
  auto is = [&](const char* word) { return op.kind.find(word) != std::string::npos; };
  if (is("max_pool")) return 8 * out_elements;  // int64 indices
  if (is("dropout")) return out_elements;       // byte mask
  if (is("relu") && !is("gelu")) return out;
  if (is("softmax") || is("sigmoid") || is("tanh") || is("exp")) return out;
  if (is("view") || is("reshape") || is("flatten") || is("permute") || is("transpose") || is("cat") || is("add") || is("size"))
    return 0;
  return in;
}

// Whether a model input holds indices (token numbers) and not reals: an embedding reads it.
bool HoldsIndices(const torch::jit::Value* input) {
  return std::any_of(input->uses().begin(), input->uses().end(), [](const torch::jit::Use& use) {
    return use.user->kind() == c10::Symbol::aten("embedding") && use.offset == 1;
  });
}

}  // namespace

// Runs the model at this very batch.
void MeasureAt(std::int64_t batch, const std::vector<std::int64_t>& sample_shape, const std::string& path, LoweredModel* model) {
  OperatorGraph& graph = model->operator_graph;
  graph.batch = batch;
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> values(graph.tensors.size()), weights;
  for (const LoweredWeight& w : model->weights) {
    at::Tensor t = w.tensor.defined() ? w.tensor : at::zeros({1}).expand(w.shape);
    weights.push_back(w.trainable ? t : t.clone(at::MemoryFormat::Contiguous));  // buffers are written by train mode
  }
  std::vector<std::int64_t> input_shape = {batch};
  input_shape.insert(input_shape.end(), sample_shape.begin(), sample_shape.end());
  // The run needs memory of this order several times over; a size without a bound could take the machine down.
  const std::int64_t input_bytes = CheckedMul(ElementCount(input_shape, path + ": input"), 4, path + ": input");
  if (input_bytes > kMaxInputBytes) {
    throw Invalid("{}: an input [{}] of {} is more than can be measured ({})", path, fmt::join(input_shape, ", "),
                  FormatBytes(static_cast<double>(input_bytes)), FormatBytes(static_cast<double>(kMaxInputBytes)));
  }
  std::vector<bool> differentiable(graph.tensors.size(), false);
  auto record = [&](int id, const at::Tensor& value) {
    Tensor& t = graph.tensors[id];
    t.shape = value.sizes().vec();
    t.dtype = FromScalarType(value.scalar_type());
    t.bytes = CheckedMul(ElementCount(*t.shape, t.name), DTypeSize(t.dtype), t.name);
    t.has_gradient = differentiable[id] && value.is_floating_point();
    values[id] = value;
  };
  try {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      record(graph.inputs[i], at::zeros(input_shape, HoldsIndices(model->inputs[i]) ? at::kLong : at::kFloat));
    }
  } catch (const c10::Error&) {
    throw Invalid("{}: no memory for an input [{}]", path, fmt::join(input_shape, ", "));
  }
  std::vector<int> last_reader(graph.tensors.size(), -1);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    for (int r : graph.tensors[t].readers) last_reader[t] = r;
  }
  MacCounter counter;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    Operator& op = graph.operators[i];
    std::vector<at::Tensor> in, parameters;
    bool gradient_in = false, any_gradient = false;
    for (int t : op.inputs) {
      in.push_back(values[t]);
      gradient_in |= differentiable[t];
    }
    any_gradient = gradient_in;
    for (int p : op.parameters) {
      parameters.push_back(weights[p]);
      any_gradient |= graph.parameters[p].trainable;
    }
    std::vector<at::Tensor> out;
    try {
      out = OperatorRunner(*model, static_cast<int>(i), Mode::kTrain).Run(in, parameters, 0);
    } catch (const std::exception& e) {
      std::string reason = e.what();
      if (const auto* c10_error = dynamic_cast<const c10::Error*>(&e)) reason = c10_error->what_without_backtrace();
      std::string shapes;
      for (const at::Tensor& t : in) shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ", fmt::join(t.sizes(), ","));
      throw Invalid("{}: input [{}] doesn't fit the model: operator {} ({}) can't take {}: {}", path,
                    fmt::join(input_shape, ", "), i, op.kind, shapes, reason.substr(0, reason.find('\n')));
    }
    std::int64_t elements = 0;
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      differentiable[op.outputs[k]] = any_gradient && out[k].is_floating_point();
      record(op.outputs[k], out[k]);
      elements = CheckedAdd(elements, out[k].numel(), op.name);
    }
    op.macs = counter.Take();
    op.forward_flop = CheckedAdd(CheckedMul(2, op.macs, op.name), op.macs > 0 ? 0 : elements, op.name);
    const bool weight_gradient =
        std::any_of(op.parameters.begin(), op.parameters.end(), [&](int p) { return graph.parameters[p].trainable; });
    // dX and dW cost one product each; an operator without a weight has a dX for each of its two factors.
    const int products = (gradient_in ? 1 : 0) + (weight_gradient ? 1 : (gradient_in ? 1 : 0));
    op.backward_flop = op.macs > 0 ? CheckedMul(2 * products, op.macs, op.name) : (any_gradient ? elements : 0);
    op.saved_bytes = any_gradient ? SavedBytes(graph, op) : 0;
    for (int t : op.inputs) {
      if (last_reader[t] == static_cast<int>(i)) values[t] = at::Tensor();
    }
  }
}

namespace {

// The value at `batch` of what is `at2` for two samples and `at3` for three, and affine in the batch.
std::int64_t Extrapolate(std::int64_t at2, std::int64_t at3, std::int64_t batch, const std::string& what) {
  return CheckedAdd(at2, CheckedMul(at3 - at2, batch - 2, what), what);
}

// False where the two graphs don't tell how shapes depend on the batch.
bool ExtrapolateGraph(const OperatorGraph& three, std::int64_t batch, OperatorGraph* two) {
  for (std::size_t t = 0; t < two->tensors.size(); ++t) {
    Tensor& a = two->tensors[t];
    const Tensor& b = three.tensors[t];
    if (!a.shape || !b.shape || a.shape->size() != b.shape->size() || a.dtype != b.dtype) return false;
    for (std::size_t d = 0; d < a.shape->size(); ++d) {
      (*a.shape)[d] = Extrapolate((*a.shape)[d], (*b.shape)[d], batch, a.name);
      if ((*a.shape)[d] < 0) return false;
    }
    a.bytes = CheckedMul(ElementCount(*a.shape, a.name), DTypeSize(a.dtype), a.name);
  }
  for (std::size_t i = 0; i < two->operators.size(); ++i) {
    Operator& a = two->operators[i];
    const Operator& b = three.operators[i];
    a.macs = Extrapolate(a.macs, b.macs, batch, a.name);
    a.forward_flop = Extrapolate(a.forward_flop, b.forward_flop, batch, a.name);
    a.backward_flop = Extrapolate(a.backward_flop, b.backward_flop, batch, a.name);
    a.saved_bytes = Extrapolate(a.saved_bytes, b.saved_bytes, batch, a.name);
  }
  two->batch = batch;
  return true;
}

}  // namespace

void MeasureShapes(std::int64_t batch, const std::vector<std::int64_t>& sample_shape, const std::string& path,
                   LoweredModel* model) {
  if (batch <= 5) return MeasureAt(batch, sample_shape, path, model);
  // Shapes and counts are affine in the batch: two small runs tell them for any.
  OperatorGraph two;
  try {
    MeasureAt(2, sample_shape, path, model);
    two = model->operator_graph;
    MeasureAt(3, sample_shape, path, model);
  } catch (const Error&) {  // a batch is written into the model: only that one runs
    return MeasureAt(batch, sample_shape, path, model);
  }
  if (!ExtrapolateGraph(model->operator_graph, batch, &two)) return MeasureAt(batch, sample_shape, path, model);
  model->operator_graph = std::move(two);
}

void HalveBatch(OperatorGraph* graph) {
  graph->batch = 1;
  for (Tensor& t : graph->tensors) {
    if (!t.shape || t.shape->empty() || (*t.shape)[0] % 2 != 0) continue;
    (*t.shape)[0] /= 2;
    t.bytes /= 2;
  }
  for (Operator& op : graph->operators) {
    op.macs /= 2;
    op.forward_flop /= 2;
    op.backward_flop /= 2;
    op.saved_bytes /= 2;
  }
}

}  // namespace weir::partitioner
