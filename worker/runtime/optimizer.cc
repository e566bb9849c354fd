#include "worker/runtime/optimizer.h"

#include <torch/optim.h>

#include "env/core/error.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const wire::Optimizer& spec, std::vector<at::Tensor> weights) {
  if (spec.kind() == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        std::move(weights),
        torch::optim::SGDOptions(spec.learning_rate()).momentum(spec.momentum()).weight_decay(spec.weight_decay()));
  }
  const auto betas = std::make_tuple(spec.beta1(), spec.beta2());
  if (spec.kind() == "adam") {
    return std::make_unique<torch::optim::Adam>(
        std::move(weights),
        torch::optim::AdamOptions(spec.learning_rate()).betas(betas).eps(spec.epsilon()).weight_decay(spec.weight_decay()));
  }
  if (spec.kind() == "adamw") {
    return std::make_unique<torch::optim::AdamW>(
        std::move(weights),
        torch::optim::AdamWOptions(spec.learning_rate()).betas(betas).eps(spec.epsilon()).weight_decay(spec.weight_decay()));
  }
  throw Invalid("optimizer '{}' is unknown: expected sgd, adam or adamw", spec.kind());
}

}  // namespace weir::worker
