#include "worker/runtime/onnx_emitter.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>

#include "env/core/check.h"

namespace weir::worker {

using partitioner::DType;
using partitioner::OnnxData;
using torch::jit::NamedValue;

namespace {

at::ScalarType ToScalarType(DType type) {
  switch (type) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kInt64:
      return at::kLong;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt16:
      return at::kShort;
    case DType::kInt8:
      return at::kChar;
    case DType::kUint8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
    default:
      return at::kFloat;
  }
}

}  // namespace

at::Tensor ToTensor(const OnnxData& data) {
  const at::ScalarType type = ToScalarType(data.dtype);
  if (data.fill)
    return at::full({1}, *data.fill, at::TensorOptions(type))
        .expand(data.shape.empty() ? Ints{1} : data.shape)
        .reshape(data.shape);
  at::Tensor tensor = at::empty(data.shape, at::TensorOptions(type));
  WEIR_CHECK_EQ(tensor.nbytes(), data.bytes.size());
  std::memcpy(tensor.data_ptr(), data.bytes.data(), data.bytes.size());
  return tensor;
}

JitValue* OnnxEmitter::In(std::size_t input) {
  if (!Has(input)) Refuse("input {} is missing", input);
  const OnnxValue& value = Info(input);
  JitValue*& known = (*values_)[node_->inputs[input]];
  if (value.role == OnnxRole::kConstant) {  // inserted anew for each reader: constants don't cross
    return graph_->insertConstant(ToTensor(*value.data));
  }
  if (!known) Refuse("input '{}' has no value", value.name);
  return known;
}

NamedValue OnnxEmitter::InOrNone(std::size_t input) {
  return Has(input) ? NamedValue(In(input)) : NamedValue(c10::IValue());
}

const Ints& OnnxEmitter::Shape(std::size_t input) const {
  if (!Has(input) || !Info(input).shape) Refuse("the shape of input {} is unknown", input);
  return *Info(input).shape;
}

const Ints& OnnxEmitter::OutputShape(std::size_t output) const {
  if (output >= node_->outputs.size() || node_->outputs[output] < 0 || !OutputInfo(output).shape)
    Refuse("the shape of output {} is unknown", output);
  return *OutputInfo(output).shape;
}

Ints OnnxEmitter::ConstantInts(std::size_t input) const {
  if (!IsConstant(input)) Refuse("input {} must be constant", input);
  return Info(input).data->Ints();
}

std::vector<double> OnnxEmitter::ConstantReals(std::size_t input) const {
  if (!IsConstant(input)) Refuse("input {} must be constant", input);
  return Info(input).data->Reals();
}

std::optional<Ints> OnnxEmitter::IntsOf(const char* name, std::size_t input) const {
  if (node_->Find(name)) return node_->Ints(name);
  if (Has(input)) return ConstantInts(input);
  return std::nullopt;
}

JitValue* OnnxEmitter::Aten(const char* name, std::vector<NamedValue> arguments) {
  return graph_->insert(c10::Symbol::fromQualString(std::string("aten::") + name), arguments);
}

std::vector<JitValue*> OnnxEmitter::AtenAll(const char* name, std::vector<NamedValue> arguments) {
  JitValue* packed = Aten(name, std::move(arguments));
  torch::jit::Node* tuple = packed->node();
  if (tuple->kind() != torch::jit::prim::TupleConstruct) return {packed};
  const std::vector<JitValue*> results(tuple->inputs().begin(), tuple->inputs().end());
  tuple->destroy();
  return results;
}

JitValue* OnnxEmitter::Constant(const at::Tensor& value) {
  return graph_->insertConstant(value);
}

at::ScalarType OnnxEmitter::ScalarType(DType type) {
  return ToScalarType(type);
}

JitValue* OnnxEmitter::OptionalList(const std::vector<JitValue*>& tensors) {
  return graph_->insertNode(graph_->createList(c10::OptionalType::create(c10::TensorType::get()), tensors))->output();
}

JitValue* OnnxEmitter::List(const std::vector<JitValue*>& tensors) {
  return graph_->insertNode(graph_->createList(c10::TensorType::get(), tensors))->output();
}

std::vector<JitValue*> OnnxEmitter::Unpack(JitValue* list, std::size_t count) {
  const auto outputs = graph_->insertNode(graph_->createListUnpack(list, count))->outputs();
  return {outputs.begin(), outputs.end()};
}

Ints OnnxEmitter::OutputTarget(std::size_t output) const {
  Ints target = OutputShape(output);
  const int axis = OutputInfo(output).batch_axis;
  if (axis < 0 || std::count(target.begin(), target.end(), 0) > 0) return target;  // -1 is ambiguous beside 0
  target[axis] = -1;
  return target;
}

void OnnxEmitter::Out(std::size_t output, JitValue* value) {
  if (output < node_->outputs.size() && node_->outputs[output] >= 0) (*values_)[node_->outputs[output]] = value;
}

}  // namespace weir::worker
