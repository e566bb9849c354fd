#include "worker/runtime/fan_out.h"

#include <torch/csrc/autograd/custom_function.h>

namespace weir::worker {
namespace {

struct FanOutFunction : torch::autograd::Function<FanOutFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor, int count) {
    context->set_materialize_grads(false);
    torch::autograd::variable_list aliases;
    for (int i = 0; i < count; ++i) aliases.push_back(tensor.detach());
    return aliases;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list gradients) {
    at::Tensor sum;
    for (auto g = gradients.rbegin(); g != gradients.rend(); ++g) {
      if (!g->defined()) continue;
      sum = sum.defined() ? sum + *g : *g;
    }
    return {sum, at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> FanOut(const at::Tensor& tensor, int count) {
  if (count == 1) return {tensor};
  if (!tensor.requires_grad()) return std::vector<at::Tensor>(count, tensor);
  return FanOutFunction::apply(tensor, count);
}

}  // namespace weir::worker
