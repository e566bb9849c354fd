// ONNX models to LoweredModel: every node becomes LibTorch operators that train with autograd.
// BatchNormalization and Dropout are lowered in train form whatever form the file has: Weir trains; evaluation switches them off.
#ifndef WEIR_WORKER_RUNTIME_ONNX_LOWERING_H_
#define WEIR_WORKER_RUNTIME_ONNX_LOWERING_H_

#include <string>
#include <vector>

#include "partitioner/onnx/onnx_model.h"
#include "partitioner/torchscript/lowered_model.h"

namespace weir::worker {

// Operator i of the result is model.nodes[i]; operator_graph is ToOperatorGraph(model). Shapes are used from any batch size where
// the file allows it. Throws Error(kInvalid) naming the node whose operator or attributes can't be executed.
partitioner::LoweredModel LowerOnnx(const partitioner::OnnxModel& model);

// The operators that LowerOnnx knows, sorted.
std::vector<std::string> ExecutableOnnxOperators();

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_ONNX_LOWERING_H_
