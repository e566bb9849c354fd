// Losses of the job file and what is measured on held-out samples.
#ifndef WEIR_WORKER_RUNTIME_LOSS_H_
#define WEIR_WORKER_RUNTIME_LOSS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace weir::worker {

enum class LossKind { kCrossEntropy, kTokenCrossEntropy, kMse };

// Throws Error(kInvalid) naming the known ones.
LossKind LossOf(const std::string& name);

// Mean over the samples (cross entropy: output [B, C], labels [B] int64; tokens: output [B, L, V] or [B L, V], labels [B, L]
// int64, mean over all tokens; mse: labels [B] int64 are compared one-hot with `num_classes`, labels [B, n] float as they are).
// Scalar, float.
at::Tensor Loss(LossKind kind, const at::Tensor& output, const at::Tensor& labels, std::int64_t num_classes);

// Sums over held-out samples; the first `valid` rows count.
struct Evaluation {
  double loss_sum = 0;       // times samples (tokens)
  std::int64_t correct = 0;  // samples (tokens) whose largest output is their label
  std::int64_t counted = 0;  // samples (tokens)
  bool has_accuracy = false;

  double loss() const { return counted > 0 ? loss_sum / static_cast<double>(counted) : 0; }
  // -1: the loss has none (real targets), or nothing was held out.
  double accuracy() const {
    return has_accuracy && counted > 0 ? static_cast<double>(correct) / static_cast<double>(counted) : -1;
  }
  void Add(LossKind kind, const at::Tensor& output, const at::Tensor& labels, std::int64_t num_classes, std::int64_t valid);
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_LOSS_H_
