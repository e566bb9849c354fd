#include "worker/runtime/device_memory.h"

#ifdef WEIR_CUDA
#include <ATen/Functions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "partitioner/torchscript/dropout.h"
#include "worker/kernels/dropout_mask.h"
#endif

namespace weir::worker {

#ifdef WEIR_CUDA

void PrepareDevice(const at::Device& device, double memory_bytes) {
  if (!device.is_cuda()) return;
  partitioner::SetDeviceMaskFill(
      [](float* mask, std::int64_t count, double p, std::uint64_t seed, const std::uint64_t* device_seed, int index) {
        const auto device_index = static_cast<c10::DeviceIndex>(index);
        const c10::cuda::CUDAGuard guard(device_index);
        C10_CUDA_CHECK(
            kernels::FillDropoutMask(mask, count, p, seed, device_seed, c10::cuda::getCurrentCUDAStream(device_index).stream()));
      });
  if (memory_bytes <= 0) return;
  (void)at::empty({1}, at::TensorOptions(device));  // sets the allocator up
  std::size_t free = 0, total = 0;
  const c10::cuda::CUDAGuard guard(device);
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, memory_bytes / static_cast<double>(total)), device.index());
}

double PeakDeviceBytes(const at::Device& device) {
  if (!device.is_cuda()) return 0;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return static_cast<double>(stats.allocated_bytes[0].peak);
}

#else

void PrepareDevice(const at::Device&, double) {}
double PeakDeviceBytes(const at::Device&) {
  return 0;
}

#endif

}  // namespace weir::worker
