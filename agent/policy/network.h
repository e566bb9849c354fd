// The policy network, written out in float: what serving and rollouts use. The LibTorch module of torch_network.h is the same
// function; a test holds them together.
//
//   x'    = clip((x - mean) * scale, -8, 8) per feature; scale 0 for features that never varied in training
//   e_w   = relu(W2 relu(W1 worker'))       e_j = relu(J2 relu(J1 job'))                                   embed wide
//   ctx   = [global', mean e_w, mean e_j]                                                                  means over all rows
//   h_a   = relu(A1 [candidate', e_j of its job or 0, mean e_w of its workers or 0, ctx])                  hidden wide
//   score = O relu(A2 [h_a, mean h over legal actions])                                                    head wide
//   value = V2 relu(V1 ctx)
//
// Sums only, so the order of workers, jobs and actions doesn't matter, and any number of each fits.
#ifndef WEIR_AGENT_POLICY_NETWORK_H_
#define WEIR_AGENT_POLICY_NETWORK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "agent/policy/policy.h"

namespace weir {

// Where each block lies in the flat weights: first the scales, then the layers, each as in x out (row after row) and out biases.
struct WeightLayout {
  struct Block {
    std::string name;
    int in = 0, out = 0;  // a scale block has in = 0: means, then scales
    std::size_t begin = 0;
    std::size_t size() const { return in == 0 ? 2 * static_cast<std::size_t>(out) : static_cast<std::size_t>(in + 1) * out; }
  };
  explicit WeightLayout(const NetworkSizes& sizes);
  enum { kGlobal, kWorker, kJob, kCandidate, kW1, kW2, kJ1, kJ2, kA1, kA2, kOut, kV1, kV2, kBlocks };
  std::vector<Block> blocks;
  std::size_t total = 0;
  std::size_t trained = 0;
};

class FloatNetwork : public ActionScorer {
 public:
  // REQUIRES: weights.size() == WeightLayout(sizes).total
  FloatNetwork(const NetworkSizes& sizes, std::vector<float> weights);
  void Score(const Observation& observation, std::vector<float>* scores, float* value) override;

 private:
  const float* Weights(int block) const { return weights_.data() + layout_.blocks[block].begin; }
  void Normalize(int block, const float* in, int rows, std::vector<float>* out) const;

  NetworkSizes sizes_;
  WeightLayout layout_;
  std::vector<float> weights_;
  std::vector<float> x_, t_, worker_, job_, context_, base_, job_part_, worker_part_, hidden_, pool_, head_;
};

// Fresh weights: He-uniform layers, the last of scores and value small; mean 0 and scale 1. Deterministic.
std::vector<float> InitialWeights(const NetworkSizes& sizes, std::uint64_t seed);

}  // namespace weir

#endif  // WEIR_AGENT_POLICY_NETWORK_H_
