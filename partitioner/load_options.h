// What a model file needs besides itself to become an operator graph. Shared by the front ends.
#ifndef WEIR_PARTITIONER_LOAD_OPTIONS_H_
#define WEIR_PARTITIONER_LOAD_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace weir::partitioner {

struct LoadOptions {
  // Samples in one forward pass (a micro-batch, where training uses several). 0: what the file fixes, 1 where it leaves it open.
  std::int64_t batch = 1;
  // Shape of one sample, without the batch, for files that leave it open: {3, 224, 224}. Applies to the first data input.
  std::optional<std::vector<std::int64_t>> input_shape;
  // true: operators without a rule are an error instead of a warning.
  bool strict = false;
  // true: OnnxValue::batch_axis is found, by a second inference at another batch. What runs the model needs it.
  bool batch_axes = false;
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_LOAD_OPTIONS_H_
