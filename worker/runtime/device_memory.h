// What only the backend of an accelerator can tell or set; on the CPU nothing happens and nothing is known.
#ifndef WEIR_WORKER_RUNTIME_DEVICE_MEMORY_H_
#define WEIR_WORKER_RUNTIME_DEVICE_MEMORY_H_

#include <c10/core/Device.h>

namespace weir::worker {

// Once, before anything runs there. `memory_bytes`: the most that LibTorch's allocator takes on the device; 0: no limit.
void PrepareDevice(const at::Device& device, double memory_bytes);

// Bytes of tensors on the device at most, since the process began; 0 on the CPU.
double PeakDeviceBytes(const at::Device& device);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_DEVICE_MEMORY_H_
