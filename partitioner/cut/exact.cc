#include "partitioner/cut/exact.h"

#include <algorithm>
#include <limits>
#include <map>

#include "env/core/check.h"

namespace weir::partitioner {
namespace {

constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxSteps = 400'000'000;  // pairs looked at, and words or units touched for them

}  // namespace

DownSets::DownSets(const UnitGraph& graph) : graph_(graph) {
  const int n = graph.size();
  if (n == 0 || n > kMaxUnits) return;
  stride_ = (n + 63) / 64;
  using Bits = std::vector<std::uint64_t>;
  // Level by level: all down-sets of m members, then those of m + 1. A map keeps the order reproducible.
  std::map<Bits, std::int64_t> level = {{Bits(stride_, 0), 0}};
  while (!level.empty()) {
    if (work_.size() + level.size() > kMaxSets) return;
    std::map<Bits, std::int64_t> next;
    for (const auto& entry : level) {
      const Bits& set = entry.first;
      const std::int64_t work = entry.second;
      words_.insert(words_.end(), set.begin(), set.end());
      work_.push_back(work);
      for (int u = 0; u < n; ++u) {
        if (Has(set.data(), u)) continue;
        const auto& before = graph.units[u].predecessors;
        if (!std::all_of(before.begin(), before.end(), [&](int p) { return Has(set.data(), p); })) continue;
        Bits larger = set;
        larger[u / 64] |= std::uint64_t{1} << (u % 64);
        next.emplace(std::move(larger), work + graph.units[u].work);
        if (work_.size() + next.size() > kMaxSets) return;
      }
    }
    level = std::move(next);
  }
  complete_ = true;
  alive_.assign(size(), 0);
  for (int i = 0; i < size(); ++i) {
    const std::uint64_t* set = Set(i);
    for (const auto& tensor : graph.tensors) {
      if (!Has(set, tensor.producer)) continue;
      if (std::any_of(tensor.readers.begin(), tensor.readers.end(), [&](int r) { return !Has(set, r); }))
        alive_[i] += tensor.capacity;
    }
  }
}

bool DownSets::Nested(int inner, int outer) const {
  const std::uint64_t *a = Set(inner), *b = Set(outer);
  for (std::size_t w = 0; w < stride_; ++w) {
    if (a[w] & ~b[w]) return false;
  }
  return true;
}

Load DownSets::LoadBetween(int inner, int outer) const {
  Load load;
  for (int u = 0; u < graph_.size(); ++u) {
    if (Has(Set(outer), u) && !Has(Set(inner), u)) load.Add(graph_.units[u]);
  }
  return load;
}

std::int64_t DownSets::Incoming(int inner, int outer) const {
  const std::uint64_t *in = Set(inner), *out = Set(outer);
  std::int64_t bytes = 0;
  for (const auto& tensor : graph_.tensors) {
    if (!Has(in, tensor.producer)) continue;
    if (std::any_of(tensor.readers.begin(), tensor.readers.end(), [&](int r) { return !Has(in, r) && Has(out, r); })) {
      bytes += tensor.capacity;
    }
  }
  return bytes;
}

std::vector<int> DownSets::Parts(const std::vector<std::vector<int>>& from, int num_parts) const {
  std::vector<int> part_of(graph_.size());
  for (int part = num_parts, j = size() - 1; part > 0; --part) {
    const int i = from[part][j];
    for (int u = 0; u < graph_.size(); ++u) {
      if (Has(Set(j), u) && !Has(Set(i), u)) part_of[u] = part - 1;
    }
    j = i;
  }
  return part_of;
}

DownSets::Answer DownSets::CutBelow(std::int64_t bound, const Limits& limits, CutObjective objective) const {
  WEIR_CHECK(complete_ && objective != CutObjective::kTime);
  const int k = limits.num_parts, last = size() - 1;
  const bool memory = limits.HasMemory();
  // What is alive at a boundary is paid there or later, so a dearer boundary is in no cut below the bound.
  std::vector<int> sets;
  for (int i = 0; i <= last; ++i) {
    if (alive_[i] < bound) sets.push_back(i);
  }
  const std::int64_t largest_cap = *std::max_element(limits.max_work.begin(), limits.max_work.end());
  std::vector<std::vector<std::int64_t>> cost(k + 1, std::vector<std::int64_t>(size(), kInfinite));
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(size(), -1));
  cost[0][0] = 0;
  std::int64_t steps = 0;
  for (std::size_t a = 0; a < sets.size(); ++a) {
    const int i = sets[a];
    bool reachable = false;
    for (int part = 0; part < k; ++part)
      reachable = reachable || (cost[part][i] != kInfinite && cost[part][i] < bound - alive_[i]);
    if (!reachable) continue;
    for (std::size_t b = a + 1; b < sets.size(); ++b) {
      const int j = sets[b];
      ++steps;
      if (work_[j] - work_[i] > largest_cap || work_[j] < work_[i] || !Nested(i, j)) continue;
      steps += static_cast<std::int64_t>(stride_);
      // The cheapest that this pair can be: hops pay all that is alive at i.
      bool gains = false;
      for (int part = 0; part < k; ++part) {
        if (cost[part][i] == kInfinite || (j == last) != (part == k - 1)) continue;
        const std::int64_t least = cost[part][i] + (objective == CutObjective::kHops ? alive_[i] : 0);
        gains = gains || (least < cost[part + 1][j] && least < bound - (objective == CutObjective::kHops ? alive_[j] : 0));
      }
      if (!gains) continue;
      Load load;
      load.work = work_[j] - work_[i];
      if (memory) {
        load = LoadBetween(i, j);
        steps += graph_.size();
      }
      std::int64_t incoming = alive_[i];
      if (objective == CutObjective::kVolume && j != last) {
        incoming = Incoming(i, j);
        steps += static_cast<std::int64_t>(graph_.tensors.size());
      }
      for (int part = 0; part < k; ++part) {
        if (cost[part][i] == kInfinite || (j == last) != (part == k - 1) || !limits.Fits(load, part)) continue;
        if (cost[part][i] + incoming < cost[part + 1][j]) {
          cost[part + 1][j] = cost[part][i] + incoming;
          from[part + 1][j] = i;
        }
      }
    }
    if (steps > kMaxSteps) return {};
  }
  if (cost[k][last] >= bound) return {true, std::nullopt};
  return {true, Parts(from, k)};
}

DownSets::Answer DownSets::CutBelow(double bound, const Limits& limits, const PartSpeeds& speeds) const {
  WEIR_CHECK(complete_);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const int k = limits.num_parts, last = size() - 1;
  const bool memory = limits.HasMemory();
  std::vector<std::vector<double>> cost(k + 1, std::vector<double>(size(), kNever));
  std::vector<std::vector<int>> from(k + 1, std::vector<int>(size(), -1));
  cost[0][0] = 0;
  // By the bandwidths of all parts: what passes a boundary costs at least this much.
  const double best_bandwidth = *std::max_element(speeds.bandwidth.begin(), speeds.bandwidth.end());
  std::vector<int> sets;
  for (int i = 0; i <= last; ++i) {
    if (static_cast<double>(alive_[i]) / best_bandwidth < bound) sets.push_back(i);
  }
  std::int64_t steps = 0;
  for (std::size_t a = 0; a < sets.size(); ++a) {
    const int i = sets[a];
    bool reachable = false;
    for (int part = 0; part < k; ++part) reachable = reachable || cost[part][i] < bound;
    if (!reachable) continue;
    for (std::size_t b = a + 1; b < sets.size(); ++b) {
      const int j = sets[b];
      ++steps;
      if (work_[j] < work_[i]) continue;
      std::vector<double> seconds(k);
      bool gains = false;
      for (int part = 0; part < k; ++part) {
        seconds[part] = kNever;
        if (cost[part][i] >= bound || (j == last) != (part == k - 1)) continue;
        seconds[part] = std::max(cost[part][i], speeds.Seconds(part, work_[j] - work_[i], alive_[i] + alive_[j]));
        gains = gains || (seconds[part] < cost[part + 1][j] && seconds[part] < bound);
      }
      if (!gains || !Nested(i, j)) continue;
      steps += static_cast<std::int64_t>(stride_);
      Load load;
      if (memory) {
        load = LoadBetween(i, j);
        steps += graph_.size();
      }
      load.work = 0;
      for (int part = 0; part < k; ++part) {
        if (seconds[part] >= bound || seconds[part] >= cost[part + 1][j] || !limits.Fits(load, part)) continue;
        cost[part + 1][j] = seconds[part];
        from[part + 1][j] = i;
      }
    }
    if (steps > kMaxSteps) return {};
  }
  if (cost[k][last] >= bound) return {true, std::nullopt};
  return {true, Parts(from, k)};
}

}  // namespace weir::partitioner
