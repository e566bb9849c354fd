// What can be known of a model before it runs anywhere: that each operator can be executed and each weight trained, and how much
// memory that takes.
#ifndef WEIR_WORKER_RUNTIME_TRAINABLE_H_
#define WEIR_WORKER_RUNTIME_TRAINABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weir::worker {

struct TrainableRequest {
  std::string path;        // of the model file
  std::string name;        // for messages
  std::int64_t batch = 1;  // samples a micro-batch
  std::vector<std::int64_t> sample_shape;
  std::string init = "keep";  // keep | kaiming
  bool accumulates = false;   // more than one micro-batch
};

// Throws Error(kInvalid) naming the operator that has no rule, or the weight that can't be trained as it is.
// Error(kInfrastructure): this machine has no libweir_torch.so, so nothing was checked.
// Returns the bytes that a pass of `batch` samples takes beside weights, gradients and optimiser states (measure_memory.h).
double CheckTrainable(const TrainableRequest& request);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_TRAINABLE_H_
