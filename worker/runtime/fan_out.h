// Copies one activation to several readers so that the sum of their gradients has a fixed order.
#ifndef WEIR_WORKER_RUNTIME_FAN_OUT_H_
#define WEIR_WORKER_RUNTIME_FAN_OUT_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace weir::worker {

// `count` aliases of `tensor` (no copy of data). Backward adds the gradients of the aliases from the last to the first, skipping
// those without one: LibTorch's own order for a chain of readers, but here it doesn't depend on which process a reader runs in.
// Floating-point sums aren't associative: without this, a partitioned run would differ from a whole one in the last bits.
std::vector<at::Tensor> FanOut(const at::Tensor& tensor, int count);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_FAN_OUT_H_
