// Boost's Boykov-Kolmogorov maximum flow reports a false -Wmaybe-uninitialized from inside its header under GCC 12.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "partitioner/cut/min_cut.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "env/core/check.h"

namespace weir::partitioner {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Arc {
  std::int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
struct Node {
  boost::default_color_type color = boost::white_color;
  std::int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};
using Net = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Node, Arc>;

// Adds u -> v and v -> u, each the other's reverse in the residual network.
void AddPair(Net& net, int u, int v, std::int64_t forward, std::int64_t backward) {
  const auto e = add_edge(u, v, net).first, r = add_edge(v, u, net).first;
  net[e] = {forward, 0, r};
  net[r] = {backward, 0, e};
}

bool Accumulate(std::int64_t value, std::int64_t* sum) {
  return !__builtin_add_overflow(*sum, value, sum);
}

// Nodes reachable from s over arcs with residual capacity, or those that reach t.
std::vector<bool> Reached(const Net& net, int start, bool backward) {
  std::vector<bool> seen(num_vertices(net), false);
  std::vector<int> stack = {start};
  seen[start] = true;
  while (!stack.empty()) {
    const int u = stack.back();
    stack.pop_back();
    for (auto [e, end] = out_edges(u, net); e != end; ++e) {
      const int v = static_cast<int>(target(*e, net));
      const std::int64_t residual = backward ? net[net[*e].reverse].residual : net[*e].residual;
      if (residual > 0 && !seen[v]) {
        seen[v] = true;
        stack.push_back(v);
      }
    }
  }
  return seen;
}

}  // namespace

MinCut FindMinCut(const CutNetwork& network, Nearest nearest) {
  const int n = network.num_operators;
  MinCut result;
  auto at = [](const std::vector<std::int64_t>& values, int i) { return values.empty() ? 0 : values[i]; };
  std::int64_t sum = 1;
  bool fits = true;
  for (const auto& tensor : network.tensors) {
    WEIR_CHECK_GE(tensor.capacity, 0);
    // Without its auxiliary node a tensor is paid once for each reader.
    for (std::size_t i = 0; i < (network.tensor_nodes ? 1 : tensor.readers.size()); ++i)
      fits = fits && Accumulate(tensor.capacity, &sum);
  }
  for (const auto& spread : network.spreads) fits = fits && Accumulate(spread.capacity, &sum);
  for (int i = 0; i < n; ++i) {
    fits = fits && Accumulate(at(network.cost_on_source, i), &sum) && Accumulate(at(network.cost_on_sink, i), &sum);
  }
  // Flow on an infinite arc may reach the sum of all finite ones and its reverse may hold as much again.
  if (!fits || sum > (std::int64_t{1} << 61)) {
    result.status = MinCut::Status::kOverflow;
    return result;
  }
  const std::int64_t infinite = sum;

  // Pinned operators are the terminals themselves: the network shrinks as pins are added.
  int nodes = 0;
  const int s = nodes++, t = nodes++;
  std::vector<int> node(n);
  for (int i = 0; i < n; ++i) {
    const Pin pin = network.pins.empty() ? Pin::kFree : network.pins[i];
    node[i] = pin == Pin::kSource ? s : pin == Pin::kSink ? t : nodes++;
  }
  auto all_at_one_node = [&](const CutNetwork::Tensor& tensor) {
    return std::all_of(tensor.readers.begin(), tensor.readers.end(), [&](int r) { return node[r] == node[tensor.producer]; });
  };
  std::vector<int> tensor_node(network.tensors.size(), -1);
  for (std::size_t i = 0; i < network.tensors.size(); ++i) {
    const auto& tensor = network.tensors[i];
    if (network.tensor_nodes && tensor.readers.size() > 1 && !all_at_one_node(tensor)) tensor_node[i] = nodes++;
  }
  const int spread_base = nodes;
  nodes += 2 * static_cast<int>(network.spreads.size());
  Net net(nodes);
  // Arcs into the source and out of the sink carry nothing.
  auto add = [&](int u, int v, std::int64_t forward, std::int64_t backward) {
    if (v == s || u == t) forward = 0;
    if (u == s || v == t) backward = 0;
    if (u != v && (forward > 0 || backward > 0)) AddPair(net, u, v, forward, backward);
  };
  for (int i = 0; i < n; ++i) {
    add(s, node[i], at(network.cost_on_sink, i), 0);
    add(node[i], t, at(network.cost_on_source, i), 0);
  }
  const std::int64_t back = network.reverse_arcs ? infinite : 0;
  for (std::size_t i = 0; i < network.tensors.size(); ++i) {
    const auto& tensor = network.tensors[i];
    const int producer = node[tensor.producer];
    if (tensor_node[i] < 0) {
      for (int reader : tensor.readers) add(producer, node[reader], tensor.capacity, back);
      continue;
    }
    add(producer, tensor_node[i], tensor.capacity, 0);
    for (int reader : tensor.readers) {
      add(tensor_node[i], node[reader], infinite, 0);
      add(node[reader], producer, back, 0);
    }
  }
  for (std::size_t i = 0; i < network.spreads.size(); ++i) {
    const int in = spread_base + 2 * static_cast<int>(i), out = in + 1;
    add(in, out, network.spreads[i].capacity, 0);
    for (int op : network.spreads[i].operators) {
      add(node[op], in, infinite, 0);
      add(out, node[op], infinite, 0);
    }
  }
  for (const auto& group : network.together) {
    for (std::size_t i = 1; i < group.size(); ++i) add(node[group[i - 1]], node[group[i]], infinite, infinite);
  }
  result.value = boost::boykov_kolmogorov_max_flow(net, get(&Arc::capacity, net), get(&Arc::residual, net),
                                                   get(&Arc::reverse, net), get(&Node::predecessor, net), get(&Node::color, net),
                                                   get(&Node::distance, net), get(boost::vertex_index, net), s, t);
  if (result.value >= infinite) {
    result.status = MinCut::Status::kInfeasible;
    result.value = 0;
    return result;
  }
  const std::vector<bool> seen = nearest == Nearest::kSource ? Reached(net, s, false) : Reached(net, t, true);
  result.on_source_side.resize(n);
  for (int i = 0; i < n; ++i) result.on_source_side[i] = seen[node[i]] == (nearest == Nearest::kSource);
  return result;
}

}  // namespace weir::partitioner
