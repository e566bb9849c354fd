// A model as one flat TorchScript graph whose weights are graph inputs, beside its operator graph. Both front ends end here: the
// TorchScript one (lowering.h) and ONNX (worker/runtime/onnx_lowering.h). Includes LibTorch: for the torch library's own files.
#ifndef WEIR_PARTITIONER_TORCHSCRIPT_LOWERED_MODEL_H_
#define WEIR_PARTITIONER_TORCHSCRIPT_LOWERED_MODEL_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

struct LoweredWeight {
  std::vector<std::string> names;      // attribute paths or initialiser name; several where weights are tied
  torch::jit::Value* value = nullptr;  // an input of the graph
  at::Tensor tensor;                   // as in the file; may have stride 0, may be undefined where the file has no data
  bool trainable = true;               // false: a buffer
  std::vector<std::int64_t> shape;
};

// A step of the lowered graph: nodes that one operator of the operator graph stands for.
struct LoweredOperator {
  // In execution order. Besides the operator's own nodes these are the auxiliary nodes it needs (list constructions, sizes,
  // integer arithmetic): pure, cheap and private to each operator that needs them, so only tensors cross from operator to
  // operator.
  std::vector<torch::jit::Node*> nodes;
};

struct LoweredModel {
  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<torch::jit::Value*> inputs;   // of the model, in order
  std::vector<torch::jit::Value*> outputs;  // of the model: tensors, in order
  std::vector<LoweredWeight> weights;       // graph.parameters[i] is weights[i]
  std::vector<LoweredOperator> operators;   // graph.operators[i] is operators[i]
  std::vector<torch::jit::Value*> tensors;  // graph.tensors[i] is tensors[i]
  OperatorGraph operator_graph;
  // A tensor or weight that some operator changes in place: its readers stay together and it is never fanned out.
  std::vector<bool> tensor_mutated;
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_TORCHSCRIPT_LOWERED_MODEL_H_
