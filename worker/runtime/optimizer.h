// The optimisers of the job file on the weights of one stage. Each weight is updated on its own, so how weights are spread over
// stages doesn't change a bit of the result.
#ifndef WEIR_WORKER_RUNTIME_OPTIMIZER_H_
#define WEIR_WORKER_RUNTIME_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}
namespace weir::wire {
class Optimizer;
}

namespace weir::worker {

// sgd (momentum, weight decay), adam, adamw, as LibTorch's torch::optim has them.
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const wire::Optimizer& spec, std::vector<at::Tensor> weights);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_OPTIMIZER_H_
