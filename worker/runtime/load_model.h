// Model files of both kinds to LoweredModel, and weights to start from.
#ifndef WEIR_WORKER_RUNTIME_LOAD_MODEL_H_
#define WEIR_WORKER_RUNTIME_LOAD_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::worker {

// Throws Error(kInvalid) where the content is a text profile.
void RefuseProfile(const std::string& content, const std::string& name);

// `content` = bytes of the file, `name` for messages; `batch` samples a forward pass; `sample_shape` may be empty (then the
// file's).
partitioner::LoweredModel LoadLoweredModel(const std::string& content, const std::string& name, std::int64_t batch,
                                           const std::vector<std::int64_t>& sample_shape);

enum class Init { kKeep, kKaiming };

// Leaf tensors of their own memory, by weight index, for the weights in `ids` (others stay undefined); trainable ones require a
// gradient. kKeep throws Error(kInvalid) naming a weight that the file doesn't carry or holds as one repeated value (all units of
// a layer would stay equal). kKaiming: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for matrices and kernels (He et al., 2015, with a =
// sqrt(5)), 1 for the scale and 0 for the shift of a normalisation, 0 for other vectors; statistics 0 and 1. Each weight's draws
// depend on (seed, its name) alone.
std::vector<at::Tensor> InitialWeights(const partitioner::LoweredModel& model, const std::vector<int>& ids, Init init,
                                       std::uint64_t seed);

// Throws as InitialWeights would for all weights, without making them.
void CheckInit(const partitioner::LoweredModel& model, Init init);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_LOAD_MODEL_H_
