// What a cut into parts costs.
#ifndef WEIR_PARTITIONER_CUT_OBJECTIVE_H_
#define WEIR_PARTITIONER_CUT_OBJECTIVE_H_

namespace weir::partitioner {

enum class CutObjective {
  kVolume,  // bytes; a tensor is paid once for each foreign part that reads it: direct sends between any two workers
  kHops,    // bytes; a tensor is paid at each part boundary it passes: neighbour-only sends
  kTime,    // seconds of the slowest part: work / speed + (bytes that pass its two boundaries) / bandwidth
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_OBJECTIVE_H_
