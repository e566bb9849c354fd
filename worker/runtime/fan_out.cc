#include "worker/runtime/fan_out.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weir::worker {
namespace {

// As AccumulateGrad compares: strides of dimensions of size 1 don't matter.
bool SameLayout(const at::Tensor& tensor, const std::vector<std::int64_t>& strides) {
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (tensor.size(d) != 1 && tensor.stride(d) != strides[d]) return false;
  }
  return true;
}

struct FanOutFunction : torch::autograd::Function<FanOutFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor, int count) {
    context->set_materialize_grads(false);
    context->saved_data["strides"] = tensor.strides().vec();
    torch::autograd::variable_list aliases;
    for (int i = 0; i < count; ++i) aliases.push_back(tensor.detach());
    return aliases;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const std::vector<std::int64_t> strides = context->saved_data["strides"].toIntVector();
    at::Tensor sum;
    for (auto g = gradients.rbegin(); g != gradients.rend(); ++g) {
      if (!g->defined()) continue;
      at::Tensor gradient = *g;
      if (!SameLayout(gradient, strides))
        gradient = at::empty_strided(gradient.sizes(), strides, gradient.options()).copy_(gradient);
      sum = sum.defined() ? sum + gradient : gradient;
    }
    return {sum, at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> FanOut(const at::Tensor& tensor, int count) {
  if (!tensor.requires_grad()) return std::vector<at::Tensor>(count, tensor);
  if (count == 1) {  // nothing to add: a hook costs a tenth of a function of its own
    at::Tensor alone = tensor;
    alone.register_hook([strides = tensor.strides().vec()](const at::Tensor& gradient) {
      if (!gradient.defined() || SameLayout(gradient, strides)) return gradient;
      return at::empty_strided(gradient.sizes(), strides, gradient.options()).copy_(gradient);
    });
    return {alone};
  }
  return FanOutFunction::apply(tensor, count);
}

at::Tensor DenseLayout(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

}  // namespace weir::worker
