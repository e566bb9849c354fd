#include "partitioner/cut/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "partitioner/cut/flow_network.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxPrices = 12;  // multipliers tried at a boundary

// Work of each unit together with all that it depends on, or with all that depends on it.
std::vector<std::int64_t> ClosureWork(const UnitGraph& graph, bool ancestors) {
  const int n = graph.size();
  const std::size_t stride = (n + 63) / 64;
  std::vector<std::uint64_t> bits(stride * n, 0);
  std::vector<std::int64_t> work(n, 0);
  for (int step = 0; step < n; ++step) {
    const int u = ancestors ? step : n - 1 - step;
    std::uint64_t* own = bits.data() + stride * u;
    own[u / 64] |= std::uint64_t{1} << (u % 64);
    for (int v : ancestors ? graph.units[u].predecessors : graph.units[u].successors) {
      for (std::size_t w = 0; w < stride; ++w) own[w] |= bits[stride * v + w];
    }
    for (std::size_t w = 0; w < stride; ++w) {
      for (std::uint64_t rest = own[w]; rest != 0; rest &= rest - 1) work[u] += graph.units[w * 64 + __builtin_ctzll(rest)].work;
    }
  }
  return work;
}

}  // namespace

std::int64_t CutLowerBound(const UnitGraph& graph, const Limits& limits, CutObjective objective) {
  const int n = graph.size(), k = limits.num_parts;
  if (n > kMaxBoundedUnits || k < 2 || n < k) return 0;
  const std::vector<std::int64_t> above = ClosureWork(graph, true), below = ClosureWork(graph, false);
  CutNetwork network;
  network.num_operators = n;
  for (const auto& tensor : graph.tensors) network.tensors.push_back({tensor.producer, tensor.readers, tensor.capacity});
  std::int64_t sum = 0, greatest = 0;
  for (int b = 1; b < k; ++b) {
    const std::int64_t high = limits.WorkOf(0, b), low = graph.total_work - limits.WorkOf(b, k - b);
    network.pins.assign(n, Pin::kFree);
    bool any[2] = {};
    for (int u = 0; u < n; ++u) {
      if (above[u] > high)
        network.pins[u] = Pin::kSink;
      else if (below[u] > graph.total_work - low)
        network.pins[u] = Pin::kSource;
      any[0] = any[0] || network.pins[u] == Pin::kSource;
      any[1] = any[1] || network.pins[u] == Pin::kSink;
    }
    FlowNetwork flow(network);
    if (flow.Solve() != MinCut::Status::kOptimal) continue;
    std::int64_t best = flow.value();
    // The price at which the cut just found and its opposite cost the same (a secant of the dual), on the side that is too light.
    auto work_of = [&](const std::vector<bool>& on_source) {
      std::int64_t work = 0;
      for (int u = 0; u < n; ++u) work += on_source[u] ? graph.units[u].work : 0;
      return work;
    };
    const std::int64_t lightest = work_of(flow.OnSourceSide(Nearest::kSource)),
                       heaviest = work_of(flow.OnSourceSide(Nearest::kSink));
    const bool too_light = heaviest<low, too_heavy = lightest> high;
    if (too_light || too_heavy) {
      const double lacking = static_cast<double>(too_light ? low - heaviest : lightest - high);
      double price = std::max(1.0, static_cast<double>(best)) / lacking, below_price = 0, above_price = 0;
      for (int trial = 0; trial < kMaxPrices; ++trial) {
        // floor: the priced work is never more than price x work, so the bound stays valid.
        std::vector<std::int64_t> charge(n), none(n, 0);
        for (int u = 0; u < n; ++u)
          charge[u] = static_cast<std::int64_t>(std::floor(price * static_cast<double>(graph.units[u].work)));
        too_light ? flow.SetUnary(none, charge) : flow.SetUnary(charge, none);
        if (flow.Solve() != MinCut::Status::kOptimal) break;
        const double budget = price * static_cast<double>(too_light ? graph.total_work - low : high);
        best = std::max(best, flow.value() - static_cast<std::int64_t>(std::ceil(budget)));
        const std::int64_t now = work_of(flow.OnSourceSide(Nearest::kSource));
        const bool more = too_light ? now < low : now > high;  // the price is too low to move the cut into its window
        (more ? below_price : above_price) = price;
        price = above_price == 0 ? price * 4 : (below_price + above_price) / 2;
      }
    }
    sum += best;
    greatest = std::max(greatest, best);
  }
  return objective == CutObjective::kHops ? sum : greatest;
}

}  // namespace weir::partitioner
