#include "agent/policy/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "env/core/check.h"
#include "env/core/rng.h"

namespace weir {
namespace {

// y[0..out) += x[0..in) * w, w as in x out. Zeros are skipped: after relu about half are.
void Accumulate(const float* w, const float* x, int in, int out, float* __restrict y) {
  for (int i = 0; i < in; ++i) {
    const float value = x[i];
    if (value == 0) continue;
    const float* row = w + static_cast<std::size_t>(i) * out;
    for (int o = 0; o < out; ++o) y[o] += value * row[o];
  }
}

void Relu(float* x, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] > 0 ? x[i] : (x[i] <= 0 ? 0.0f : x[i]);  // keeps NaN
}

void Linear(const float* w, const float* x, int in, int out, float* y) {
  std::copy_n(w + static_cast<std::size_t>(in) * out, out, y);
  Accumulate(w, x, in, out, y);
}

}  // namespace

WeightLayout::WeightLayout(const NetworkSizes& sizes) {
  const int e = sizes.embed, h = sizes.hidden, context = kGlobalFeatures + 2 * e;
  blocks = {{"global", 0, kGlobalFeatures},
            {"worker", 0, kWorkerFeatures},
            {"job", 0, kJobFeatures},
            {"candidate", 0, kCandidateFeatures},
            {"worker1", kWorkerFeatures, e},
            {"worker2", e, e},
            {"job1", kJobFeatures, e},
            {"job2", e, e},
            {"action1", kCandidateFeatures + 2 * e + context, h},
            {"action2", 2 * h, sizes.head},
            {"score", sizes.head, 1},
            {"value1", context, sizes.head},
            {"value2", sizes.head, 1}};
  for (Block& block : blocks) {
    block.begin = total;
    total += block.size();
    if (block.in > 0) trained += block.size();
  }
}

FloatNetwork::FloatNetwork(const NetworkSizes& sizes, std::vector<float> weights)
    : sizes_(sizes), layout_(sizes), weights_(std::move(weights)) {
  WEIR_CHECK_EQ(weights_.size(), layout_.total);
}

void FloatNetwork::Normalize(int block, const float* in, int rows, std::vector<float>* out) const {
  const int n = layout_.blocks[block].out;
  const float* mean = Weights(block);
  const float* scale = mean + n;
  out->resize(static_cast<std::size_t>(rows) * n);
  float* y = out->data();
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i, ++in, ++y) {
      const float x = (*in - mean[i]) * scale[i];
      *y = x > 8 ? 8.0f : x < -8 ? -8.0f : x;
    }
  }
}

void FloatNetwork::Score(const Observation& o, std::vector<float>* scores, float* value) {
  const int e = sizes_.embed, h = sizes_.hidden, head = sizes_.head, actions = o.num_actions();
  const int workers = static_cast<int>(o.worker_features.size()) / kWorkerFeatures;
  const int jobs = static_cast<int>(o.job_ids.size());
  const int context = kGlobalFeatures + 2 * e;
  Normalize(WeightLayout::kGlobal, o.global_features.data(), 1, &x_);
  context_.assign(context, 0.0f);
  std::copy_n(x_.data(), kGlobalFeatures, context_.data());
  t_.resize(e);
  auto encode = [&](int scale, int first, int second, int features, const float* rows, int n, std::vector<float>* out,
                    float* mean) {
    Normalize(scale, rows, n, &x_);
    out->resize(static_cast<std::size_t>(n) * e);
    for (int r = 0; r < n; ++r) {
      Linear(Weights(first), x_.data() + static_cast<std::size_t>(r) * features, features, e, t_.data());
      Relu(t_.data(), e);
      float* y = out->data() + static_cast<std::size_t>(r) * e;
      Linear(Weights(second), t_.data(), e, e, y);
      Relu(y, e);
      for (int i = 0; i < e; ++i) mean[i] += y[i];
    }
    for (int i = 0; i < e && n > 0; ++i) mean[i] /= static_cast<float>(n);
  };
  encode(WeightLayout::kWorker, WeightLayout::kW1, WeightLayout::kW2, kWorkerFeatures, o.worker_features.data(), workers,
         &worker_, context_.data() + kGlobalFeatures);
  encode(WeightLayout::kJob, WeightLayout::kJ1, WeightLayout::kJ2, kJobFeatures, o.job_features.data(), jobs, &job_,
         context_.data() + kGlobalFeatures + e);

  // A1 by parts: what depends on the context alone is done once.
  const float* a1 = Weights(WeightLayout::kA1);
  const float* a1_job = a1 + static_cast<std::size_t>(kCandidateFeatures) * h;
  const float* a1_worker = a1_job + static_cast<std::size_t>(e) * h;
  const float* a1_context = a1_worker + static_cast<std::size_t>(e) * h;
  base_.assign(a1_context + static_cast<std::size_t>(context) * h, a1_context + static_cast<std::size_t>(context + 1) * h);
  Accumulate(a1_context, context_.data(), context, h, base_.data());
  Normalize(WeightLayout::kCandidate, o.action_features.data(), actions, &x_);
  hidden_.resize(static_cast<std::size_t>(actions) * h);
  pool_.assign(h, 0.0f);
  int legal = 0;
  for (int a = 0; a < actions; ++a) {
    if (!o.mask[a]) continue;
    ++legal;
    float* y = hidden_.data() + static_cast<std::size_t>(a) * h;
    std::copy_n(base_.data(), h, y);
    Accumulate(a1, x_.data() + static_cast<std::size_t>(a) * kCandidateFeatures, kCandidateFeatures, h, y);
    if (o.action_job[a] >= 0) Accumulate(a1_job, job_.data() + static_cast<std::size_t>(o.action_job[a]) * e, e, h, y);
    const int begin = o.action_worker_begin[a], end = o.action_worker_begin[a + 1];
    if (end > begin) {
      std::fill_n(t_.data(), e, 0.0f);
      for (int i = begin; i < end; ++i) {
        const float* row = worker_.data() + static_cast<std::size_t>(o.action_workers[i]) * e;
        for (int k = 0; k < e; ++k) t_[k] += row[k];
      }
      for (int k = 0; k < e; ++k) t_[k] /= static_cast<float>(end - begin);
      Accumulate(a1_worker, t_.data(), e, h, y);
    }
    Relu(y, h);
    for (int i = 0; i < h; ++i) pool_[i] += y[i];
  }
  for (int i = 0; i < h; ++i) pool_[i] /= static_cast<float>(std::max(legal, 1));
  const float* a2 = Weights(WeightLayout::kA2);
  base_.resize(head);
  std::copy_n(a2 + static_cast<std::size_t>(2 * h) * head, head, base_.data());
  Accumulate(a2 + static_cast<std::size_t>(h) * head, pool_.data(), h, head, base_.data());
  head_.resize(head);
  const float* out = Weights(WeightLayout::kOut);
  scores->assign(actions, -std::numeric_limits<float>::infinity());
  for (int a = 0; a < actions; ++a) {
    if (!o.mask[a]) continue;
    std::copy_n(base_.data(), head, head_.data());
    Accumulate(a2, hidden_.data() + static_cast<std::size_t>(a) * h, h, head, head_.data());
    Relu(head_.data(), head);
    float score = out[head];
    for (int i = 0; i < head; ++i) score += head_[i] * out[i];
    (*scores)[a] = score;
  }
  if (value) {
    Linear(Weights(WeightLayout::kV1), context_.data(), context, head, head_.data());
    Relu(head_.data(), head);
    const float* v2 = Weights(WeightLayout::kV2);
    *value = v2[head];
    for (int i = 0; i < head; ++i) *value += head_[i] * v2[i];
  }
}

std::vector<float> InitialWeights(const NetworkSizes& sizes, std::uint64_t seed) {
  const WeightLayout layout(sizes);
  std::vector<float> weights(layout.total, 0.0f);
  const Rng root(seed);
  for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
    const WeightLayout::Block& block = layout.blocks[b];
    float* w = weights.data() + block.begin;
    if (block.in == 0) {
      std::fill_n(w + block.out, block.out, 1.0f);
      continue;
    }
    Rng rng = root.Split(b);
    const double bound = std::sqrt(6.0 / block.in) * (block.out == 1 ? 0.1 : 1.0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(block.in) * block.out; ++i)
      w[i] = static_cast<float>(rng.Uniform(-bound, bound));
  }
  return weights;
}

}  // namespace weir
