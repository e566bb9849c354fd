// A lower bound on the bytes of any k-part cut within the limits: what certifies a plan where the down-sets are too many to try.
#ifndef WEIR_PARTITIONER_CUT_LOWER_BOUND_H_
#define WEIR_PARTITIONER_CUT_LOWER_BOUND_H_

#include <cstdint>

#include "partitioner/cut/limits.h"
#include "partitioner/cut/objective.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

// Each boundary between parts is a cut whose source side holds at least what the later parts can't, and at most what the earlier
// ones can. Units that this forces to a side (their ancestors or descendants are too heavy) are pinned, the rest of the condition
// is priced by a Lagrangian multiplier on work; each value of it gives a valid bound, from one minimum cut.
// Hops: the sum over boundaries. Volume: the greatest of them (a tensor that passes two is paid once at least). Memory isn't
// used. 0 above kMaxBoundedUnits units (the closure takes O(n^2) bits). REQUIRES: objective kVolume or kHops.
inline constexpr int kMaxBoundedUnits = 4000;
std::int64_t CutLowerBound(const UnitGraph& graph, const Limits& limits, CutObjective objective);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_LOWER_BOUND_H_
