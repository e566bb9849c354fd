// Writes trained weights back into the ONNX file that they came from.
#ifndef WEIR_WORKER_RUNTIME_EXPORT_ONNX_H_
#define WEIR_WORKER_RUNTIME_EXPORT_ONNX_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::worker {

// The bytes of the same model with `weights` (by weight index, on the CPU) as initialisers. A weight that was a graph input
// becomes an initialiser of that name; one that a node made (ConstantOfShape, Constant) takes the node's place. Everything else
// stays as it is, fields that Weir doesn't know included. Empty where a weight has no place of its own in the file's graph (e.g.
// inside a function).
std::string ExportOnnx(const partitioner::LoweredModel& model, const std::string& content,
                       const std::vector<at::Tensor>& weights);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EXPORT_ONNX_H_
