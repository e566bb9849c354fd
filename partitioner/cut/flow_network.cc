// Boost's Boykov-Kolmogorov maximum flow reports a false -Wmaybe-uninitialized from inside its header under GCC 12.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "partitioner/cut/flow_network.h"

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

constexpr std::int64_t kInfinite = std::int64_t{1} << 60;
constexpr int kSource = 0, kSink = 1, kFirst = 2;  // nodes

bool Accumulate(std::int64_t value, std::int64_t* sum) {
  return !__builtin_add_overflow(*sum, value, sum) && *sum < kInfinite / 2;
}

bool FiniteSumFits(const CutNetwork& network, const std::vector<std::int64_t>& cost_on_source,
                   const std::vector<std::int64_t>& cost_on_sink) {
  std::int64_t sum = 0;
  for (const auto& tensor : network.tensors) {
    // Without its auxiliary node a tensor is paid once for each reader.
    for (std::size_t i = 0; i < (network.tensor_nodes ? 1 : tensor.readers.size()); ++i) {
      if (!Accumulate(tensor.capacity, &sum)) return false;
    }
  }
  for (const auto& spread : network.spreads) {
    if (!Accumulate(spread.capacity, &sum)) return false;
  }
  for (const auto* costs : {&cost_on_source, &cost_on_sink}) {
    for (std::int64_t cost : *costs) {
      if (!Accumulate(cost, &sum)) return false;
    }
  }
  return true;
}

}  // namespace

struct FlowNetwork::Graph {
  Net net;
  std::vector<Traits::edge_descriptor> from_source, to_sink;  // by operator

  // Adds u -> v and v -> u, each the other's reverse in the residual network.
  Traits::edge_descriptor AddPair(int u, int v, std::int64_t forward, std::int64_t backward) {
    const auto e = add_edge(u, v, net).first, r = add_edge(v, u, net).first;
    net[e] = {forward, forward, r};
    net[r] = {backward, backward, e};
    return e;
  }
  // Nodes reachable from `start` over arcs that hold `arc`, or those from which `start` is reached.
  template <typename Holds>
  std::vector<bool> Reached(int start, bool backward, Holds holds) const {
    std::vector<bool> seen(num_vertices(net), false);
    std::vector<int> stack = {start};
    seen[start] = true;
    while (!stack.empty()) {
      const int u = stack.back();
      stack.pop_back();
      for (auto [e, end] = out_edges(u, net); e != end; ++e) {
        const int v = static_cast<int>(target(*e, net));
        if (!seen[v] && holds(net[backward ? net[*e].reverse : *e])) {
          seen[v] = true;
          stack.push_back(v);
        }
      }
    }
    return seen;
  }
};

FlowNetwork::FlowNetwork(const CutNetwork& network) : graph_(std::make_unique<Graph>()), num_operators_(network.num_operators) {
  const int n = num_operators_;
  cost_on_source_ = network.cost_on_source.empty() ? std::vector<std::int64_t>(n, 0) : network.cost_on_source;
  cost_on_sink_ = network.cost_on_sink.empty() ? std::vector<std::int64_t>(n, 0) : network.cost_on_sink;
  first_pins_ = network.pins.empty() ? std::vector<Pin>(n, Pin::kFree) : network.pins;
  for (const auto& tensor : network.tensors) WEIR_CHECK_GE(tensor.capacity, 0);
  overflow_ = !FiniteSumFits(network, cost_on_source_, cost_on_sink_);
  if (overflow_) return;

  int nodes = kFirst + n;
  std::vector<int> tensor_node(network.tensors.size(), -1);
  for (std::size_t i = 0; i < network.tensors.size(); ++i) {
    if (network.tensor_nodes && network.tensors[i].readers.size() > 1) tensor_node[i] = nodes++;
  }
  const int spread_base = nodes;
  nodes += 2 * static_cast<int>(network.spreads.size());
  Graph& graph = *graph_;
  graph.net = Net(nodes);
  graph.from_source.resize(n);
  graph.to_sink.resize(n);
  for (int i = 0; i < n; ++i) {
    // The arc to the sink stands first: Boost looks for it among the node's arcs.
    graph.to_sink[i] = graph.AddPair(kFirst + i, kSink, 0, 0);
    graph.from_source[i] = graph.AddPair(kSource, kFirst + i, 0, 0);
  }
  const std::int64_t back = network.reverse_arcs ? kInfinite : 0;
  auto add = [&](int u, int v, std::int64_t forward, std::int64_t backward) {
    if (u != v) graph.AddPair(u, v, forward, backward);
  };
  for (std::size_t i = 0; i < network.tensors.size(); ++i) {
    const auto& tensor = network.tensors[i];
    const int producer = kFirst + tensor.producer;
    if (tensor_node[i] < 0) {
      for (int reader : tensor.readers) add(producer, kFirst + reader, tensor.capacity, back);
      continue;
    }
    add(producer, tensor_node[i], tensor.capacity, 0);
    for (int reader : tensor.readers) {
      add(tensor_node[i], kFirst + reader, kInfinite, 0);
      if (back > 0) add(kFirst + reader, producer, back, 0);
    }
  }
  for (std::size_t i = 0; i < network.spreads.size(); ++i) {
    const int in = spread_base + 2 * static_cast<int>(i), out = in + 1;
    add(in, out, network.spreads[i].capacity, 0);
    for (int op : network.spreads[i].operators) {
      add(kFirst + op, in, kInfinite, 0);
      add(out, kFirst + op, kInfinite, 0);
    }
  }
  for (const auto& group : network.together) {
    for (std::size_t i = 1; i < group.size(); ++i) add(kFirst + group[i - 1], kFirst + group[i], kInfinite, kInfinite);
  }
  Reset();
}

FlowNetwork::~FlowNetwork() = default;

void FlowNetwork::Reset() {
  pins_ = first_pins_;
  value_ = 0;
  if (overflow_) return;
  Net& net = graph_->net;
  for (auto [e, end] = edges(net); e != end; ++e) net[*e].residual = net[*e].capacity;
  for (int i = 0; i < num_operators_; ++i) {
    net[graph_->from_source[i]].residual = cost_on_sink_[i];
    net[graph_->to_sink[i]].residual = cost_on_source_[i];
    if (pins_[i] != Pin::kFree) Apply(i, pins_[i]);
  }
}

void FlowNetwork::SetUnary(const std::vector<std::int64_t>& cost_on_source, const std::vector<std::int64_t>& cost_on_sink) {
  WEIR_CHECK(!overflow_);
  cost_on_source_ = cost_on_source;
  cost_on_sink_ = cost_on_sink;
  Reset();
}

void FlowNetwork::AddPin(int op, Pin side) {
  WEIR_CHECK(side != Pin::kFree && (pins_[op] == Pin::kFree || pins_[op] == side));
  if (pins_[op] == side) return;
  pins_[op] = side;
  if (!overflow_) Apply(op, side);
}

void FlowNetwork::Apply(int op, Pin side) {
  graph_->net[side == Pin::kSource ? graph_->from_source[op] : graph_->to_sink[op]].residual = kInfinite;
}

bool FlowNetwork::PinsContradict() const {
  // All finite capacities together are less than half of infinite, so an infinite arc keeps more than half of it.
  const auto reached = graph_->Reached(kSource, false, [](const Arc& arc) { return arc.residual > kInfinite / 2; });
  return reached[kSink];
}

MinCut::Status FlowNetwork::Solve() {
  if (overflow_) return MinCut::Status::kOverflow;
  if (PinsContradict()) return MinCut::Status::kInfeasible;
  Net& net = graph_->net;
  // Residuals as capacities: the flow reached before stands, only what the new pins allow is added.
  value_ += boost::boykov_kolmogorov_max_flow(net, get(&Arc::residual, net), get(&Arc::residual, net), get(&Arc::reverse, net),
                                              get(&Node::predecessor, net), get(&Node::color, net), get(&Node::distance, net),
                                              get(boost::vertex_index, net), kSource, kSink);
  return MinCut::Status::kOptimal;
}

std::vector<bool> FlowNetwork::OnSourceSide(Nearest nearest) const {
  const bool backward = nearest == Nearest::kSink;
  const auto reached = graph_->Reached(backward ? kSink : kSource, backward, [](const Arc& arc) { return arc.residual > 0; });
  std::vector<bool> side(num_operators_);
  for (int i = 0; i < num_operators_; ++i) side[i] = reached[kFirst + i] != backward;
  return side;
}

}  // namespace weir::partitioner
