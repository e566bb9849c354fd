#include "partitioner/cut/bottleneck.h"

#include <algorithm>
#include <deque>

#include "partitioner/cut/order_dp.h"

namespace weir::partitioner {
namespace {

// For each part and end, the lowest beginning whose units fit the part's memory. Non-decreasing in the end.
std::vector<std::vector<int>> LowestBeginnings(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits) {
  const int n = graph.size(), k = limits.num_parts;
  std::vector<std::vector<int>> lowest(k, std::vector<int>(n + 1, 0));
  if (!limits.HasMemory()) return lowest;
  for (int part = 0; part < k; ++part) {
    if (limits.MaxMemory(part) == 0) continue;
    std::deque<int> largest;  // positions by falling workspace
    Load load;
    int low = 0;
    for (int p = 1; p <= n; ++p) {
      const auto& unit = graph.units[order[p - 1]];
      load.Add(unit);
      while (!largest.empty() && graph.units[order[largest.back()]].workspace_bytes <= unit.workspace_bytes) largest.pop_back();
      largest.push_back(p - 1);
      auto fits = [&] {
        load.workspace_bytes = largest.empty() ? 0 : graph.units[order[largest.front()]].workspace_bytes;
        return load.Memory(limits.memory.InFlight(part, k)) <= limits.MaxMemory(part);
      };
      for (; low < p && !fits(); ++low) {
        const auto& gone = graph.units[order[low]];
        load.state_bytes -= gone.state_bytes;
        load.saved_bytes -= gone.saved_bytes;
        if (largest.front() == low) largest.pop_front();
      }
      lowest[part][p] = low;
    }
  }
  return lowest;
}

}  // namespace

double BottleneckSeconds(const UnitGraph& graph, const std::vector<int>& part_of, const PartSpeeds& speeds) {
  const int k = static_cast<int>(speeds.flops.size());
  std::vector<std::int64_t> work(k, 0), boundary(k + 1, 0);  // boundary[b]: before part b
  for (int u = 0; u < graph.size(); ++u) work[part_of[u]] += graph.units[u].work;
  for (const auto& tensor : graph.tensors) {
    int last = part_of[tensor.producer];
    for (int reader : tensor.readers) last = std::max(last, part_of[reader]);
    for (int b = part_of[tensor.producer] + 1; b <= last; ++b) boundary[b] += tensor.capacity;
  }
  double slowest = 0;
  for (int part = 0; part < k; ++part)
    slowest = std::max(slowest, speeds.Seconds(part, work[part], boundary[part] + boundary[part + 1]));
  return slowest;
}

std::optional<std::vector<int>> CutOrderForTime(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                                const PartSpeeds& speeds) {
  const int n = graph.size(), k = limits.num_parts;
  if (n < k) return std::nullopt;
  const std::vector<std::int64_t> alive = AliveBytes(graph, order);
  std::vector<std::int64_t> work(n + 1, 0);
  for (int p = 0; p < n; ++p) work[p + 1] = work[p] + graph.units[order[p]].work;
  const auto lowest = LowestBeginnings(graph, order, limits);

  // Part j may be [i, p) within t seconds iff work[p]/f + alive[p]/b <= t + work[i]/f - alive[i]/b: of all reachable i in the
  // memory window the one with the greatest right side decides.
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(n + 1, -1));
  auto feasible = [&](double t) {
    std::vector<char> reached(n + 1, 0), next(n + 1);
    reached[0] = 1;
    for (int j = 0; j < k; ++j) {
      auto right = [&](int i) {
        return static_cast<double>(work[i]) / speeds.flops[j] - static_cast<double>(alive[i]) / speeds.bandwidth[j];
      };
      std::fill(next.begin(), next.end(), 0);
      std::deque<int> best;  // beginnings by falling right side
      for (int p = 1; p <= n; ++p) {
        if (reached[p - 1]) {
          while (!best.empty() && right(best.back()) <= right(p - 1)) best.pop_back();
          best.push_back(p - 1);
        }
        while (!best.empty() && best.front() < lowest[j][p]) best.pop_front();
        if (best.empty()) continue;
        const int i = best.front();
        if (speeds.Seconds(j, work[p] - work[i], alive[i] + alive[p]) > t) continue;
        next[p] = 1;
        from[j + 1][p] = i;
      }
      std::swap(reached, next);
    }
    return reached[n] != 0;
  };
  double high = 0;
  for (int j = 0; j < k; ++j)
    high = std::max(high, speeds.Seconds(j, work[n], 2 * *std::max_element(alive.begin(), alive.end())));
  if (!feasible(high)) return std::nullopt;
  double low = 0;
  for (int step = 0; step < 60 && high - low > 1e-12 * high; ++step) {
    const double middle = (low + high) / 2;
    (feasible(middle) ? high : low) = middle;
  }
  feasible(high);
  return PartsOfOrder(order, from);
}

}  // namespace weir::partitioner
