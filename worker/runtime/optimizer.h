// The optimisers of the job file on the weights of one stage. Each weight is updated on its own, so how weights are spread over
// stages doesn't change a bit of the result.
#ifndef WEIR_WORKER_RUNTIME_OPTIMIZER_H_
#define WEIR_WORKER_RUNTIME_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "worker/runtime/snapshot.h"

namespace torch::optim {
class Optimizer;
}
namespace weir::wire {
class Optimizer;
}

namespace weir::worker {

// sgd (momentum, weight decay), adam, adamw, as LibTorch's torch::optim has them.
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const wire::Optimizer& spec, std::vector<at::Tensor> weights);

void SetLearningRate(torch::optim::Optimizer* optimizer, double learning_rate);

// What the optimiser remembers of one of its weights: into `state`, and back (absent states are left as they are after the first
// step of a fresh optimiser, i.e. none).
void SaveState(torch::optim::Optimizer* optimizer, const wire::Optimizer& spec, const at::Tensor& weight,
               Snapshot::WeightState* state);
void LoadState(torch::optim::Optimizer* optimizer, const wire::Optimizer& spec, const at::Tensor& weight,
               const Snapshot::WeightState& state);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_OPTIMIZER_H_
