// Cuts a topological order of the units into k consecutive parts at least cost, by dynamic programming. Optimal for its order,
// and finds a plan wherever that order has one.
#ifndef WEIR_PARTITIONER_CUT_ORDER_DP_H_
#define WEIR_PARTITIONER_CUT_ORDER_DP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cut/limits.h"
#include "partitioner/cut/objective.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

// By position p: bytes of the tensors made before p and read at or after it, the hop cost of cutting there. Size n + 1.
std::vector<std::int64_t> AliveBytes(const UnitGraph& graph, const std::vector<int>& order);

// Part by unit, from where each part of a cut order begins: from[j][end] is the beginning of part j - 1 where it ends at `end`.
std::vector<int> PartsOfOrder(const std::vector<int>& order, const std::vector<std::vector<int>>& from);

// Part by unit, no part empty, every part within `limits`; nullopt where the order has no such cut.
// Volume costs O(n · window), window = the units that fit one part; beyond kMaxVolumeWork steps the hop cost steers instead.
std::optional<std::vector<int>> CutOrder(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                         CutObjective objective);

// Topological orders to try: as numbered, depth first, as late as possible, and a few with random priorities (fixed seed) where
// the graph is small enough for them to be cheap.
std::vector<std::vector<int>> TopologicalOrders(const UnitGraph& graph);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_ORDER_DP_H_
