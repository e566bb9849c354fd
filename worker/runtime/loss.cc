#include "worker/runtime/loss.h"

#include <ATen/Functions.h>

#include "env/core/error.h"

namespace weir::worker {
namespace {

// One row a token.
at::Tensor Rows(const at::Tensor& output) {
  return output.dim() > 2 ? output.reshape({-1, output.size(-1)}) : output;
}

}  // namespace

LossKind LossOf(const std::string& name) {
  if (name.empty() || name == "cross_entropy") return LossKind::kCrossEntropy;
  if (name == "token_cross_entropy") return LossKind::kTokenCrossEntropy;
  if (name == "mse") return LossKind::kMse;
  throw Invalid("train.loss must be cross_entropy, token_cross_entropy or mse, got '{}'", name);
}

at::Tensor Loss(LossKind kind, const at::Tensor& output, const at::Tensor& labels, std::int64_t num_classes) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return at::cross_entropy_loss(output, labels).to(at::kFloat);
    case LossKind::kTokenCrossEntropy:
      return at::cross_entropy_loss(Rows(output), labels.reshape({-1})).to(at::kFloat);
    case LossKind::kMse:
      break;
  }
  if (labels.is_floating_point())
    return at::mse_loss(output, labels.reshape(output.sizes()).to(output.scalar_type())).to(at::kFloat);
  return at::mse_loss(output, at::one_hot(labels, num_classes).to(output.scalar_type())).to(at::kFloat);
}

void Evaluation::Add(LossKind kind, const at::Tensor& output, const at::Tensor& labels, std::int64_t num_classes,
                     std::int64_t valid) {
  // A row of the output per token where the labels are windows.
  const std::int64_t per_sample = kind == LossKind::kTokenCrossEntropy ? labels.numel() / labels.size(0) : 1;
  const std::int64_t rows = valid * per_sample;
  const at::Tensor kept = Rows(output).narrow(0, 0, rows).to(at::kFloat);
  const at::Tensor wanted =
      kind == LossKind::kTokenCrossEntropy ? labels.reshape({-1}).narrow(0, 0, rows) : labels.narrow(0, 0, rows);
  const LossKind flat = kind == LossKind::kTokenCrossEntropy ? LossKind::kCrossEntropy : kind;
  loss_sum += Loss(flat, kept, wanted, num_classes).item<double>() * static_cast<double>(rows);
  counted += rows;
  has_accuracy = !labels.is_floating_point();
  if (has_accuracy) correct += kept.argmax(1).eq(wanted).sum().item<std::int64_t>();
}

}  // namespace weir::worker
