// What all gradients of a job are multiplied by before a step: clipping by their common norm, and the loss scale of fp16. The
// norm is that of all parts together; squares are added in the order of the weights, so that it doesn't depend on the partition.
#ifndef WEIR_WORKER_RUNTIME_GRADIENT_SCALE_H_
#define WEIR_WORKER_RUNTIME_GRADIENT_SCALE_H_

#include <cstdint>
#include <map>

namespace weir::worker {

class GradientScale {
 public:
  // `clip_norm` 0: none. `fp16`: with a dynamic loss scale (Micikevicius et al., ICLR'18): doubled after 2,000 good steps,
  // halved, and the step left out, when a gradient isn't finite.
  GradientScale(double clip_norm, bool fp16) : clip_norm_(clip_norm), scale_(fp16 ? 65536 : 0) {}

  bool needs_norm() const { return clip_norm_ > 0 || scale_ > 0; }
  // What the loss is multiplied by before the backward pass.
  double loss_scale() const { return scale_ > 0 ? scale_ : 1; }

  struct Step {
    double factor = 1;
    bool skip = false;
  };
  // `squares` by weight: of the gradients as they are, i.e. of the scaled loss. Moves the loss scale.
  Step Next(const std::map<int, double>& squares);

  // For checkpoints.
  std::int64_t steps_since_change() const { return steps_; }
  void Restore(double scale, std::int64_t steps) {
    if (scale_ > 0 && scale > 0) scale_ = scale;
    steps_ = steps;
  }

 private:
  double clip_norm_, scale_;
  std::int64_t steps_ = 0;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_GRADIENT_SCALE_H_
