// Memory that training a part takes on a worker:
//   parameter bytes x (1 weight + 1 gradient + optimiser states) + buffers + saved activations x micro-batches in flight +
//   workspace.
// Under 1F1B, part i of k keeps min(k - i, micro_batches) micro-batches in flight. The graph's batch is one micro-batch.
#ifndef WEIR_PARTITIONER_CUT_MEMORY_MODEL_H_
#define WEIR_PARTITIONER_CUT_MEMORY_MODEL_H_

#include <algorithm>
#include <cstdint>

namespace weir::partitioner {

struct MemoryModel {
  int micro_batches = 1;     // per iteration, >= 1
  int optimizer_states = 1;  // copies of the parameters kept by the optimiser: SGD 0, momentum 1, Adam 2

  bool gpipe = false;  // all forward passes before the first backward pass: every micro-batch is kept

  int InFlight(int part, int num_parts) const { return gpipe ? micro_batches : std::min(num_parts - part, micro_batches); }
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_MEMORY_MODEL_H_
