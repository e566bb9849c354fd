#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "env/core/error.h"
#include "worker/runtime/batches.h"

extern "C" double weir_torch_held_out_accuracy(const std::string& path, const weir::worker::Dataset& data, double holdout,
                                               std::uint64_t seed) {
  try {
    torch::jit::Module module = torch::jit::load(path);
    module.eval();
    torch::NoGradGuard no_grad;
    const weir::worker::Batches batches(data, 1, holdout, seed);
    const at::Tensor output = module.forward({batches.HeldOutFeatures(0, batches.held_out())}).toTensor();
    return output.argmax(1).eq(batches.HeldOutLabels(0, batches.held_out())).to(at::kDouble).mean().item<double>();
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    throw weir::Failure(weir::ExitCode::kJobFailed, "{}: {}", path, what.substr(0, what.find('\n')));
  }
}
