// One stage of a training job: some operators of a model, run forward and backward over micro-batches with LibTorch's autograd.
// A whole model is the case of one stage; two stages on two workers compute the same bits (see FanOut and OperatorRunner::Run).
#ifndef WEIR_WORKER_RUNTIME_STAGE_H_
#define WEIR_WORKER_RUNTIME_STAGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "partitioner/torchscript/lowered_model.h"
#include "partitioner/torchscript/operator_runner.h"

namespace weir::worker {

// A tensor that crosses from one stage to another.
struct CutTensor {
  int tensor = 0;  // tensor id of the operator graph
  int from_stage = 0;
  int to_stage = 0;
  std::vector<int> readers;  // operators of to_stage that read it, ascending
};

// Every crossing of a model whose operator i runs in stage stage_of[i], in tensor order, then by to_stage.
// The model's inputs don't cross: each stage that reads them loads the data itself.
std::vector<CutTensor> CutTensors(const partitioner::OperatorGraph& graph, const std::vector<int>& stage_of);

class Stage {
 public:
  // `weights` (by weight index; undefined where this stage doesn't use it) are updated in place by the caller's optimiser:
  // trainable ones must be leaves that require a gradient. Keeps a reference to `model`.
  Stage(const partitioner::LoweredModel& model, std::vector<int> stage_of, int stage, std::vector<at::Tensor> weights);

  const std::vector<CutTensor>& imports() const { return imports_; }  // to this stage
  const std::vector<CutTensor>& exports() const { return exports_; }  // from this stage
  bool reads_input() const { return reads_input_; }
  bool has_output() const { return has_output_; }  // produces the model's first output
  const std::vector<int>& weight_ids() const { return weight_ids_; }
  at::Tensor weight(int id) const { return weights_[id]; }

  struct Forwarded {
    std::vector<at::Tensor> exports;  // parallel to exports(); still attached to this stage's autograd graph
    at::Tensor output;                // the model's first output where has_output()
  };
  // Runs micro-batch `micro_batch` and keeps what its backward needs (mode kTrain only). `received` is parallel to imports(),
  // with requires_grad as it was at the sender; `input` is the model's input where reads_input(). `seed` fixes random operators:
  // equal for all stages of the same (iteration, micro-batch).
  Forwarded Forward(int micro_batch, partitioner::Mode mode, std::uint64_t seed, const std::vector<at::Tensor>& received,
                    const at::Tensor& input);

  // Gradients of one crossing, one for each of its readers (undefined where there is none).
  using Gradients = std::vector<at::Tensor>;
  // `from_readers` is parallel to exports() (ignored where the export needs no gradient), `loss` the scalar loss where
  // has_output(). Returns the gradients parallel to imports(); accumulates into the weights' .grad.
  std::vector<Gradients> Backward(int micro_batch, const std::vector<Gradients>& from_readers, const at::Tensor& loss);
  // Whether export i of this micro-batch expects gradients back.
  bool NeedsGradient(int micro_batch, std::size_t export_index) const;
  // Drops what waits for a backward pass that won't come.
  void Forget() { pending_.clear(); }
  // An operator of this stage draws from LibTorch's generator in train mode (dropout doesn't: it has masks of our own).
  bool draws_from_generator() const;
  // The seeds of all dropout masks of Forward(..., kTrain, seed, ...), in order. REQUIRES: Forward has run in that mode.
  std::vector<std::uint64_t> MaskSeeds(std::uint64_t seed) const;
  // Whether import i goes back with gradients: as its sender had it in the last forward pass in train mode.
  bool ImportNeedsGradient(std::size_t import_index) const { return import_needs_gradient_[import_index]; }

 private:
  struct Pending {                                // between Forward and Backward of a micro-batch
    std::vector<std::vector<at::Tensor>> leaves;  // by import, by reader
    std::vector<std::vector<at::Tensor>> roots;   // by export, by reader: empty where no gradient is needed
  };
  const partitioner::LoweredModel& model_;
  std::vector<int> stage_of_;
  int stage_;
  std::vector<at::Tensor> weights_;
  std::vector<int> weight_ids_;
  std::vector<int> operators_;
  std::vector<CutTensor> imports_, exports_;
  std::map<int, std::unique_ptr<partitioner::OperatorRunner>> runners_[2];  // by mode, by operator; made on first use
  std::vector<bool> import_needs_gradient_;
  bool reads_input_ = false, has_output_ = false;
  std::map<int, Pending> pending_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_STAGE_H_
