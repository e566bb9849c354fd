// The policy network as a LibTorch module: what gradients are taken of. Private to agent/policy and agent/train.
#ifndef WEIR_AGENT_POLICY_TORCH_NETWORK_H_
#define WEIR_AGENT_POLICY_TORCH_NETWORK_H_

#include <torch/torch.h>

#include <vector>

#include "agent/policy/network.h"

namespace weir {

// A batch of B observations, padded to the most actions A, jobs J, workers W of any.
struct TorchBatch {
  torch::Tensor globals;         // B x features
  torch::Tensor workers;         // B x W x features
  torch::Tensor worker_weights;  // B x W: 1 / number of workers; 0 in the padding
  torch::Tensor jobs;            // B x J x features
  torch::Tensor job_weights;     // B x J
  torch::Tensor actions;         // B x A x features
  torch::Tensor action_weights;  // B x A: 1 / number of legal actions; 0 where masked or padding
  torch::Tensor action_jobs;     // B x A x J: 1 at the job of the action
  torch::Tensor action_workers;  // B x A x W: 1 / number of the action's workers, at these
};

class PolicyNetImpl : public torch::nn::Module {
 public:
  explicit PolicyNetImpl(const NetworkSizes& sizes);
  struct Output {
    torch::Tensor scores;  // B x A; -1e9 where masked or padding
    torch::Tensor values;  // B
  };
  // Gradients of `values` reach the value head alone.
  Output forward(const TorchBatch& batch);

  // Flat weights in the order of WeightLayout.
  std::vector<float> Export() const;
  void Import(const std::vector<float>& weights);

 private:
  torch::Tensor Normalize(const torch::Tensor& x, int block) const;
  WeightLayout layout_;
  std::vector<torch::Tensor> means_, scales_;
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(PolicyNet);

}  // namespace weir

#endif  // WEIR_AGENT_POLICY_TORCH_NETWORK_H_
