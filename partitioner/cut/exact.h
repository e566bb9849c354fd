// The cheapest k-part cut, exactly, by dynamic programming over down-sets (sets of units closed under predecessors): a chain of k
// nested down-sets is a partition. Most networks have a few hundred down-sets; branchy ones have too many and are given up.
#ifndef WEIR_PARTITIONER_CUT_EXACT_H_
#define WEIR_PARTITIONER_CUT_EXACT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cut/bottleneck.h"
#include "partitioner/cut/limits.h"
#include "partitioner/cut/objective.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

class DownSets {
 public:
  static constexpr int kMaxUnits = 2000;
  static constexpr int kMaxSets = 20'000;

  // Enumerates; complete() is false where there are more than kMaxSets or units than kMaxUnits.
  explicit DownSets(const UnitGraph& graph);
  bool complete() const { return complete_; }
  int size() const { return static_cast<int>(work_.size()); }

  struct Answer {
    bool proven = false;                      // no cut within the limits is below the bound, or `part_of` is a cheapest one
    std::optional<std::vector<int>> part_of;  // by unit, no part empty; below the bound
  };
  // Looks for a cut that costs less than `bound` (of the objective kVolume or kHops; int64's largest: any). Not proven where the
  // search would take more than some tenths of a second: the nearer the bound, the less there is to search.
  // REQUIRES: complete().
  Answer CutBelow(std::int64_t bound, const Limits& limits, CutObjective objective) const;
  // The same for kTime, in seconds. limits.max_work is not looked at.
  Answer CutBelow(double seconds, const Limits& limits, const PartSpeeds& speeds) const;

 private:
  const std::uint64_t* Set(int i) const { return words_.data() + static_cast<std::size_t>(i) * stride_; }
  static bool Has(const std::uint64_t* set, int unit) { return set[unit / 64] >> (unit % 64) & 1; }
  bool Nested(int inner, int outer) const;
  Load LoadBetween(int inner, int outer) const;
  std::int64_t Incoming(int inner, int outer) const;  // by volume
  std::vector<int> Parts(const std::vector<std::vector<int>>& from, int num_parts) const;

  const UnitGraph& graph_;
  bool complete_ = false;
  std::size_t stride_ = 0;
  std::vector<std::uint64_t> words_;  // by number of members, the empty set first, the whole last
  std::vector<std::int64_t> work_;    // by set
  std::vector<std::int64_t> alive_;   // by set: bytes of the tensors that are made inside and read outside
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_EXACT_H_
