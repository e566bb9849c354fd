// CUDA twin of partitioner/torchscript/dropout.cc: the same mask, bit for bit.
#ifndef WEIR_WORKER_KERNELS_DROPOUT_MASK_H_
#define WEIR_WORKER_KERNELS_DROPOUT_MASK_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace weir::kernels {

// mask[i] = 0 or 1 / (1 - p), i in [0, count): kept where word i of the Philox stream `seed` is at least p * 2^32. Device memory;
// asynchronous on `stream`. `device_seed`: where to read the seed from when the kernel runs; null: `seed`. Returns what the
// launch returned.
cudaError_t FillDropoutMask(float* mask, std::int64_t count, double p, std::uint64_t seed, const std::uint64_t* device_seed,
                            cudaStream_t stream);

}  // namespace weir::kernels

#endif  // WEIR_WORKER_KERNELS_DROPOUT_MASK_H_
