// TorchScript files (scripted, train mode) to LoweredModel.
#ifndef WEIR_PARTITIONER_TORCHSCRIPT_LOWERING_H_
#define WEIR_PARTITIONER_TORCHSCRIPT_LOWERING_H_

#include <string>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::partitioner {

// Lowers the model in `content` (a file's bytes; `path` is for messages). Deterministic: equal bytes give equal operators in
// every process with the same LibTorch. Follows attributes itself and keeps train mode; neither LowerGraph (throws on None) nor
// freeze (bakes weights in). Throws Error(kInvalid) where the file is no TorchScript model or its forward() does not take one
// tensor. Shapes and counts of the operator graph are not filled yet: see MeasureShapes.
LoweredModel LowerTorchScript(const std::string& content, const std::string& path);

// The per-sample input shape: given, or stored in the file as extra file weir.json {"input": [1,8,8]}, or guessed from the first
// weight (3 channels: 3x224x224, 1 channel: 1x28x28, Linear: its features). Throws Error(kInvalid) asking for --input otherwise.
std::vector<std::int64_t> TorchScriptInputShape(const std::string& content, const std::string& path, const LoweredModel& model);

// Attributes tensors to operators: fills model.operators, tensors, operator_graph (kinds, inputs, outputs, parameters, together).
// `primary[i]` are nodes of operator i in order; for TorchScript each holds one node. Auxiliary nodes are added to each operator.
void BuildOperatorGraph(std::vector<std::vector<torch::jit::Node*>> primary, LoweredModel* model);

// Fills shapes, dtypes, MACs (counted at dispatch: every matrix product and convolution that really runs, whatever operator calls
// it), FLOP and saved bytes at `batch` samples, by running the model on zeros without gradients: at this batch where it is small,
// else at two and three samples, from which the rest follows. Throws Error(kInvalid) naming the operator that fails, e.g. on a
// wrong input shape.
void MeasureShapes(std::int64_t batch, const std::vector<std::int64_t>& sample_shape, const std::string& path,
                   LoweredModel* model);

// From a graph measured at batch 2 to batch 1: activations' first dimension and all counts halved.
void HalveBatch(OperatorGraph* graph);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_TORCHSCRIPT_LOWERING_H_
