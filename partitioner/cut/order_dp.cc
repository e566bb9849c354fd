#include "partitioner/cut/order_dp.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>

namespace weir::partitioner {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxVolumeWork = 200'000'000;

}  // namespace

std::optional<std::vector<int>> CutOrder(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                         CutObjective objective) {
  const int n = graph.size(), k = limits.num_parts;
  if (n < k) return std::nullopt;
  std::vector<int> position(n);
  for (int p = 0; p < n; ++p) position[order[p]] = p;
  // Bytes alive across the boundary before position p: the hop cost of cutting there.
  std::vector<std::int64_t> alive(n + 1, 0);
  for (const auto& tensor : graph.tensors) {
    int last = 0;
    for (int reader : tensor.readers) last = std::max(last, position[reader]);
    alive[position[tensor.producer] + 1] += tensor.capacity;
    alive[last + 1 > n ? n : last + 1] -= tensor.capacity;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());

  const bool volume = objective == CutObjective::kVolume && static_cast<std::int64_t>(n) * n / k < kMaxVolumeWork;
  // cost[j][p]: least cost of the first p units in j parts; from[j][p]: where the last of them begins.
  std::vector<std::vector<std::int64_t>> cost(k + 1, std::vector<std::int64_t>(n + 1, kInfinite));
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(n + 1, -1));
  cost[0][0] = 0;
  std::vector<int> seen(graph.tensors.size(), -1);
  for (int begin = 0; begin < n; ++begin) {
    bool reachable = false;
    for (int j = 0; j < k; ++j) reachable = reachable || cost[j][begin] != kInfinite;
    if (!reachable) continue;
    Load load;
    std::int64_t incoming = volume ? 0 : (begin == 0 ? 0 : alive[begin]);  // what this part receives
    for (int end = begin + 1; end <= n; ++end) {
      const auto& unit = graph.units[order[end - 1]];
      load.Add(unit);
      if (load.work > limits.max_work) break;
      if (volume) {
        for (int t : unit.reads) {
          if (seen[t] == begin || position[graph.tensors[t].producer] >= begin) continue;
          seen[t] = begin;
          incoming += graph.tensors[t].capacity;
        }
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
      if (!any) break;  // memory only grows
    }
  }
  if (cost[k][n] == kInfinite) return std::nullopt;
  std::vector<int> part(n);
  for (int j = k, end = n; j > 0; --j) {
    const int begin = from[j][end];
    for (int p = begin; p < end; ++p) part[order[p]] = j - 1;
    end = begin;
  }
  return part;
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
  std::vector<int> age(n, 0);
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
  std::sort(orders.begin() + 1, orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

}  // namespace weir::partitioner
