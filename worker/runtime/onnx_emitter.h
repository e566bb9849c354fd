// What the per-operator lowering rules see: one ONNX node, its values as TorchScript values, and a way to add operators.
// Private to the ONNX lowering (LibTorch).
#ifndef WEIR_WORKER_RUNTIME_ONNX_EMITTER_H_
#define WEIR_WORKER_RUNTIME_ONNX_EMITTER_H_

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/named_value.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "env/core/error.h"
#include "partitioner/onnx/onnx_model.h"

namespace weir::worker {

using partitioner::OnnxModel;
using partitioner::OnnxNode;
using partitioner::OnnxRole;
using partitioner::OnnxValue;
using JitValue = torch::jit::Value;
using Ints = std::vector<std::int64_t>;

class OnnxEmitter {
 public:
  OnnxEmitter(const OnnxModel& model, torch::jit::Graph* graph, std::vector<JitValue*>* values)
      : model_(model), graph_(graph), values_(values) {}
  void SetNode(const OnnxNode* node) { node_ = node; }

  const OnnxNode& node() const { return *node_; }
  bool Has(std::size_t input) const { return input < node_->inputs.size() && node_->inputs[input] >= 0; }
  std::size_t NumInputs() const { return node_->inputs.size(); }
  const OnnxValue& Info(std::size_t input) const { return model_.values[node_->inputs.at(input)]; }
  const OnnxValue& OutputInfo(std::size_t output) const { return model_.values[node_->outputs.at(output)]; }
  std::int64_t batch() const { return model_.batch; }

  // Input as a value of the graph; constants are inserted where they stand.
  JitValue* In(std::size_t input);
  // As an optional tensor argument: None where it is left out.
  torch::jit::NamedValue InOrNone(std::size_t input);
  // Shape of an input or output; throws where it is unknown.
  const Ints& Shape(std::size_t input) const;
  const Ints& OutputShape(std::size_t output = 0) const;
  std::int64_t Rank(std::size_t input) const { return static_cast<std::int64_t>(Shape(input).size()); }
  // Elements of a constant input; throws where it isn't constant.
  Ints ConstantInts(std::size_t input) const;
  std::vector<double> ConstantReals(std::size_t input) const;
  bool IsConstant(std::size_t input) const { return Has(input) && Info(input).role == OnnxRole::kConstant; }
  // Attribute `name`, or constant input `input` where the attribute became an input (by opset); nullopt: neither.
  std::optional<Ints> IntsOf(const char* name, std::size_t input) const;
  // `axis` counted from the end if negative.
  static std::int64_t Axis(std::int64_t axis, std::int64_t rank) { return axis < 0 ? axis + rank : axis; }

  // aten::<name>(arguments...), matched against the operator's schemas.
  JitValue* Aten(const char* name, std::vector<torch::jit::NamedValue> arguments);
  // The same for an operator with several results.
  std::vector<JitValue*> AtenAll(const char* name, std::vector<torch::jit::NamedValue> arguments);
  JitValue* Constant(const at::Tensor& value);
  static at::ScalarType ScalarType(partitioner::DType type);
  JitValue* List(const std::vector<JitValue*>& tensors);
  JitValue* OptionalList(const std::vector<JitValue*>& tensors);
  std::vector<JitValue*> Unpack(JitValue* list, std::size_t count);
  // Target of a reshape to the output's shape: -1 where the size goes with the batch, so that the result runs at any batch.
  Ints OutputTarget(std::size_t output = 0) const;

  void Out(std::size_t output, JitValue* value);
  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Invalid("{}: node '{}' ({}) can't be executed: {}", model_.name, node_->name, node_->op_type,
                  fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const OnnxModel& model_;
  torch::jit::Graph* graph_;
  std::vector<JitValue*>* values_;
  const OnnxNode* node_ = nullptr;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_ONNX_EMITTER_H_
