// Counts multiply-adds while LibTorch runs: from the shapes of the convolutions and matrix products that are dispatched.
#ifndef WEIR_TESTS_WORKER_RUNTIME_COUNT_MACS_H_
#define WEIR_TESTS_WORKER_RUNTIME_COUNT_MACS_H_

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <string>

namespace weir::worker::testing {

inline thread_local std::int64_t counted_macs = 0;

// On the operators that multiply at last; what calls them (linear, matmul, conv2d, lstm) isn't counted again.
inline std::unique_ptr<at::ObserverContext> OnOperator(const at::RecordFunction& fn) {
  const std::string name = fn.name();
  const auto inputs = fn.inputs();
  auto tensor = [&](std::size_t i) { return inputs[i].toTensor(); };
  if (name == "aten::convolution") {
    const at::Tensor x = tensor(0), w = tensor(1);
    const bool transposed = inputs[6].toBool();
    std::int64_t macs = w.numel() / w.size(0);  // channels of a group x kernel
    if (transposed) {
      macs *= x.numel();
    } else {
      std::int64_t out = x.size(0) * w.size(0);
      const auto stride = inputs[3].toIntVector(), padding = inputs[4].toIntVector(), dilation = inputs[5].toIntVector();
      for (std::int64_t d = 2; d < x.dim(); ++d) {
        out *= (x.size(d) + 2 * padding[d - 2] - dilation[d - 2] * (w.size(d) - 1) - 1) / stride[d - 2] + 1;
      }
      macs *= out;
    }
    counted_macs += macs;
  } else if (name == "aten::mm" || name == "aten::bmm") {
    counted_macs += tensor(0).numel() * tensor(1).size(-1);
  } else if (name == "aten::addmm" || name == "aten::baddbmm") {
    counted_macs += tensor(1).numel() * tensor(2).size(-1);
  } else if (name == "aten::mkldnn_rnn_layer") {  // a whole recurrent layer: input and state against their weights, each step
    counted_macs += tensor(0).numel() / tensor(0).size(-1) * (tensor(1).numel() + tensor(2).numel());
  } else if (name == "aten::mv" || name == "aten::dot") {
    counted_macs += tensor(0).numel();
  }
  return nullptr;
}

inline std::int64_t CountMacs(const std::function<void()>& run) {
  counted_macs = 0;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(OnOperator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  return counted_macs;
}

}  // namespace weir::worker::testing

#endif  // WEIR_TESTS_WORKER_RUNTIME_COUNT_MACS_H_
