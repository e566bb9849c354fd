#include "partitioner/torchscript/dropout.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "env/core/philox.h"

namespace weir::partitioner {
namespace {

DeviceMaskFill g_device_fill = nullptr;
thread_local const RecordedSeeds* t_recorded = nullptr;

void Fill(float* mask, std::int64_t count, double p, std::uint64_t seed) {
  const std::uint32_t threshold = DropThreshold(p);
  const float kept = p < 1 ? static_cast<float>(1 / (1 - p)) : 0;
  for (std::int64_t i = 0; i < count; i += 4) {
    const Philox4 words = PhiloxBlock(seed, static_cast<std::uint64_t>(i) / 4);
    const std::int64_t n = std::min<std::int64_t>(4, count - i);
    for (std::int64_t k = 0; k < n; ++k) mask[i + k] = words.v[k] >= threshold ? kept : 0;
  }
}

}  // namespace

void SetDeviceMaskFill(DeviceMaskFill fill) {
  g_device_fill = fill;
}

void SetRecordedSeeds(const RecordedSeeds* seeds) {
  t_recorded = seeds;
}

at::Tensor DropoutMask(at::IntArrayRef shape, double p, std::uint64_t seed, const at::Device& device) {
  if (!device.is_cpu() && g_device_fill) {
    at::Tensor mask = at::empty(shape, at::TensorOptions(at::kFloat).device(device));
    const std::uint64_t* device_seed = nullptr;
    if (t_recorded) device_seed = t_recorded->device_seeds + t_recorded->slot.at(seed);
    g_device_fill(mask.data_ptr<float>(), mask.numel(), p, seed, device_seed, device.index());
    return mask;
  }
  at::Tensor mask = at::empty(shape);
  Fill(mask.data_ptr<float>(), mask.numel(), p, seed);
  return device.is_cpu() ? mask : mask.to(device);
}

}  // namespace weir::partitioner
