// Runs a lowered model forward and backward once, whole or in parts, in one thread, and keeps everything that training would use.
#ifndef WEIR_TESTS_WORKER_RUNTIME_STAGE_HARNESS_H_
#define WEIR_TESTS_WORKER_RUNTIME_STAGE_HARNESS_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "partitioner/cut/partition.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/stage.h"

namespace weir::worker::testing {

struct PassResult {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // by weight; undefined where none
  std::vector<at::Tensor> weights;    // after the pass: BatchNorm's statistics have moved
};

// The stages of `stage_of` in order forward, then backward; the loss is the mean square of the output. A twin of what executors
// do over the network, without the network.
inline PassResult RunPass(const partitioner::LoweredModel& model, const std::vector<int>& stage_of, int num_stages,
                          const at::Tensor& input, const std::vector<at::Tensor>& initial) {
  std::vector<at::Tensor> weights;
  for (std::size_t w = 0; w < initial.size(); ++w) {
    weights.push_back(initial[w].defined() ? initial[w].detach().clone() : at::Tensor());
    if (weights.back().defined() && model.weights[w].trainable) weights.back().requires_grad_(true);
  }
  std::vector<std::unique_ptr<Stage>> stages;
  for (int s = 0; s < num_stages; ++s) stages.push_back(std::make_unique<Stage>(model, stage_of, s, weights));
  std::map<std::pair<int, int>, at::Tensor> sent;  // (tensor, to)
  PassResult result;
  for (auto& stage : stages) {
    std::vector<at::Tensor> received;
    for (const CutTensor& cut : stage->imports()) received.push_back(sent.at({cut.tensor, cut.to_stage}));
    Stage::Forwarded forwarded = stage->Forward(0, partitioner::Mode::kTrain, 11, received, input);
    for (std::size_t i = 0; i < stage->exports().size(); ++i) {
      const CutTensor& cut = stage->exports()[i];
      at::Tensor copy = forwarded.exports[i].detach().clone();  // as bytes on the wire
      if (forwarded.exports[i].requires_grad()) copy.requires_grad_(true);
      sent[{cut.tensor, cut.to_stage}] = copy;
    }
    if (stage->has_output()) result.output = forwarded.output;
  }
  std::map<std::pair<int, int>, Stage::Gradients> back;  // (tensor, to)
  for (int s = num_stages - 1; s >= 0; --s) {
    Stage& stage = *stages[s];
    std::vector<Stage::Gradients> from_readers;
    for (const CutTensor& cut : stage.exports()) {
      auto found = back.find({cut.tensor, cut.to_stage});
      from_readers.push_back(found != back.end() ? found->second : Stage::Gradients(cut.readers.size()));
    }
    const at::Tensor loss = stage.has_output() ? result.output.square().mean() : at::Tensor();
    const auto gradients = stage.Backward(0, from_readers, loss);
    for (std::size_t i = 0; i < stage.imports().size(); ++i) back[{stage.imports()[i].tensor, s}] = gradients[i];
  }
  result.output = result.output.detach();
  for (const at::Tensor& w : weights) {
    result.gradients.push_back(w.defined() ? w.grad() : at::Tensor());
    result.weights.push_back(w.defined() ? w.detach() : at::Tensor());
  }
  return result;
}

inline bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.sizes() == b.sizes() && torch::equal(a, b));
}

// Outputs, gradients and buffers of k parts equal the whole model's, bit for bit.
inline void ExpectPartsEqualWhole(const partitioner::LoweredModel& model, const at::Tensor& input,
                                  const std::vector<int>& numbers_of_parts) {
  std::vector<int> all;
  for (std::size_t w = 0; w < model.weights.size(); ++w) all.push_back(static_cast<int>(w));
  const std::vector<at::Tensor> initial = InitialWeights(model, all, Init::kKaiming, 3);
  const PassResult whole = RunPass(model, std::vector<int>(model.operator_graph.operators.size(), 0), 1, input, initial);
  ASSERT_TRUE(whole.output.isfinite().all().item<bool>());
  int with_gradient = 0;
  for (const at::Tensor& g : whole.gradients) with_gradient += g.defined() && g.abs().sum().item<double>() > 0;
  EXPECT_GT(with_gradient, 0);
  for (int k : numbers_of_parts) {
    SCOPED_TRACE(::testing::Message() << k << " parts");
    partitioner::CutOptions options;
    options.num_parts = k;
    const partitioner::Partition partition = partitioner::CutIntoParts(model.operator_graph, options);
    ASSERT_EQ(partition.status, partitioner::Partition::Status::kOk) << partition.reason;
    const PassResult parts = RunPass(model, partition.part_of, k, input, initial);
    EXPECT_TRUE(SameBits(parts.output, whole.output));
    for (std::size_t w = 0; w < model.weights.size(); ++w) {
      EXPECT_TRUE(SameBits(parts.gradients[w], whole.gradients[w])) << "gradient of " << model.weights[w].names.front();
      EXPECT_TRUE(SameBits(parts.weights[w], whole.weights[w])) << "buffer " << model.weights[w].names.front();
    }
  }
}

}  // namespace weir::worker::testing

#endif  // WEIR_TESTS_WORKER_RUNTIME_STAGE_HARNESS_H_
