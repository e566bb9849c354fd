#include "worker/runtime/onnx_lowering.h"

#include "env/core/check.h"
#include "worker/runtime/onnx_rules.h"

namespace weir::worker {

using partitioner::LoweredModel;
using partitioner::LoweredWeight;
using partitioner::OnnxGraphMap;

at::Tensor ToTensor(const partitioner::OnnxData& data);  // onnx_emitter.cc

const OnnxRuleTable& OnnxRules() {
  static const OnnxRuleTable table = [] {
    OnnxRuleTable t;
    AddElementwiseRules(&t);
    AddLayerRules(&t);
    AddShapeRules(&t);
    AddIndexingRules(&t);
    AddRecurrentRules(&t);
    AddAttentionRules(&t);
    return t;
  }();
  return table;
}

std::vector<std::string> ExecutableOnnxOperators() {
  std::vector<std::string> names;
  for (const auto& [name, rule] : OnnxRules()) names.push_back(name);
  return names;
}

LoweredModel LowerOnnx(const OnnxModel& model) {
  LoweredModel lowered;
  OnnxGraphMap map;
  lowered.operator_graph = partitioner::ToOperatorGraph(model, &map);
  lowered.graph = std::make_shared<torch::jit::Graph>();
  std::vector<JitValue*> values(model.values.size(), nullptr);
  if (model.inputs.size() != 1)
    throw Invalid("{}: the model must have one data input, found {}", model.name, model.inputs.size());
  for (int v : model.inputs) {
    values[v] = lowered.graph->addInput("input");
    values[v]->setType(c10::TensorType::get());
    lowered.inputs.push_back(values[v]);
  }
  for (int v : map.value_of_parameter) {
    const OnnxValue& value = model.values[v];
    LoweredWeight weight;
    weight.names = {value.name};
    weight.value = values[v] = lowered.graph->addInput();
    weight.value->setType(c10::TensorType::get());
    weight.trainable = value.role == OnnxRole::kParameter;
    if (!value.shape) throw Invalid("{}: the shape of parameter '{}' is unknown", model.name, value.name);
    weight.shape = *value.shape;
    if (value.data) weight.tensor = ToTensor(*value.data);
    lowered.weights.push_back(std::move(weight));
  }
  OnnxEmitter emitter(model, lowered.graph.get(), &values);
  torch::jit::WithInsertPoint at_end(lowered.graph->return_node());
  for (const OnnxNode& node : model.nodes) {
    emitter.SetNode(&node);
    const auto rule = node.domain.empty() || node.domain == "ai.onnx" ? OnnxRules().find(node.op_type) : OnnxRules().end();
    if (rule == OnnxRules().end()) {
      throw Invalid("{}: node '{}' can't be executed: no rule for operator {}{}{}", model.name, node.name, node.domain,
                    node.domain.empty() ? "" : ".", node.op_type);
    }
    torch::jit::Node* const last = lowered.graph->return_node()->prev();
    try {
      rule->second(emitter);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      std::string reason = e.what();
      reason.erase(0, reason.find_first_not_of('\n'));
      throw Invalid("{}: node '{}' ({}) can't be executed: {}", model.name, node.name, node.op_type,
                    reason.substr(0, reason.find('\n')));
    }
    auto& nodes = lowered.operators.emplace_back().nodes;
    for (torch::jit::Node* n = last->next(); n != lowered.graph->return_node(); n = n->next()) {
      if (n->kind() != torch::jit::prim::Constant) nodes.push_back(n);
    }
  }
  for (int v : map.value_of_tensor) {
    if (!values[v]) throw Invalid("{}: value '{}' is computed by no node", model.name, model.values[v].name);
    lowered.tensors.push_back(values[v]);
  }
  for (int v : model.outputs) lowered.outputs.push_back(values[v]);
  lowered.tensor_mutated.assign(lowered.tensors.size(), false);
  WEIR_CHECK_EQ(lowered.operators.size(), lowered.operator_graph.operators.size());
  return lowered;
}

}  // namespace weir::worker
