// What an ONNX node costs in training: MACs of convolutions and matrix products, FLOP forward and backward, bytes saved.
// Convolution: numel(out)·(C_in/groups)·kernel. Backward: one product for the input's gradient (none where it needs none), one
// for the weight's. Elementwise work is a few FLOP an element, by operator.
#ifndef WEIR_PARTITIONER_ONNX_COST_MODEL_H_
#define WEIR_PARTITIONER_ONNX_COST_MODEL_H_

#include <cstdint>
#include <vector>

#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {

struct OnnxCost {
  std::int64_t macs = 0;
  std::int64_t forward_flop = 0;
  std::int64_t backward_flop = 0;
  std::vector<int> saves;        // value ids of activations kept as they are for the backward pass
  std::int64_t extra_bytes = 0;  // kept besides: pooling indices (8 B), dropout masks (1 B), normalisation statistics
};

OnnxCost CostOf(const OnnxModel& model, const OnnxNode& node);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_COST_MODEL_H_
