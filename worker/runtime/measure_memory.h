// How much memory a training pass really takes beside weights, gradients and optimiser states: measured, because what LibTorch
// keeps for the backward pass and what its kernels take in between can't be read off the graph.
#ifndef WEIR_WORKER_RUNTIME_MEASURE_MEMORY_H_
#define WEIR_WORKER_RUNTIME_MEASURE_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weir::worker {

// Bytes that live at most in a forward and backward pass of `batch` samples on the CPU, above the weights and less their
// gradients. Up to eight samples are run; for more, four and eight are, and the line through them holds (memory is affine in the
// batch). With `accumulates`, the gradients of an earlier micro-batch are there from the beginning.
double MeasureActivationBytes(const std::string& content, const std::string& name, std::int64_t batch,
                              const std::vector<std::int64_t>& sample_shape, bool accumulates);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_MEASURE_MEMORY_H_
