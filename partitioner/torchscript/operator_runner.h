// Executes one operator of a LoweredModel: its nodes in order, by LibTorch's own kernels, under whatever autograd mode is set.
#ifndef WEIR_PARTITIONER_TORCHSCRIPT_OPERATOR_RUNNER_H_
#define WEIR_PARTITIONER_TORCHSCRIPT_OPERATOR_RUNNER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"

namespace weir::partitioner {

enum class Mode { kTrain, kEvaluate };  // kEvaluate: dropout off, BatchNorm by its running statistics

class OperatorRunner {
 public:
  // `model` is only read, and need not outlive the runner, but its graph's constants are shared.
  OperatorRunner(const LoweredModel& model, int operator_index, Mode mode);

  // `inputs` as operator_graph.operators[i].inputs, `parameters` as .parameters; returns .outputs.
  // `seed` fixes what random operators draw: equal seeds give equal masks wherever the operator runs (dropout.h: on every
  // device). Thread-safe: random operators other than dropout take a process-wide lock, because LibTorch's generator is one per
  // device.
  std::vector<at::Tensor> Run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& parameters,
                              std::uint64_t seed) const;

  // The seed of each dropout mask that Run(..., seed) may make, in order.
  std::vector<std::uint64_t> MaskSeeds(std::uint64_t seed) const;

 private:
  struct Instruction {
    std::function<void(torch::jit::Stack&)> run;
    std::vector<int> inputs;   // slots
    std::vector<int> outputs;  // slots
    bool random = false;
    std::function<void(torch::jit::Stack&, std::uint64_t)> masked;  // dropout by our own mask; null otherwise
  };
  std::vector<c10::IValue> constants_;  // the first slots
  std::vector<Instruction> instructions_;
  std::vector<int> output_slots_;
  int num_slots_ = 0;
};

// True for operators whose result depends on a random generator in train mode.
bool DrawsRandomNumbers(const torch::jit::Node* node);

// Of those: from LibTorch's generator, not through a mask of our own (dropout.h).
bool DrawsFromGenerator(const torch::jit::Node* node);

// Values that a node reads, also from within its blocks (captures), in order, each once.
std::vector<torch::jit::Value*> Reads(const torch::jit::Node* node);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_TORCHSCRIPT_OPERATOR_RUNNER_H_
