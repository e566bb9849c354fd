#include "partitioner/cut/part_plan.h"

#include <algorithm>
#include <map>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/units.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

PartPlan Describe(const OperatorGraph& graph, Partition partition, const MemoryModel& memory) {
  WEIR_CHECK(partition.status == Partition::Status::kOk) << partition.reason;
  WEIR_CHECK_EQ(partition.part_of.size(), graph.operators.size());
  PartPlan plan;
  plan.parts.resize(partition.num_parts);
  const std::vector<int>& part_of = partition.part_of;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    PartSummary& part = plan.parts[part_of[i]];
    ++part.num_operators;
    part.forward_flop = CheckedAdd(part.forward_flop, op.forward_flop, graph.name);
    part.backward_flop = CheckedAdd(part.backward_flop, op.backward_flop, graph.name);
    part.saved_bytes = CheckedAdd(part.saved_bytes, op.saved_bytes, graph.name);
    part.workspace_bytes = std::max(part.workspace_bytes, WorkspaceBytes(graph, op));
  }
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.readers.empty()) continue;
    PartSummary& part = plan.parts[part_of[parameter.readers[0]]];
    const std::int64_t bytes = CheckedMul(parameter.elements, DTypeSize(parameter.dtype), parameter.name);
    (parameter.trainable ? part.parameter_bytes : part.buffer_bytes) += bytes;
    // One multiply-add for the step itself and one for each state.
    if (parameter.trainable)
      part.optimizer_flop += CheckedMul(parameter.elements, 2 * (1 + memory.optimizer_states), parameter.name);
  }
  for (int p = 0; p < partition.num_parts; ++p) {
    PartSummary& part = plan.parts[p];
    part.memory_bytes = CheckedMul(part.parameter_bytes, 2 + memory.optimizer_states, graph.name) + part.buffer_bytes +
                        CheckedMul(part.saved_bytes, memory.InFlight(p, partition.num_parts), graph.name) + part.workspace_bytes;
  }
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer < 0) continue;
    CutTensor cut;
    cut.tensor = static_cast<int>(t);
    cut.from = part_of[tensor.producer];
    for (int reader : tensor.readers) {
      if (part_of[reader] != cut.from) cut.to.push_back(part_of[reader]);
    }
    if (cut.to.empty()) continue;
    std::sort(cut.to.begin(), cut.to.end());
    cut.to.erase(std::unique(cut.to.begin(), cut.to.end()), cut.to.end());
    cut.bytes = tensor.bytes;
    cut.has_gradient = tensor.has_gradient;
    plan.cut_tensors.push_back(std::move(cut));
  }
  plan.partition = std::move(partition);
  return plan;
}

std::vector<PartArc> PartArcs(const PartPlan& plan) {
  std::map<std::pair<int, int>, PartArc> arcs;
  for (const CutTensor& cut : plan.cut_tensors) {
    for (int to : cut.to) {
      PartArc& arc = arcs[{cut.from, to}];
      arc.from = cut.from;
      arc.to = to;
      arc.forward_bytes += cut.bytes;
      if (cut.has_gradient) arc.backward_bytes += cut.bytes;
    }
  }
  std::vector<PartArc> out;
  for (const auto& [key, arc] : arcs) out.push_back(arc);
  return out;
}

PartPlan PlanParts(const OperatorGraph& graph, CutOptions options, int max_parts) {
  WEIR_CHECK_GE(max_parts, 1);
  Partition last;
  for (int k = 1; k <= max_parts; ++k) {
    options.num_parts = k;
    Partition partition = CutIntoParts(graph, options);
    if (partition.status == Partition::Status::kOk) return Describe(graph, std::move(partition), options.memory);
    if (k == 1 || partition.reason.find("separable") == std::string::npos) last = std::move(partition);
  }
  PartPlan plan;
  plan.partition = std::move(last);
  return plan;
}

}  // namespace weir::partitioner
