#include "env/core/philox.h"
#include "worker/kernels/dropout_mask.h"

namespace weir::kernels {
namespace {

// Grid-stride over blocks of four words.
__global__ void Fill(float* mask, std::int64_t count, std::uint32_t threshold, float kept, std::uint64_t seed,
                     const std::uint64_t* device_seed) {
  if (device_seed) seed = *device_seed;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; 4 * b < count; b += step) {
    const Philox4 words = PhiloxBlock(seed, static_cast<std::uint64_t>(b));
    if (4 * b + 4 <= count) {
      float4 four;
      four.x = words.v[0] >= threshold ? kept : 0.f;
      four.y = words.v[1] >= threshold ? kept : 0.f;
      four.z = words.v[2] >= threshold ? kept : 0.f;
      four.w = words.v[3] >= threshold ? kept : 0.f;
      reinterpret_cast<float4*>(mask)[b] = four;
    } else {
      for (int k = 0; 4 * b + k < count; ++k) mask[4 * b + k] = words.v[k] >= threshold ? kept : 0.f;
    }
  }
}

}  // namespace

cudaError_t FillDropoutMask(float* mask, std::int64_t count, double p, std::uint64_t seed, const std::uint64_t* device_seed,
                            cudaStream_t stream) {
  if (count <= 0) return cudaSuccess;
  constexpr int kThreads = 256;
  const std::int64_t blocks = (count / 4 + kThreads) / kThreads;
  const float kept = p < 1 ? static_cast<float>(1 / (1 - p)) : 0.f;
  Fill<<<static_cast<int>(blocks < 4096 ? blocks : 4096), kThreads, 0, stream>>>(mask, count, DropThreshold(p), kept, seed,
                                                                                 device_seed);
  return cudaGetLastError();
}

}  // namespace weir::kernels
