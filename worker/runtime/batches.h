// Which samples form which batch: a pure function of (seed, iteration), the same in every process.
#ifndef WEIR_WORKER_RUNTIME_BATCHES_H_
#define WEIR_WORKER_RUNTIME_BATCHES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/protocol/dataset.h"

namespace weir::worker {

class Batches {
 public:
  // The last HeldOutSamples of a shuffle by `seed` are kept for evaluation; each epoch has a shuffle of its own and drops its
  // incomplete last batch. Throws Error(kInvalid) where there are fewer training samples than `batch`. Keeps a reference to
  // `data`.
  // `pinned`: tensors in page-locked memory, for copies to an accelerator.
  Batches(const Dataset& data, std::int64_t batch, double holdout, std::uint64_t seed, bool pinned = false);

  std::int64_t train_samples() const { return static_cast<std::int64_t>(train_.size()); }
  std::int64_t held_out() const { return static_cast<std::int64_t>(held_out_.size()); }
  std::int64_t per_epoch() const { return train_samples() / batch_; }

  // Rows [begin, end) of the batch of an iteration: features [end - begin, shape...], float or int64 (Dataset::ids); labels
  // [end - begin, label shape...], int64 or float (Dataset::targets).
  at::Tensor Features(std::int64_t iteration, std::int64_t begin, std::int64_t end);
  at::Tensor Labels(std::int64_t iteration, std::int64_t begin, std::int64_t end);
  // `count` held-out samples from `first` on; past the last one the first is repeated (so every forward pass has full size).
  at::Tensor HeldOutFeatures(std::int64_t first, std::int64_t count) const;
  at::Tensor HeldOutLabels(std::int64_t first, std::int64_t count) const;

 private:
  std::vector<std::int64_t> Rows(std::int64_t iteration, std::int64_t begin, std::int64_t end);
  template <typename T>
  at::Tensor Gather(const std::vector<T>& values, const std::vector<std::int64_t>& sample_shape,
                    const std::vector<std::int64_t>& rows) const;
  at::Tensor GatherFeatures(const std::vector<std::int64_t>& rows) const;
  at::Tensor GatherLabels(const std::vector<std::int64_t>& rows) const;

  const Dataset& data_;
  std::int64_t batch_;
  std::uint64_t seed_;
  bool pinned_;
  std::vector<std::int64_t> train_, held_out_;
  std::int64_t epoch_ = -1;  // of order_
  std::vector<std::int64_t> order_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_BATCHES_H_
