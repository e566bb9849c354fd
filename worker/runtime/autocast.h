// Mixed precision: while it lives, matrix products and convolutions of this thread run in `type` (LibTorch's autocast); sums,
// normalisations and losses stay in float, as do the weights. kFloat: changes nothing.
#ifndef WEIR_WORKER_RUNTIME_AUTOCAST_H_
#define WEIR_WORKER_RUNTIME_AUTOCAST_H_

#include <ATen/core/Tensor.h>

#include <string>

namespace weir::worker {

// "fp32" (or empty), "bf16", "fp16". Throws Error(kInvalid) for others.
at::ScalarType PrecisionOf(const std::string& name);

class Autocast {
 public:
  Autocast(const at::Device& device, at::ScalarType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool on_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_AUTOCAST_H_
