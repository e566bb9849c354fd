// Reads PipeDream-style text profiles: operator graphs with measured times in place of counts.
//   node12 -- Conv2d(88, 88, kernel_size=(3, 3)) -- forward_compute_time=0.306, backward_compute_time=0.229,
//       activation_size=8830976.000, parameter_size=3168.000                  (one line; ms and bytes)
//   <tab>node11 -- node12                                                     (node12 reads node11's output)
// Fields by name, in any order; lines in any order; blank lines and lines that start with # are skipped. A size may be a list
// [a; b]: its sum counts. In the graph, work is in nanoseconds (OperatorGraph::measured); the time of a node without
// predecessors and without parameters whose kind starts with "Input" is data loading and isn't counted.
#ifndef WEIR_PARTITIONER_PROFILE_TEXT_PROFILE_H_
#define WEIR_PARTITIONER_PROFILE_TEXT_PROFILE_H_

#include <string>
#include <string_view>

#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

// Throws Error(kInvalid) "PATH:LINE: ..." for a line of neither form, a missing, negative or non-numeric field, a node defined
// twice, an arc to an unknown node, a cycle (by the nodes on it), or a file without nodes.
OperatorGraph ParseTextProfile(std::string_view text, const std::string& path);
OperatorGraph LoadTextProfile(const std::string& path);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_PROFILE_TEXT_PROFILE_H_
