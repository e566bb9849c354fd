#include "partitioner/graph/operator_graph.h"

#include <algorithm>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"

namespace weir::partitioner {

std::string_view DTypeName(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kInt64:
      return "int64";
    case DType::kInt32:
      return "int32";
    case DType::kInt16:
      return "int16";
    case DType::kInt8:
      return "int8";
    case DType::kUint8:
      return "uint8";
    case DType::kBool:
      return "bool";
    case DType::kOther:
      return "other";
  }
  return "other";
}

std::int64_t DTypeSize(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    default:
      return 1;
  }
}

std::int64_t TouchedBytes(const OperatorGraph& graph, const Operator& op) {
  std::int64_t bytes = 0;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (int t : *tensors) bytes = CheckedAdd(bytes, graph.tensors[t].bytes, op.name);
  }
  for (int p : op.parameters) {
    const Parameter& parameter = graph.parameters[p];
    bytes = CheckedAdd(bytes, CheckedMul(parameter.elements, DTypeSize(parameter.dtype), op.name), op.name);
  }
  return bytes;
}

std::int64_t CheckedMul(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw Invalid("{}: count overflows 64 bits ({} x {})", what, a, b);
  return result;
}

std::int64_t CheckedAdd(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw Invalid("{}: count overflows 64 bits ({} + {})", what, a, b);
  return result;
}

std::int64_t ElementCount(const std::vector<std::int64_t>& shape, std::string_view what) {
  std::int64_t count = 1;
  for (std::int64_t dimension : shape) {
    if (dimension < 0) throw Invalid("{}: dimension must be >= 0, got {}", what, dimension);
    count = CheckedMul(count, dimension, what);
  }
  return count;
}

namespace {

template <typename Range, typename Field>
std::int64_t Sum(const Range& range, Field field, std::string_view what) {
  std::int64_t total = 0;
  for (const auto& item : range) total = CheckedAdd(total, field(item), what);
  return total;
}

}  // namespace

std::int64_t OperatorGraph::TotalMacs() const {
  return Sum(
      operators, [](const Operator& o) { return o.macs; }, name + ": MACs");
}
std::int64_t OperatorGraph::TotalForwardFlop() const {
  return Sum(
      operators, [](const Operator& o) { return o.forward_flop; }, name + ": FLOP");
}
std::int64_t OperatorGraph::TotalBackwardFlop() const {
  return Sum(
      operators, [](const Operator& o) { return o.backward_flop; }, name + ": FLOP");
}
std::int64_t OperatorGraph::TrainableElements() const {
  return Sum(
      parameters, [](const Parameter& p) { return p.trainable ? p.elements : 0; }, name + ": parameters");
}
std::int64_t OperatorGraph::BufferElements() const {
  return Sum(
      parameters, [](const Parameter& p) { return p.trainable ? 0 : p.elements; }, name + ": buffers");
}

void OperatorGraph::Finalize() {
  const int num_operators = static_cast<int>(operators.size());
  const int num_tensors = static_cast<int>(tensors.size());
  for (Tensor& t : tensors) {
    t.producer = -1;
    t.readers.clear();
    t.is_output = false;
  }
  for (Parameter& p : parameters) p.readers.clear();
  for (int i = 0; i < num_operators; ++i) {
    for (int t : operators[i].outputs) {
      WEIR_CHECK(t >= 0 && t < num_tensors) << operators[i].name;
      WEIR_CHECK_EQ(tensors[t].producer, -1) << tensors[t].name;
      tensors[t].producer = i;
    }
  }
  for (int i = 0; i < num_operators; ++i) {
    for (int t : operators[i].inputs) {
      WEIR_CHECK(t >= 0 && t < num_tensors) << operators[i].name;
      WEIR_CHECK_LT(tensors[t].producer, i) << operators[i].name << "reads" << tensors[t].name;
      if (tensors[t].readers.empty() || tensors[t].readers.back() != i) tensors[t].readers.push_back(i);
    }
    for (int p : operators[i].parameters) {
      WEIR_CHECK(p >= 0 && p < static_cast<int>(parameters.size())) << operators[i].name;
      auto& readers = parameters[p].readers;
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
  }
  for (int t : outputs) tensors.at(t).is_output = true;
  for (const Parameter& p : parameters) {
    if (p.readers.size() > 1 && std::find(together.begin(), together.end(), p.readers) == together.end())
      together.push_back(p.readers);
  }
}

std::string OperatorGraph::ToText() const {
  std::string text = fmt::format("{} batch={} operators={} tensors={} parameters={}\n", format, batch, operators.size(),
                                 tensors.size(), parameters.size());
  auto tensor_text = [&](int id) {
    const Tensor& t = tensors[id];
    return t.shape ? fmt::format("t{}:{}[{}]", id, DTypeName(t.dtype), fmt::join(*t.shape, ",")) : fmt::format("t{}:?", id);
  };
  auto list = [&](const std::vector<int>& ids) {
    std::string out;
    for (int id : ids) out += (out.empty() ? "" : " ") + tensor_text(id);
    return out;
  };
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const Operator& o = operators[i];
    text += fmt::format("{} {} ({}) -> ({}) params=({}) macs={} flop={}/{} saved={}{}\n", i, o.kind, list(o.inputs),
                        list(o.outputs), fmt::join(o.parameters, " "), o.macs, o.forward_flop, o.backward_flop, o.saved_bytes,
                        o.opaque ? " opaque" : "");
  }
  for (const Parameter& p : parameters) {
    text +=
        fmt::format("{} {} {}[{}]\n", p.trainable ? "parameter" : "buffer", p.name, DTypeName(p.dtype), fmt::join(p.shape, ","));
  }
  for (const auto& group : together) text += fmt::format("together {}\n", fmt::join(group, " "));
  text += fmt::format("inputs {} outputs {}\n", fmt::join(inputs, " "), fmt::join(outputs, " "));
  return text;
}

std::string OperatorGraph::Fingerprint() const {
  return ContentHash(ToText());
}

}  // namespace weir::partitioner
