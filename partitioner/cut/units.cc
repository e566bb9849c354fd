#include "partitioner/cut/units.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>

namespace weir::partitioner {
namespace {

// Strongly connected components of a directed graph (Tarjan, iterative): component by node.
std::vector<int> Components(const std::vector<std::vector<int>>& successors) {
  const int n = static_cast<int>(successors.size());
  std::vector<int> index(n, -1), low(n, 0), component(n, -1), stack;
  std::vector<std::pair<int, std::size_t>> calls;
  int next = 0, components = 0;
  for (int root = 0; root < n; ++root) {
    if (index[root] >= 0) continue;
    calls.push_back({root, 0});
    while (!calls.empty()) {
      auto& [u, child] = calls.back();
      if (child == 0 && index[u] < 0) {
        index[u] = low[u] = next++;
        stack.push_back(u);
      }
      if (child < successors[u].size()) {
        const int v = successors[u][child++];
        if (index[v] < 0) {
          calls.push_back({v, 0});
        } else if (component[v] < 0) {
          low[u] = std::min(low[u], index[v]);
        }
        continue;
      }
      if (low[u] == index[u]) {
        while (true) {
          const int v = stack.back();
          stack.pop_back();
          component[v] = components;
          if (v == u) break;
        }
        ++components;
      }
      const int done = u;
      calls.pop_back();
      if (!calls.empty()) low[calls.back().first] = std::min(low[calls.back().first], low[done]);
    }
  }
  return component;
}

}  // namespace

std::int64_t WorkspaceBytes(const OperatorGraph& graph, const Operator& op) {
  std::int64_t bytes = 0;
  std::set<int> tensors(op.inputs.begin(), op.inputs.end());
  tensors.insert(op.outputs.begin(), op.outputs.end());
  for (int t : tensors) {
    const Tensor& tensor = graph.tensors[t];
    bytes = CheckedAdd(bytes, CheckedMul(tensor.bytes, tensor.has_gradient ? 2 : 1, graph.name), graph.name);
  }
  return bytes;
}

UnitGraph Contract(const OperatorGraph& graph, const MemoryModel& memory, Measure measure) {
  const int n = static_cast<int>(graph.operators.size());
  // Data arcs, and a ring through each group: whatever lies on a path between members is in their component.
  std::vector<std::vector<int>> successors(n);
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer < 0) continue;
    for (int reader : tensor.readers) successors[tensor.producer].push_back(reader);
  }
  for (const auto& group : graph.together) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (group.size() > 1) successors[group[i]].push_back(group[(i + 1) % group.size()]);
    }
  }
  const std::vector<int> component = Components(successors);
  const int count = n == 0 ? 0 : *std::max_element(component.begin(), component.end()) + 1;

  // Number the components topologically, lowest operator first.
  std::vector<int> first(count, n), missing(count, 0);
  std::vector<std::set<int>> after(count);
  for (int i = n - 1; i >= 0; --i) first[component[i]] = i;
  for (int i = 0; i < n; ++i) {
    for (int v : successors[i]) {
      if (component[v] != component[i] && after[component[i]].insert(component[v]).second) ++missing[component[v]];
    }
  }
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  for (int c = 0; c < count; ++c) {
    if (missing[c] == 0) ready.push({first[c], c});
  }
  std::vector<int> number(count, -1);
  int next = 0;
  while (!ready.empty()) {
    const int c = ready.top().second;
    ready.pop();
    number[c] = next++;
    for (int v : after[c]) {
      if (--missing[v] == 0) ready.push({first[v], v});
    }
  }

  UnitGraph out;
  out.units.resize(count);
  out.unit_of.resize(n);
  const bool training = measure.pass == Pass::kTraining;
  auto work_of = [&](const Operator& op) {
    const std::int64_t flop = training ? CheckedAdd(op.forward_flop, op.backward_flop, op.name) : op.forward_flop;
    if (graph.measured || measure.work == Work::kFlop) return flop;
    return measure.work == Work::kMacs
               ? op.macs
               : std::max(flop, CheckedMul(TouchedBytes(graph, op), (training ? 3 : 1) * kFlopPerByte, op.name));
  };
  const bool weightless =
      std::all_of(graph.operators.begin(), graph.operators.end(), [&](const Operator& op) { return work_of(op) == 0; });
  for (int i = 0; i < n; ++i) {
    const Operator& op = graph.operators[i];
    UnitGraph::Unit& unit = out.units[out.unit_of[i] = number[component[i]]];
    unit.operators.push_back(i);
    unit.work = CheckedAdd(unit.work, weightless ? 1 : work_of(op), graph.name + ": work up to operator '" + op.name + "'");
    unit.saved_bytes += op.saved_bytes;
    unit.workspace_bytes = std::max(unit.workspace_bytes, WorkspaceBytes(graph, op));
  }
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.readers.empty()) continue;
    const std::int64_t bytes = CheckedMul(parameter.elements, DTypeSize(parameter.dtype), parameter.name);
    const std::int64_t copies = parameter.trainable ? 2 + memory.optimizer_states : 1;
    out.units[out.unit_of[parameter.readers[0]]].state_bytes += CheckedMul(bytes, copies, parameter.name);
  }
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer < 0) continue;
    UnitGraph::Tensor contracted;
    contracted.producer = out.unit_of[tensor.producer];
    std::set<int> readers;
    for (int reader : tensor.readers) readers.insert(out.unit_of[reader]);
    readers.erase(contracted.producer);
    if (readers.empty()) continue;
    contracted.readers.assign(readers.begin(), readers.end());
    contracted.capacity = CheckedMul(tensor.bytes, training && tensor.has_gradient ? 2 : 1, tensor.name);
    const int id = static_cast<int>(out.tensors.size());
    out.units[contracted.producer].writes.push_back(id);
    for (int reader : contracted.readers) {
      out.units[reader].reads.push_back(id);
      out.units[reader].predecessors.push_back(contracted.producer);
      out.units[contracted.producer].successors.push_back(reader);
    }
    out.tensors.push_back(std::move(contracted));
  }
  for (UnitGraph::Unit& unit : out.units) {
    for (auto* list : {&unit.predecessors, &unit.successors}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    out.total_work = CheckedAdd(out.total_work, unit.work,
                                graph.name + ": work up to operator '" + graph.operators[unit.operators[0]].name + "'");
    out.max_work = std::max(out.max_work, unit.work);
  }
  return out;
}

}  // namespace weir::partitioner
