#include "worker/runtime/stage.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <limits>
#include <set>

#include "env/core/check.h"
#include "env/core/rng.h"
#include "worker/runtime/fan_out.h"

namespace weir::worker {

using partitioner::LoweredModel;
using partitioner::Mode;
using partitioner::OperatorGraph;
using partitioner::OperatorRunner;

std::vector<CutTensor> CutTensors(const OperatorGraph& graph, const std::vector<int>& stage_of) {
  std::vector<CutTensor> cuts;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const auto& tensor = graph.tensors[t];
    if (tensor.producer < 0) continue;
    const int from = stage_of[tensor.producer];
    std::map<int, std::vector<int>> readers;
    for (int r : tensor.readers) {
      if (stage_of[r] != from) readers[stage_of[r]].push_back(r);
    }
    for (auto& [to, list] : readers) cuts.push_back({static_cast<int>(t), from, to, std::move(list)});
  }
  return cuts;
}

Stage::Stage(const LoweredModel& model, std::vector<int> stage_of, int stage, std::vector<at::Tensor> weights)
    : model_(model), stage_of_(std::move(stage_of)), stage_(stage), weights_(std::move(weights)) {
  const OperatorGraph& graph = model_.operator_graph;
  WEIR_CHECK_EQ(stage_of_.size(), graph.operators.size());
  WEIR_CHECK_EQ(weights_.size(), graph.parameters.size());
  std::set<int> used;
  for (std::size_t i = 0; i < stage_of_.size(); ++i) {
    if (stage_of_[i] != stage_) continue;
    operators_.push_back(static_cast<int>(i));
    used.insert(graph.operators[i].parameters.begin(), graph.operators[i].parameters.end());
    for (int t : graph.operators[i].inputs) reads_input_ |= graph.tensors[t].producer < 0;
    for (int t : graph.operators[i].outputs) has_output_ |= t == graph.outputs.front();
  }
  weight_ids_.assign(used.begin(), used.end());
  for (int w : weight_ids_) WEIR_CHECK(weights_[w].defined()) << graph.parameters[w].name;
  for (CutTensor& cut : CutTensors(graph, stage_of_)) {
    if (cut.to_stage == stage_) imports_.push_back(cut);
    if (cut.from_stage == stage_) exports_.push_back(cut);
  }
  import_needs_gradient_.assign(imports_.size(), false);
}

Stage::Forwarded Stage::Forward(int micro_batch, Mode mode, std::uint64_t seed, const std::vector<at::Tensor>& received,
                                const at::Tensor& input) {
  const OperatorGraph& graph = model_.operator_graph;
  WEIR_CHECK_EQ(received.size(), imports_.size());
  torch::AutoGradMode gradients(mode == Mode::kTrain);
  Pending pending;
  // What each reader of a tensor gets: its own alias, so that its gradient comes back apart. Key: (tensor, reader).
  std::map<std::pair<int, int>, at::Tensor> alias;
  constexpr int kOutput = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < imports_.size(); ++i) {
    auto& leaves = pending.leaves.emplace_back();
    if (mode == Mode::kTrain) import_needs_gradient_[i] = received[i].requires_grad();
    for (int reader : imports_[i].readers) {
      at::Tensor leaf = received[i].detach();
      if (model_.tensor_mutated[imports_[i].tensor]) leaf = leaf.clone();
      if (mode == Mode::kTrain && received[i].requires_grad()) leaf.requires_grad_(true);
      leaves.push_back(leaf);
      alias[{imports_[i].tensor, reader}] = leaf;
    }
  }
  for (int t : graph.inputs) {
    for (int reader : graph.tensors[t].readers) {
      if (stage_of_[reader] == stage_) alias[{t, reader}] = input;
    }
  }
  std::map<std::pair<int, int>, at::Tensor> weight_alias;  // (weight, operator), where several operators share it
  for (int w : weight_ids_) {
    const auto& readers = graph.parameters[w].readers;
    if (readers.size() < 2) continue;
    const std::vector<at::Tensor> copies = FanOut(weights_[w], static_cast<int>(readers.size()));
    for (std::size_t r = 0; r < readers.size(); ++r) weight_alias[{w, readers[r]}] = copies[r];
  }
  Forwarded result;
  std::map<int, at::Tensor> exported;  // by tensor: the data
  std::map<std::pair<int, int>, at::Tensor> root;
  for (int op_index : operators_) {
    const auto& op = graph.operators[op_index];
    std::vector<at::Tensor> inputs, parameters;
    for (int t : op.inputs) inputs.push_back(alias.at({t, op_index}));
    for (int w : op.parameters) {
      auto shared = weight_alias.find({w, op_index});
      parameters.push_back(shared != weight_alias.end() ? shared->second : weights_[w]);
    }
    auto& runner = runners_[static_cast<int>(mode)][op_index];
    if (!runner) runner = std::make_unique<OperatorRunner>(model_, op_index, mode);
    std::vector<at::Tensor> outputs = runner->Run(inputs, parameters, Mix64(seed, static_cast<std::uint64_t>(op_index)));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const int t = op.outputs[k];
      std::vector<int> readers = graph.tensors[t].readers;
      const bool is_output = t == graph.outputs.front();
      if (is_output) readers.push_back(kOutput);
      if (readers.empty()) continue;
      if (!model_.tensor_mutated[t]) outputs[k] = DenseLayout(outputs[k]);
      const std::vector<at::Tensor> copies = model_.tensor_mutated[t] ? std::vector<at::Tensor>(readers.size(), outputs[k])
                                                                      : FanOut(outputs[k], static_cast<int>(readers.size()));
      for (std::size_t r = 0; r < readers.size(); ++r) {
        if (readers[r] == kOutput) {
          result.output = copies[r];
        } else if (stage_of_[readers[r]] == stage_) {
          alias[{t, readers[r]}] = copies[r];
        } else {
          root[{t, readers[r]}] = copies[r];
        }
      }
      exported[t] = outputs[k];
    }
    for (int t : op.inputs) alias.erase({t, op_index});
  }
  for (const CutTensor& cut : exports_) {
    result.exports.push_back(exported.at(cut.tensor));
    auto& roots = pending.roots.emplace_back();
    if (!exported.at(cut.tensor).requires_grad()) continue;
    for (int reader : cut.readers) roots.push_back(root.at({cut.tensor, reader}));
  }
  if (mode == Mode::kTrain) pending_[micro_batch] = std::move(pending);
  return result;
}

bool Stage::draws_from_generator() const {
  for (int op : operators_) {
    for (const torch::jit::Node* node : model_.operators[op].nodes) {
      if (partitioner::DrawsFromGenerator(node)) return true;
    }
  }
  return false;
}

std::vector<std::uint64_t> Stage::MaskSeeds(std::uint64_t seed) const {
  std::vector<std::uint64_t> seeds;
  for (int op : operators_) {
    const auto more = runners_[static_cast<int>(Mode::kTrain)].at(op)->MaskSeeds(Mix64(seed, static_cast<std::uint64_t>(op)));
    seeds.insert(seeds.end(), more.begin(), more.end());
  }
  return seeds;
}

bool Stage::NeedsGradient(int micro_batch, std::size_t export_index) const {
  return !pending_.at(micro_batch).roots[export_index].empty();
}

std::vector<Stage::Gradients> Stage::Backward(int micro_batch, const std::vector<Gradients>& from_readers,
                                              const at::Tensor& loss) {
  Pending pending = std::move(pending_.at(micro_batch));
  pending_.erase(micro_batch);
  std::vector<at::Tensor> roots, gradients;
  if (loss.defined()) {
    roots.push_back(loss);
    gradients.emplace_back();
  }
  for (std::size_t i = 0; i < exports_.size(); ++i) {
    for (std::size_t r = 0; r < pending.roots[i].size(); ++r) {
      if (!from_readers[i][r].defined()) continue;
      roots.push_back(pending.roots[i][r]);
      gradients.push_back(from_readers[i][r]);
    }
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  std::vector<Gradients> result;
  for (const auto& leaves : pending.leaves) {
    Gradients& g = result.emplace_back();
    for (const at::Tensor& leaf : leaves) g.push_back(leaf.grad());
  }
  return result;
}

}  // namespace weir::worker
