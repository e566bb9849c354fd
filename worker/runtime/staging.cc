#include "worker/runtime/staging.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <set>

#include "worker/runtime/fan_out.h"

namespace weir::worker {

Staging::Staging(const at::Device& device, at::ScalarType narrow) : device_(device), narrow_(narrow) {
  if (!on_device()) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  compute_ = guard.getStream(device_);
  // Not the stream that computes: the pool may hand that one out again.
  const auto other = [&](const std::set<c10::StreamId>& taken) {
    c10::Stream stream = guard.getStreamFromGlobalPool(device_);
    for (int i = 0; i < 64 && taken.count(stream.id()); ++i) stream = guard.getStreamFromGlobalPool(device_);
    return stream;
  };
  out_ = other({compute_->id()});
  in_ = other({compute_->id(), out_->id()});
}

std::shared_ptr<c10::Event> Staging::Record() const {
  auto event = std::make_shared<c10::Event>(device_.type());
  event->record(*compute_);
  return event;
}

TensorMessage Staging::Outgoing(TensorMessage message, bool local) {
  torch::NoGradGuard no_grad;
  if (narrow_ != at::kFloat && !local) {
    bool any = false;
    for (const at::Tensor& t : message.tensors) any |= t.defined() && t.scalar_type() == at::kFloat;
    for (at::Tensor& t : message.tensors) {
      if (any) message.restore.push_back(t.defined() ? t.scalar_type() : at::kFloat);
      if (!t.defined() || t.scalar_type() != at::kFloat) continue;
      const bool gradient = t.requires_grad();
      t = t.detach().to(narrow_);
      t.requires_grad_(gradient);
    }
  }
  if (!on_device()) return message;
  message.produced = Record();
  if (local) return message;
  message.produced->block(*out_);
  {
    const c10::StreamGuard guard(*out_);
    for (at::Tensor& t : message.tensors) {
      if (!t.defined() || t.device().is_cpu()) continue;
      const at::Tensor dense = DenseLayout(t.detach());
      at::Tensor host =
          at::empty_strided(dense.sizes(), dense.strides(), at::TensorOptions(dense.scalar_type()).pinned_memory(true));
      host.copy_(dense, /*non_blocking=*/true);
      dense.record_stream(*out_);
      host.requires_grad_(t.requires_grad());
      t = host;
    }
    message.produced = std::make_shared<c10::Event>(device_.type());
    message.produced->record(*out_);
  }
  return message;
}

at::Tensor Staging::ToDevice(const at::Tensor& tensor) {
  if (!on_device() || !tensor.defined()) return tensor;
  torch::NoGradGuard no_grad;
  at::Tensor there;
  c10::Event arrived(device_.type());
  {
    const c10::StreamGuard guard(*in_);
    there = tensor.detach().to(device_, /*non_blocking=*/true);
    arrived.record(*in_);
  }
  arrived.block(*compute_);
  there.record_stream(*compute_);
  return there;
}

TensorMessage Staging::Incoming(TensorMessage message) {
  torch::NoGradGuard no_grad;
  const bool wait = on_device() && message.produced;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    at::Tensor& t = message.tensors[i];
    if (!t.defined()) continue;
    const bool gradient = t.requires_grad();
    if (on_device()) {
      if (t.device().is_cpu()) {
        t = ToDevice(t);
      } else if (wait) {
        message.produced->block(*compute_);
        t = t.detach();
        t.record_stream(*compute_);
      }
    }
    if (!message.restore.empty()) t = t.detach().to(message.restore[i]);
    if (gradient && !t.requires_grad()) t.requires_grad_(true);
  }
  message.restore.clear();
  return message;
}

at::Tensor Staging::EmptyHost(at::IntArrayRef shape, at::ScalarType type) const {
  return at::empty(shape, at::TensorOptions(type).pinned_memory(on_device()));
}

}  // namespace weir::worker
