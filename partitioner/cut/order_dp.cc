#include "partitioner/cut/order_dp.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>
#include <random>

namespace weir::partitioner {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr int kRandomOrders = 17;  // with the three others 20
constexpr int kMaxRandomUnits = 2000;
constexpr std::int64_t kMaxVolumeWork = 3'000'000;

// The hop cost in O(k · n): the feasible beginnings of a part that ends at p form a window that only moves up, and the best of
// them is kept by a monotone queue.
std::optional<std::vector<int>> CutOrderByHops(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                               const std::vector<std::int64_t>& alive) {
  const int n = graph.size(), k = limits.num_parts;
  std::vector<std::int64_t> cost(n + 1, kInfinite), next(n + 1);
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(n + 1, -1));
  cost[0] = 0;
  for (int j = 0; j < k; ++j) {
    std::fill(next.begin(), next.end(), kInfinite);
    std::deque<int> best, largest;  // beginnings by rising cost; positions by falling workspace
    Load load;                      // of [low, p)
    int low = 0;
    for (int p = 1; p <= n; ++p) {
      if (cost[p - 1] != kInfinite) {
        while (!best.empty() && cost[best.back()] + alive[best.back()] >= cost[p - 1] + alive[p - 1]) best.pop_back();
        best.push_back(p - 1);
      }
      const auto& unit = graph.units[order[p - 1]];
      load.Add(unit);
      while (!largest.empty() && graph.units[order[largest.back()]].workspace_bytes <= unit.workspace_bytes) largest.pop_back();
      largest.push_back(p - 1);
      load.workspace_bytes = graph.units[order[largest.front()]].workspace_bytes;
      while (low < p && !limits.Fits(load, j)) {
        const auto& gone = graph.units[order[low]];
        load.work -= gone.work;
        load.state_bytes -= gone.state_bytes;
        load.saved_bytes -= gone.saved_bytes;
        if (largest.front() == low) largest.pop_front();
        load.workspace_bytes = largest.empty() ? 0 : graph.units[order[largest.front()]].workspace_bytes;
        ++low;
      }
      while (!best.empty() && best.front() < low) best.pop_front();
      if (best.empty()) continue;
      next[p] = cost[best.front()] + alive[best.front()];
      from[j + 1][p] = best.front();
    }
    std::swap(cost, next);
  }
  if (cost[n] == kInfinite) return std::nullopt;
  return PartsOfOrder(order, from);
}

}  // namespace

std::vector<int> PartsOfOrder(const std::vector<int>& order, const std::vector<std::vector<int>>& from) {
  const int n = static_cast<int>(order.size()), k = static_cast<int>(from.size()) - 1;
  std::vector<int> part(n);
  for (int j = k, end = n; j > 0; --j) {
    const int begin = from[j][end];
    for (int p = begin; p < end; ++p) part[order[p]] = j - 1;
    end = begin;
  }
  return part;
}

std::vector<std::int64_t> AliveBytes(const UnitGraph& graph, const std::vector<int>& order) {
  const int n = graph.size();
  std::vector<int> position(n);
  for (int p = 0; p < n; ++p) position[order[p]] = p;
  std::vector<std::int64_t> alive(n + 2, 0);
  for (const auto& tensor : graph.tensors) {
    int last = 0;
    for (int reader : tensor.readers) last = std::max(last, position[reader]);
    alive[position[tensor.producer] + 1] += tensor.capacity;
    alive[last + 1] -= tensor.capacity;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  alive.resize(n + 1);
  return alive;
}

std::optional<std::vector<int>> CutOrder(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                         CutObjective objective) {
  const int n = graph.size(), k = limits.num_parts;
  if (n < k) return std::nullopt;
  std::vector<int> position(n);
  for (int p = 0; p < n; ++p) position[order[p]] = p;
  const std::vector<std::int64_t> alive = AliveBytes(graph, order);
  const bool volume = objective == CutObjective::kVolume && static_cast<std::int64_t>(n) * n / k < kMaxVolumeWork;
  if (!volume) return CutOrderByHops(graph, order, limits, alive);
  // cost[j][p]: least cost of the first p units in j parts; from[j][p]: where the last of them begins.
  std::vector<std::vector<std::int64_t>> cost(k + 1, std::vector<std::int64_t>(n + 1, kInfinite));
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(n + 1, -1));
  cost[0][0] = 0;
  std::vector<int> seen(graph.tensors.size(), -1);
  const std::int64_t largest_cap = *std::max_element(limits.max_work.begin(), limits.max_work.end());
  for (int begin = 0; begin < n; ++begin) {
    bool reachable = false;
    for (int j = 0; j < k; ++j) reachable = reachable || cost[j][begin] != kInfinite;
    if (!reachable) continue;
    Load load;
    std::int64_t incoming = 0;  // what this part receives
    for (int end = begin + 1; end <= n; ++end) {
      const auto& unit = graph.units[order[end - 1]];
      load.Add(unit);
      if (load.work > largest_cap) break;
      for (int t : unit.reads) {
        if (seen[t] == begin || position[graph.tensors[t].producer] >= begin) continue;
        seen[t] = begin;
        incoming += graph.tensors[t].capacity;
      }
      bool any = false;
      for (int j = 0; j < k; ++j) {
        if (cost[j][begin] == kInfinite || !limits.Fits(load, j)) continue;
        any = true;
        const std::int64_t total = cost[j][begin] + incoming;
        if (total < cost[j + 1][end]) {
          cost[j + 1][end] = total;
          from[j + 1][end] = begin;
        }
      }
      if (!any) break;  // work and memory only grow
    }
  }
  if (cost[k][n] == kInfinite) return std::nullopt;
  return PartsOfOrder(order, from);
}

std::vector<std::vector<int>> TopologicalOrders(const UnitGraph& graph) {
  const int n = graph.size();
  std::vector<std::vector<int>> orders;
  std::vector<int> as_numbered(n);
  std::iota(as_numbered.begin(), as_numbered.end(), 0);
  orders.push_back(as_numbered);
  // Depth first: follow the branch just opened.
  std::vector<int> missing(n), stack, depth_first;
  for (int i = n - 1; i >= 0; --i) {
    missing[i] = static_cast<int>(graph.units[i].predecessors.size());
    if (missing[i] == 0) stack.push_back(i);
  }
  while (!stack.empty()) {
    const int u = stack.back();
    stack.pop_back();
    depth_first.push_back(u);
    const auto& successors = graph.units[u].successors;
    for (auto it = successors.rbegin(); it != successors.rend(); ++it) {
      if (--missing[*it] == 0) stack.push_back(*it);
    }
  }
  orders.push_back(depth_first);
  // As late as possible: the reverse of the lowest-last order of the reversed graph.
  std::priority_queue<int> ready;
  std::vector<int> late;
  for (int i = 0; i < n; ++i) {
    missing[i] = static_cast<int>(graph.units[i].successors.size());
    if (missing[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const int u = ready.top();
    ready.pop();
    late.push_back(u);
    for (int v : graph.units[u].predecessors) {
      if (--missing[v] == 0) ready.push(v);
    }
  }
  std::reverse(late.begin(), late.end());
  orders.push_back(late);
  if (n <= kMaxRandomUnits) {
    std::mt19937_64 rng(1);
    for (int r = 0; r < kRandomOrders; ++r) {
      std::vector<std::uint64_t> priority(n);
      for (auto& p : priority) p = rng();
      std::priority_queue<std::pair<std::uint64_t, int>> open;
      std::vector<int> order;
      for (int i = 0; i < n; ++i) {
        missing[i] = static_cast<int>(graph.units[i].predecessors.size());
        if (missing[i] == 0) open.push({priority[i], i});
      }
      while (!open.empty()) {
        const int u = open.top().second;
        open.pop();
        order.push_back(u);
        for (int v : graph.units[u].successors) {
          if (--missing[v] == 0) open.push({priority[v], v});
        }
      }
      orders.push_back(order);
    }
  }
  std::sort(orders.begin() + 1, orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

}  // namespace weir::partitioner
