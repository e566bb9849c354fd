#include "agent/policy/torch_network.h"

#include <limits>

#include "env/core/check.h"

namespace weir {

PolicyNetImpl::PolicyNetImpl(const NetworkSizes& sizes) : layout_(sizes) {
  for (const WeightLayout::Block& block : layout_.blocks) {
    if (block.in == 0) {
      means_.push_back(register_buffer(block.name + "_mean", torch::zeros({block.out})));
      scales_.push_back(register_buffer(block.name + "_scale", torch::ones({block.out})));
    } else {
      layers_.push_back(register_module(block.name, torch::nn::Linear(block.in, block.out)));
    }
  }
}

torch::Tensor PolicyNetImpl::Normalize(const torch::Tensor& x, int block) const {
  return ((x - means_[block]) * scales_[block]).clamp(-8, 8);
}

PolicyNetImpl::Output PolicyNetImpl::forward(const TorchBatch& b) {
  constexpr int kFirst = WeightLayout::kW1;
  auto layer = [&](int block, const torch::Tensor& x) { return layers_[block - kFirst]->forward(x); };
  auto encode = [&](const torch::Tensor& x, int scale, int first, int second) {
    return torch::relu(layer(second, torch::relu(layer(first, Normalize(x, scale)))));
  };
  const torch::Tensor workers = encode(b.workers, WeightLayout::kWorker, WeightLayout::kW1, WeightLayout::kW2);
  const torch::Tensor jobs = encode(b.jobs, WeightLayout::kJob, WeightLayout::kJ1, WeightLayout::kJ2);
  auto weighted = [](const torch::Tensor& weights, const torch::Tensor& rows) { return (weights.unsqueeze(-1) * rows).sum(1); };
  const torch::Tensor context = torch::cat(
      {Normalize(b.globals, WeightLayout::kGlobal), weighted(b.worker_weights, workers), weighted(b.job_weights, jobs)}, 1);
  const int64_t actions = b.actions.size(1);
  const torch::Tensor spread = context.unsqueeze(1).expand({-1, actions, -1});
  const torch::Tensor hidden = torch::relu(
      layer(WeightLayout::kA1, torch::cat({Normalize(b.actions, WeightLayout::kCandidate), torch::bmm(b.action_jobs, jobs),
                                           torch::bmm(b.action_workers, workers), spread},
                                          2)));
  const torch::Tensor pool = weighted(b.action_weights, hidden).unsqueeze(1).expand({-1, actions, -1});
  const torch::Tensor scores =
      layer(WeightLayout::kOut, torch::relu(layer(WeightLayout::kA2, torch::cat({hidden, pool}, 2)))).squeeze(-1);
  const torch::Tensor values = layer(WeightLayout::kV2, torch::relu(layer(WeightLayout::kV1, context.detach()))).squeeze(-1);
  return {scores.masked_fill(b.action_weights == 0, -1e9), values};
}

std::vector<float> PolicyNetImpl::Export() const {
  std::vector<float> weights(layout_.total);
  auto copy = [&](std::size_t at, const torch::Tensor& tensor) {
    const torch::Tensor flat = tensor.detach().contiguous();
    std::copy_n(flat.data_ptr<float>(), flat.numel(), weights.begin() + static_cast<long>(at));
  };
  for (int i = 0; i < WeightLayout::kBlocks; ++i) {
    const WeightLayout::Block& block = layout_.blocks[i];
    if (block.in == 0) {
      copy(block.begin, means_[i]);
      copy(block.begin + block.out, scales_[i]);
    } else {
      copy(block.begin, layers_[i - WeightLayout::kW1]->weight.t());
      copy(block.begin + static_cast<std::size_t>(block.in) * block.out, layers_[i - WeightLayout::kW1]->bias);
    }
  }
  return weights;
}

void PolicyNetImpl::Import(const std::vector<float>& weights) {
  WEIR_CHECK_EQ(weights.size(), layout_.total);
  torch::NoGradGuard no_grad;
  auto view = [&](std::size_t at, std::vector<int64_t> shape) {
    return torch::from_blob(const_cast<float*>(weights.data()) + at, shape, torch::kFloat32);
  };
  for (int i = 0; i < WeightLayout::kBlocks; ++i) {
    const WeightLayout::Block& block = layout_.blocks[i];
    if (block.in == 0) {
      means_[i].copy_(view(block.begin, {block.out}));
      scales_[i].copy_(view(block.begin + block.out, {block.out}));
    } else {
      layers_[i - WeightLayout::kW1]->weight.copy_(view(block.begin, {block.in, block.out}).t());
      layers_[i - WeightLayout::kW1]->bias.copy_(view(block.begin + static_cast<std::size_t>(block.in) * block.out, {block.out}));
    }
  }
}

namespace {

class TorchScorer : public ActionScorer {
 public:
  explicit TorchScorer(const PolicyFile& policy) : net_(policy.info.sizes) { net_->Import(policy.weights); }
  void Score(const Observation& o, std::vector<float>* scores, float* value) override {
    torch::NoGradGuard no_grad;
    const int64_t actions = o.num_actions(), jobs = std::max<int64_t>(1, static_cast<int64_t>(o.job_ids.size()));
    const int64_t workers = static_cast<int64_t>(o.worker_features.size()) / kWorkerFeatures;
    auto rows = [](const std::vector<float>& values, int64_t n, int64_t features) {
      torch::Tensor t = torch::zeros({1, n, features});
      std::copy(values.begin(), values.end(), t.data_ptr<float>());
      return t;
    };
    TorchBatch b;
    b.globals = rows(o.global_features, 1, kGlobalFeatures).squeeze(0);
    b.workers = rows(o.worker_features, workers, kWorkerFeatures);
    b.jobs = rows(o.job_features, jobs, kJobFeatures);
    b.actions = rows(o.action_features, actions, kCandidateFeatures);
    b.worker_weights = torch::full({1, workers}, 1.0 / static_cast<double>(workers));
    b.job_weights = o.job_ids.empty() ? torch::zeros({1, jobs}) : torch::full({1, jobs}, 1.0 / static_cast<double>(jobs));
    b.action_weights = torch::zeros({1, actions});
    b.action_jobs = torch::zeros({1, actions, jobs});
    b.action_workers = torch::zeros({1, actions, workers});
    int legal = 0;
    for (int a = 0; a < actions; ++a) legal += o.mask[a] != 0;
    for (int a = 0; a < actions; ++a) {
      if (o.mask[a]) b.action_weights[0][a] = 1.0 / legal;
      if (o.action_job[a] >= 0) b.action_jobs[0][a][o.action_job[a]] = 1.0;
      const int begin = o.action_worker_begin[a], end = o.action_worker_begin[a + 1];
      for (int i = begin; i < end; ++i) b.action_workers[0][a][o.action_workers[i]] = 1.0 / (end - begin);
    }
    const PolicyNetImpl::Output out = net_->forward(b);
    scores->resize(static_cast<std::size_t>(actions));
    const torch::Tensor flat = out.scores.contiguous();
    for (int a = 0; a < actions; ++a)
      (*scores)[a] = o.mask[a] ? flat.data_ptr<float>()[a] : -std::numeric_limits<float>::infinity();
    if (value) *value = out.values.item<float>();
  }

 private:
  PolicyNet net_;
};

}  // namespace
}  // namespace weir

// Called through env/core/plugin.h; the caller owns the result.
extern "C" weir::ActionScorer* weir_torch_load_policy(const weir::PolicyFile& policy) {
  return new weir::TorchScorer(policy);
}
