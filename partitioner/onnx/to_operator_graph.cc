#include <algorithm>
#include <numeric>

#include "partitioner/onnx/cost_model.h"
#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {
namespace {

// Operators whose output shares its input's storage.
bool IsView(const OnnxNode& node) {
  if (!node.domain.empty()) return false;
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Slice", "Split", "Expand"}) {
    if (node.op_type == op) return true;
  }
  return false;
}

// Operators that compute on weights alone (a Transpose before a MatMul, the Expand of a class token) stay with their readers:
// what they produce is a parameter in another form, and parameters never cross a cut.
void KeepDerivedWeightsTogether(const OnnxModel& model, OperatorGraph* graph) {
  std::vector<bool> derived(model.values.size(), false);
  std::vector<std::vector<int>> readers(model.values.size());
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    for (int v : model.nodes[i].inputs) {
      if (v >= 0 && (readers[v].empty() || readers[v].back() != static_cast<int>(i))) readers[v].push_back(static_cast<int>(i));
    }
  }
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const OnnxNode& node = model.nodes[i];
    bool weights_only = true;
    for (int v : node.inputs) {
      if (v < 0) continue;
      const OnnxRole role = model.values[v].role;
      weights_only = weights_only && role != OnnxRole::kInput && (role != OnnxRole::kActivation || derived[v]);
    }
    if (!weights_only || node.tied_copy) continue;
    for (int v : node.outputs) {
      if (v < 0) continue;
      derived[v] = true;
      std::vector<int> group = {static_cast<int>(i)};
      group.insert(group.end(), readers[v].begin(), readers[v].end());
      if (group.size() > 1) graph->together.push_back(group);
    }
  }
}

}  // namespace

OperatorGraph ToOperatorGraph(const OnnxModel& model, OnnxGraphMap* map) {
  OperatorGraph graph;
  graph.name = model.name;
  graph.format = "onnx";
  graph.batch = model.batch;
  graph.warnings = model.warnings;
  OnnxGraphMap local;
  OnnxGraphMap& m = map ? *map : local;
  m = {};
  m.tensor_of_value.assign(model.values.size(), -1);
  m.parameter_of_value.assign(model.values.size(), -1);
  for (std::size_t v = 0; v < model.values.size(); ++v) {
    const OnnxValue& value = model.values[v];
    const std::string what = model.name + ": tensor '" + value.name + "'";
    if (value.role == OnnxRole::kInput || value.role == OnnxRole::kActivation) {
      Tensor tensor;
      tensor.name = value.name;
      tensor.shape = value.shape;
      tensor.dtype = value.dtype;
      tensor.has_gradient = value.has_gradient;
      if (value.shape) tensor.bytes = CheckedMul(ElementCount(*value.shape, what), DTypeSize(value.dtype), what);
      m.tensor_of_value[v] = static_cast<int>(graph.tensors.size());
      m.value_of_tensor.push_back(static_cast<int>(v));
      graph.tensors.push_back(std::move(tensor));
    } else if (value.role == OnnxRole::kParameter || value.role == OnnxRole::kBuffer) {
      Parameter parameter;
      parameter.name = value.name;
      parameter.shape = value.shape.value_or(std::vector<std::int64_t>());
      parameter.dtype = value.dtype;
      parameter.elements = ElementCount(parameter.shape, what);
      parameter.trainable = value.role == OnnxRole::kParameter;
      m.parameter_of_value[v] = static_cast<int>(graph.parameters.size());
      m.value_of_parameter.push_back(static_cast<int>(v));
      graph.parameters.push_back(std::move(parameter));
    }
  }
  // A tensor that several operators keep is one storage, views included: the first that keeps it pays. Weights are there anyway.
  std::vector<bool> saved(model.values.size(), false);
  std::vector<int> storage(model.values.size());
  std::iota(storage.begin(), storage.end(), 0);
  for (const OnnxNode& node : model.nodes) {
    if (!IsView(node) || node.inputs.empty() || node.inputs[0] < 0) continue;
    for (int v : node.outputs) {
      if (v >= 0) storage[v] = storage[node.inputs[0]];
    }
  }
  for (const OnnxNode& node : model.nodes) {
    Operator op;
    op.name = node.name;
    op.kind = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    op.opaque = node.opaque;
    for (int v : node.inputs) {
      if (v < 0) continue;
      if (m.tensor_of_value[v] >= 0) op.inputs.push_back(m.tensor_of_value[v]);
      if (m.parameter_of_value[v] >= 0) op.parameters.push_back(m.parameter_of_value[v]);
    }
    for (int v : node.outputs) {
      if (v >= 0) op.outputs.push_back(m.tensor_of_value[v]);
    }
    const OnnxCost cost = CostOf(model, node);
    op.macs = cost.macs;
    op.forward_flop = cost.forward_flop;
    op.backward_flop = cost.backward_flop;
    op.saved_bytes = cost.extra_bytes;
    for (int v : cost.saves) {
      v = storage[v];
      if (saved[v] || m.tensor_of_value[v] < 0) continue;
      saved[v] = true;
      op.saved_bytes = CheckedAdd(op.saved_bytes, graph.tensors[m.tensor_of_value[v]].bytes, model.name);
    }
    graph.operators.push_back(std::move(op));
  }
  for (int v : model.inputs) graph.inputs.push_back(m.tensor_of_value[v]);
  for (int v : model.outputs) graph.outputs.push_back(m.tensor_of_value[v]);
  KeepDerivedWeightsTogether(model, &graph);
  graph.Finalize();
  return graph;
}

}  // namespace weir::partitioner
