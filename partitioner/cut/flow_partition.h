// Parts by maximum flow: recursive bisection, each cut steered into its balance window by merging the light side plus frontier
// units into its terminal and cutting again, on one network; then refinement of adjacent pairs of parts until none gains.
#ifndef WEIR_PARTITIONER_CUT_FLOW_PARTITION_H_
#define WEIR_PARTITIONER_CUT_FLOW_PARTITION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cut/limits.h"
#include "partitioner/cut/objective.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

// The objective is kVolume or kHops in all of these. `order`: a topological order of all units; sides grow along it, so
// different orders find different cuts.

// How recursive bisection divides the parts: in halves, or the first (last) part from all others.
enum class Splits { kHalves, kFirst, kLast };

// Part by unit, within `limits`; nullopt where bisection found none (there may be one all the same).
std::optional<std::vector<int>> BisectByFlow(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                             CutObjective objective, Splits splits = Splits::kHalves);

// Re-solves the cut between parts i and i + 1 for all i, over and over, while the cost falls. The other parts stay as they are,
// so the quotient stays acyclic. Never makes it worse, never leaves `limits`. Returns whether anything changed.
bool RefineByFlow(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits, CutObjective objective,
                  std::vector<int>* part_of);

// How often a tensor is paid under an objective: once for each foreign part that reads it, or for each part boundary it passes.
std::int64_t Crossings(int producer, const std::vector<int>& readers, const std::vector<int>& part_of, CutObjective objective);

// Bytes that cross, by objective.
std::int64_t UnitCutBytes(const UnitGraph& graph, const std::vector<int>& part_of, CutObjective objective);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_FLOW_PARTITION_H_
