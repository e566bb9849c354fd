// Random small dataflow graphs and their exhaustive cuts: the oracle of the cut tests.
#ifndef WEIR_TESTS_PARTITIONER_CUT_RANDOM_DAGS_H_
#define WEIR_TESTS_PARTITIONER_CUT_RANDOM_DAGS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "partitioner/cut/min_cut.h"
#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

inline int Draw(std::mt19937_64& rng, int low, int high) {
  return low + static_cast<int>(rng() % (high - low + 1));
}

// 6..13 operators, each with one output tensor. Every other graph has unary terms; the rest pins the first operator to the source
// and the last to the sink, so that a cut of 0 bytes isn't the answer.
inline CutNetwork RandomNetwork(std::mt19937_64& rng, bool unary) {
  CutNetwork network;
  const int n = network.num_operators = Draw(rng, 6, 13);
  for (int u = 0; u + 1 < n; ++u) {
    CutNetwork::Tensor tensor;
    tensor.producer = u;
    for (int v = u + 1; v < n; ++v) {
      if (Draw(rng, 0, 99) < (v == u + 1 ? 60 : 22)) tensor.readers.push_back(v);
    }
    tensor.capacity = Draw(rng, 1, 50);
    if (!tensor.readers.empty()) network.tensors.push_back(tensor);
  }
  if (unary) {
    for (int i = 0; i < n; ++i) {
      network.cost_on_source.push_back(Draw(rng, 0, 40));
      network.cost_on_sink.push_back(Draw(rng, 0, 40));
    }
  } else {
    network.pins.assign(n, Pin::kFree);
    network.pins[0] = Pin::kSource;
    network.pins[n - 1] = Pin::kSink;
  }
  return network;
}

// Cost of a cut, whatever FindMinCut says about it.
inline std::int64_t CostOf(const CutNetwork& network, const std::vector<bool>& source) {
  std::int64_t cost = 0;
  for (const auto& tensor : network.tensors) {
    const bool crosses =
        std::any_of(tensor.readers.begin(), tensor.readers.end(), [&](int r) { return source[tensor.producer] && !source[r]; });
    if (crosses) cost += tensor.capacity;
  }
  for (const auto& spread : network.spreads) {
    const auto on_source = std::count_if(spread.operators.begin(), spread.operators.end(), [&](int o) { return source[o]; });
    if (on_source > 0 && on_source < static_cast<long>(spread.operators.size())) cost += spread.capacity;
  }
  for (int i = 0; i < network.num_operators && !network.cost_on_source.empty(); ++i) {
    cost += source[i] ? network.cost_on_source[i] : network.cost_on_sink[i];
  }
  return cost;
}

// No tensor runs from the sink side back to the source side.
inline bool IsConvex(const CutNetwork& network, const std::vector<bool>& source) {
  for (const auto& tensor : network.tensors) {
    for (int reader : tensor.readers) {
      if (!source[tensor.producer] && source[reader]) return false;
    }
  }
  return true;
}

// Least cost over all convex cuts that respect pins and groups; max() where there is none.
inline std::int64_t BruteForceMinCut(const CutNetwork& network) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  const int n = network.num_operators;
  std::vector<bool> source(n);
  for (int mask = 0; mask < (1 << n); ++mask) {
    bool allowed = true;
    for (int i = 0; i < n; ++i) {
      source[i] = mask >> i & 1;
      if (!network.pins.empty() && network.pins[i] != Pin::kFree)
        allowed = allowed && source[i] == (network.pins[i] == Pin::kSource);
    }
    for (const auto& group : network.together) {
      for (int member : group) allowed = allowed && source[member] == source[group[0]];
    }
    if (allowed && IsConvex(network, source)) best = std::min(best, CostOf(network, source));
  }
  return best;
}

// An operator graph with the shape of RandomNetwork.
inline OperatorGraph RandomGraph(std::mt19937_64& rng, int min_operators, int max_operators) {
  OperatorGraph graph;
  graph.name = "random";
  graph.format = "onnx";
  const int n = Draw(rng, min_operators, max_operators);
  for (int i = 0; i < n; ++i) {
    Operator op;
    op.name = "op" + std::to_string(i);
    op.kind = "Relu";
    op.forward_flop = Draw(rng, 1, 20);
    op.backward_flop = Draw(rng, 0, 20);
    op.saved_bytes = Draw(rng, 0, 10);
    for (int u = 0; u < i; ++u) {
      if (Draw(rng, 0, 99) < (u == i - 1 ? 60 : 22)) op.inputs.push_back(u);
    }
    Tensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.bytes = Draw(rng, 1, 50);
    tensor.has_gradient = Draw(rng, 0, 3) > 0;
    op.outputs = {i};
    graph.operators.push_back(op);
    graph.tensors.push_back(tensor);
    if (Draw(rng, 0, 2) == 0) {
      Parameter parameter;
      parameter.name = "p" + std::to_string(i);
      parameter.elements = Draw(rng, 1, 30);
      parameter.shape = {parameter.elements};
      graph.operators[i].parameters.push_back(static_cast<int>(graph.parameters.size()));
      graph.parameters.push_back(parameter);
    }
  }
  graph.outputs = {n - 1};
  graph.Finalize();
  return graph;
}

}  // namespace weir::partitioner

#endif  // WEIR_TESTS_PARTITIONER_CUT_RANDOM_DAGS_H_
