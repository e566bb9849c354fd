// Brings a lowered model to the device that it runs on.
#ifndef WEIR_WORKER_RUNTIME_MODEL_DEVICE_H_
#define WEIR_WORKER_RUNTIME_MODEL_DEVICE_H_

#include <c10/core/Device.h>

#include <string>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::worker {

// "cpu", "cuda" or "cuda:<index>" that is here; throws Error(kInvalid) naming what there is.
at::Device DeviceOf(const std::string& name);

// Constants of the graph (masks, tables, and the devices that operators make tensors on). The weights stay where they are.
void MoveConstants(const partitioner::LoweredModel& model, const at::Device& device);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_MODEL_DEVICE_H_
