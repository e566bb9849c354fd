#include "partitioner/cut/exact.h"

#include <algorithm>
#include <limits>
#include <set>

#include "env/core/check.h"

namespace weir::partitioner {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxSteps = 100'000'000;

}  // namespace

DownSets::DownSets(const UnitGraph& graph) : graph_(graph) {
  const int n = graph.size();
  if (n == 0 || n > kMaxUnits) return;
  // Level by level: all down-sets of m members, then those of m + 1. std::set keeps the order reproducible.
  std::set<Bits> level = {Bits((n + 63) / 64, 0)};
  while (!level.empty()) {
    std::set<Bits> next;
    for (const Bits& set : level) {
      std::int64_t work = 0;
      for (int u = 0; u < n; ++u) {
        if (Has(set, u)) {
          work += graph.units[u].work;
          continue;
        }
        const auto& before = graph.units[u].predecessors;
        if (!std::all_of(before.begin(), before.end(), [&](int p) { return Has(set, p); })) continue;
        Bits larger = set;
        larger[u / 64] |= std::uint64_t{1} << (u % 64);
        next.insert(std::move(larger));
      }
      sets_.push_back(set);
      work_.push_back(work);
    }
    if (static_cast<int>(sets_.size() + next.size()) > kMaxSets) return;
    level = std::move(next);
  }
  complete_ = true;
}

bool DownSets::Affordable(int num_parts) const {
  const std::int64_t pairs = static_cast<std::int64_t>(size()) * size();
  return complete_ && pairs * static_cast<std::int64_t>(graph_.tensors.size() + graph_.units.size()) / num_parts < kMaxSteps;
}

// Volume: what the part outer - inner receives from inner. Hops: what is alive across the boundary of inner.
std::int64_t DownSets::Crossing(const Bits& inner, const Bits& outer, CutObjective objective) const {
  std::int64_t bytes = 0;
  for (const auto& tensor : graph_.tensors) {
    if (!Has(inner, tensor.producer)) continue;
    for (int reader : tensor.readers) {
      if (Has(inner, reader) || (objective == CutObjective::kVolume && !Has(outer, reader))) continue;
      bytes += tensor.capacity;
      break;
    }
  }
  return bytes;
}

std::optional<std::vector<int>> DownSets::CutExactly(const Limits& limits, CutObjective objective) const {
  WEIR_CHECK(complete_);
  const int k = limits.num_parts, count = size();
  std::vector<std::vector<std::int64_t>> cost(k + 1, std::vector<std::int64_t>(count, kInfinite));
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(count, -1));
  cost[0][0] = 0;
  for (int i = 0; i < count; ++i) {
    bool reachable = false;
    for (int part = 0; part < k; ++part) reachable = reachable || cost[part][i] != kInfinite;
    if (!reachable) continue;
    const std::int64_t hops = objective == CutObjective::kHops ? Crossing(sets_[i], sets_[i], objective) : 0;
    for (int j = i + 1; j < count; ++j) {
      if (work_[j] - work_[i] > limits.max_work || work_[j] < work_[i]) continue;
      bool nested = true;
      for (std::size_t w = 0; nested && w < sets_[i].size(); ++w) nested = (sets_[i][w] & ~sets_[j][w]) == 0;
      if (!nested) continue;
      Load load;
      if (limits.max_memory > 0) {
        for (int u = 0; u < graph_.size(); ++u) {
          if (Has(sets_[j], u) && !Has(sets_[i], u)) load.Add(graph_.units[u]);
        }
      }
      const std::int64_t incoming = objective == CutObjective::kVolume ? Crossing(sets_[i], sets_[j], objective) : hops;
      for (int part = 0; part < k; ++part) {
        if (cost[part][i] == kInfinite || !limits.Fits(load, part)) continue;
        if (cost[part][i] + incoming < cost[part + 1][j]) {
          cost[part + 1][j] = cost[part][i] + incoming;
          from[part + 1][j] = i;
        }
      }
    }
  }
  if (cost[k][count - 1] == kInfinite) return std::nullopt;
  std::vector<int> part_of(graph_.size());
  for (int part = k, j = count - 1; part > 0; --part) {
    const int i = from[part][j];
    for (int u = 0; u < graph_.size(); ++u) {
      if (Has(sets_[j], u) && !Has(sets_[i], u)) part_of[u] = part - 1;
    }
    j = i;
  }
  return part_of;
}

}  // namespace weir::partitioner
