// Evaluates the shape arithmetic of an ONNX graph: small integer (and a few float) tensors whose inputs are all constants.
#ifndef WEIR_PARTITIONER_ONNX_CONSTANT_FOLDER_H_
#define WEIR_PARTITIONER_ONNX_CONSTANT_FOLDER_H_

#include <optional>
#include <vector>

#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {

// Larger tensors are left to run time (fills excepted: they cost nothing).
constexpr std::int64_t kMaxFoldedElements = 4096;

// The first output of `node`, or nullopt where it can't be computed here. `inputs`: null for those left out. `shape` and `dtype`:
// of the output, by the shape rules. Integer division truncates; float results are rounded to `dtype`.
std::optional<OnnxData> Fold(const OnnxNode& node, const std::vector<const OnnxData*>& inputs,
                             const std::vector<std::int64_t>& shape, DType dtype);

// A one-dimensional int64 constant.
OnnxData IntVector(const std::vector<std::int64_t>& values);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_CONSTANT_FOLDER_H_
