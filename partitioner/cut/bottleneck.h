// The objective kTime: seconds of the slowest part,
//   max over parts p of  work_p / flops_p + (bytes that pass the boundary before p + after p) / bandwidth_p.
// plus the latency of its messages: one each way over each of its boundaries. Bytes as in kHops: a tensor passes every boundary
// between its producer and its last reader. For k = 1 it is work / flops.
#ifndef WEIR_PARTITIONER_CUT_BOTTLENECK_H_
#define WEIR_PARTITIONER_CUT_BOTTLENECK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cut/limits.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

struct PartSpeeds {
  std::vector<double> flops;      // FLOP/s by part, > 0
  std::vector<double> bandwidth;  // bytes/s by part, > 0
  std::vector<double> waiting;    // seconds by part, whatever is sent: latencies; empty: 0

  double Seconds(int part, std::int64_t work, std::int64_t bytes) const {
    return static_cast<double>(work) / flops[part] + static_cast<double>(bytes) / bandwidth[part] +
           (waiting.empty() ? 0 : waiting[part]);
  }
};

double BottleneckSeconds(const UnitGraph& graph, const std::vector<int>& part_of, const PartSpeeds& speeds);

// Cuts a topological order into k consecutive, non-empty parts of least bottleneck; optimal for its order. limits.max_work is not
// looked at. nullopt where memory leaves no cut of this order. O(k · n) for each of about 60 trial values.
std::optional<std::vector<int>> CutOrderForTime(const UnitGraph& graph, const std::vector<int>& order, const Limits& limits,
                                                const PartSpeeds& speeds);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_BOTTLENECK_H_
