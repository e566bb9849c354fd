// Copies one activation to several readers so that the sum of their gradients has a fixed order.
#ifndef WEIR_WORKER_RUNTIME_FAN_OUT_H_
#define WEIR_WORKER_RUNTIME_FAN_OUT_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace weir::worker {

// `count` aliases of `tensor` (no copy of data; >= 1; one: the tensor itself). Backward adds the gradients of the aliases from
// the last to the first, skipping those without one: LibTorch's own order for a chain of readers, but here it doesn't depend on
// which process a reader runs in. Each gradient first takes the tensor's own memory layout, as it has when it comes from another
// process (a leaf's .grad). Floating-point sums aren't associative, and kernels add in an order that follows the layout: without
// both, a partitioned run would differ from a whole one in the last bits. REQUIRES: the tensor is dense (see DenseLayout).
std::vector<at::Tensor> FanOut(const at::Tensor& tensor, int count);

// `tensor` itself where its elements fill its memory without gaps or overlap, else a contiguous copy (differentiable): what can
// be sent without changing its layout.
at::Tensor DenseLayout(const at::Tensor& tensor);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_FAN_OUT_H_
