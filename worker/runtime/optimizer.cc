#include "worker/runtime/optimizer.h"

#include <torch/optim.h>

#include <sstream>

#include "env/core/error.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

using States = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

// The key of a weight's state: text up to LibTorch 1.x, a pointer from 2.x on.
template <typename Key = States::key_type>
Key KeyOf(const at::Tensor& weight) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream key;
    key << static_cast<const void*>(weight.unsafeGetTensorImpl());
    return key.str();
  } else {
    return weight.unsafeGetTensorImpl();
  }
}

template <typename State>
void SaveAdam(const torch::optim::OptimizerParamState& from, Snapshot::WeightState* to) {
  const auto& state = static_cast<const State&>(from);
  to->step = state.step();
  to->optimizer["exp_avg"] = state.exp_avg();
  to->optimizer["exp_avg_sq"] = state.exp_avg_sq();
}

template <typename State>
std::unique_ptr<State> LoadAdam(const Snapshot::WeightState& from, const at::Tensor& like) {
  auto state = std::make_unique<State>();
  state->step(from.step);
  state->exp_avg(at::empty_like(like).copy_(from.optimizer.at("exp_avg")));
  state->exp_avg_sq(at::empty_like(like).copy_(from.optimizer.at("exp_avg_sq")));
  return state;
}

}  // namespace

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

void SetLearningRate(torch::optim::Optimizer* optimizer, double learning_rate) {
  for (auto& group : optimizer->param_groups()) group.options().set_lr(learning_rate);
}

void SaveState(torch::optim::Optimizer* optimizer, const wire::Optimizer& spec, const at::Tensor& weight,
               Snapshot::WeightState* state) {
  const auto found = optimizer->state().find(KeyOf(weight));
  if (found == optimizer->state().end()) return;
  if (spec.kind() == "sgd") {
    const at::Tensor& momentum = static_cast<const torch::optim::SGDParamState&>(*found->second).momentum_buffer();
    if (momentum.defined()) state->optimizer["momentum"] = momentum;
  } else if (spec.kind() == "adam") {
    SaveAdam<torch::optim::AdamParamState>(*found->second, state);
  } else {
    SaveAdam<torch::optim::AdamWParamState>(*found->second, state);
  }
}

void LoadState(torch::optim::Optimizer* optimizer, const wire::Optimizer& spec, const at::Tensor& weight,
               const Snapshot::WeightState& state) {
  if (state.optimizer.empty()) return;
  torch::NoGradGuard no_grad;
  const at::Tensor like = weight.detach();
  auto& slot = optimizer->state()[KeyOf(weight)];
  if (spec.kind() == "sgd") {
    auto sgd = std::make_unique<torch::optim::SGDParamState>();
    sgd->momentum_buffer(at::empty_like(like).copy_(state.optimizer.at("momentum")));
    slot = std::move(sgd);
  } else if (spec.kind() == "adam") {
    slot = LoadAdam<torch::optim::AdamParamState>(state, like);
  } else {
    slot = LoadAdam<torch::optim::AdamWParamState>(state, like);
  }
}

}  // namespace weir::worker
