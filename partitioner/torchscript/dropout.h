// Dropout whose mask is a pure function of (seed, element): the same on every device and however the model is cut. Element i of
// the tensor in row-major order is kept where word i of the Philox stream `seed` is at least p * 2^32, and then divided by 1 - p.
#ifndef WEIR_PARTITIONER_TORCHSCRIPT_DROPOUT_H_
#define WEIR_PARTITIONER_TORCHSCRIPT_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace weir::partitioner {

// float [shape] on `device`: 0 or 1 / (1 - p). REQUIRES: p in [0, 1].
at::Tensor DropoutMask(at::IntArrayRef shape, double p, std::uint64_t seed, const at::Device& device);

// What fills `count` elements of a mask on a device other than the CPU; null: made on the CPU and copied. Where `device_seed`
// isn't null the seed is read from there when the kernel runs. Set once, at start.
using DeviceMaskFill = void (*)(float* mask, std::int64_t count, double p, std::uint64_t seed, const std::uint64_t* device_seed,
                                int device_index);
void SetDeviceMaskFill(DeviceMaskFill fill);

// For work that is recorded and replayed: a seed that stands in `slot` is read from device_seeds[slot] at each replay.
struct RecordedSeeds {
  const std::uint64_t* device_seeds = nullptr;
  std::unordered_map<std::uint64_t, std::int64_t> slot;
};
// Of this thread's masks from now on; null: seeds are what they are.
void SetRecordedSeeds(const RecordedSeeds* seeds);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_TORCHSCRIPT_DROPOUT_H_
