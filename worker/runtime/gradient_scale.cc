#include "worker/runtime/gradient_scale.h"

#include <algorithm>
#include <cmath>

namespace weir::worker {

GradientScale::Step GradientScale::Next(const std::map<int, double>& squares) {
  double sum = 0;
  for (const auto& [id, square] : squares) sum += square;
  Step step;
  const double norm = std::sqrt(sum) / loss_scale();
  step.factor = 1 / loss_scale();
  if (scale_ > 0) {
    constexpr std::int64_t kStepsToGrow = 2000;
    if (!std::isfinite(norm)) {
      scale_ = std::max(1.0, scale_ / 2);
      steps_ = 0;
      step.skip = true;
      return step;
    }
    if (++steps_ >= kStepsToGrow) {
      scale_ = std::min(scale_ * 2, 16777216.0);
      steps_ = 0;
    }
  }
  if (clip_norm_ > 0) step.factor *= std::min(1.0, clip_norm_ / (norm + 1e-6));  // as torch.nn.utils.clip_grad_norm_
  return step;
}

}  // namespace weir::worker
