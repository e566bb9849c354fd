// Tensors between a device and the wire: page-locked copies on streams of their own, so that transfers overlap with computation,
// and narrower types where the job asks for them. On the CPU tensors pass as they are. Used by one stage's thread.
#ifndef WEIR_WORKER_RUNTIME_STAGING_H_
#define WEIR_WORKER_RUNTIME_STAGING_H_

#include <c10/core/Stream.h>

#include <optional>

#include "worker/runtime/exchange.h"

namespace weir::worker {

class Staging {
 public:
  // `narrow`: floats travel as this type (kFloat: as they are). Made on the thread whose current stream computes.
  Staging(const at::Device& device, at::ScalarType narrow);

  // The message as it is to be sent. `local`: the peer is in this process, so the tensors stay on the device.
  TensorMessage Outgoing(TensorMessage message, bool local);
  // Its tensors on the device, in their own types; the current stream waits for them.
  TensorMessage Incoming(TensorMessage message);
  // From the CPU to the device.
  at::Tensor ToDevice(const at::Tensor& tensor);
  // An empty CPU tensor that ToDevice copies from without waiting.
  at::Tensor EmptyHost(at::IntArrayRef shape, at::ScalarType type) const;
  const at::Device& device() const { return device_; }
  bool on_device() const { return !device_.is_cpu(); }
  // Records what the current stream has been given so far.
  std::shared_ptr<c10::Event> Record() const;

 private:
  const at::Device device_;
  const at::ScalarType narrow_;
  std::optional<c10::Stream> compute_, out_, in_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_STAGING_H_
