// The cheapest k-part cut, exactly, by dynamic programming over down-sets (sets of units closed under predecessors): a chain of k
// nested down-sets is a partition. Most networks have a few hundred down-sets; branchy ones have too many and are given up.
#ifndef WEIR_PARTITIONER_CUT_EXACT_H_
#define WEIR_PARTITIONER_CUT_EXACT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cut/partition.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

class DownSets {
 public:
  static constexpr int kMaxUnits = 1000;
  static constexpr int kMaxSets = 2000;

  // Enumerates; complete() is false where there are more than kMaxSets or units than kMaxUnits.
  explicit DownSets(const UnitGraph& graph);
  bool complete() const { return complete_; }
  int size() const { return static_cast<int>(sets_.size()); }
  // True where CutExactly takes a few ten milliseconds at most.
  bool Affordable(int num_parts) const;

  // Part by unit of a cheapest cut within `limits`, no part empty; nullopt where there is none. REQUIRES: complete().
  std::optional<std::vector<int>> CutExactly(const Limits& limits, CutObjective objective) const;

 private:
  using Bits = std::vector<std::uint64_t>;
  static bool Has(const Bits& set, int unit) { return set[unit / 64] >> (unit % 64) & 1; }
  std::int64_t Crossing(const Bits& inner, const Bits& outer, CutObjective objective) const;

  const UnitGraph& graph_;
  bool complete_ = false;
  std::vector<Bits> sets_;          // by number of members, the empty set first, the whole last
  std::vector<std::int64_t> work_;  // by set
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_EXACT_H_
