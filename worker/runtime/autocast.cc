#include "worker/runtime/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "env/core/error.h"

namespace weir::worker {
namespace {

void Set(at::DeviceType device, bool on, at::ScalarType type) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  if (on) at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, on);
#else
  if (device == at::kCPU) {
    if (on) at::autocast::set_autocast_cpu_dtype(type);
    at::autocast::set_cpu_enabled(on);
  } else {
    if (on) at::autocast::set_autocast_gpu_dtype(type);
    at::autocast::set_enabled(on);
  }
#endif
}

}  // namespace

at::ScalarType PrecisionOf(const std::string& name) {
  if (name.empty() || name == "fp32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  throw Invalid("precision must be fp32, bf16 or fp16, got '{}'", name);
}

Autocast::Autocast(const at::Device& device, at::ScalarType type) : device_(device.type()), on_(type != at::kFloat) {
  if (!on_) return;
  Set(device_, true, type);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!on_) return;
  // The weights' casts are kept while it lives; they change with the next step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  Set(device_, false, at::kFloat);
}

}  // namespace weir::worker
