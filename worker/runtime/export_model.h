// Writes trained weights as a TorchScript file that torch::jit::load opens: in evaluation mode, ready for inference at any batch
// size.
#ifndef WEIR_WORKER_RUNTIME_EXPORT_MODEL_H_
#define WEIR_WORKER_RUNTIME_EXPORT_MODEL_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::worker {

// `weights` by weight index, all defined. For a TorchScript model the original module with its attributes replaced; for ONNX a
// new module whose parameters carry the initialisers' names (characters outside [A-Za-z0-9_] become '_'). `content` = bytes of
// the model file. Returns the file's bytes; the extra file weir.json holds {"input": [C,H,W]}.
std::string ExportTorchScript(const partitioner::LoweredModel& model, const std::string& content,
                              const std::vector<at::Tensor>& weights, const std::vector<std::int64_t>& sample_shape);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EXPORT_MODEL_H_
