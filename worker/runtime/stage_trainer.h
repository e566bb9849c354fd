// Trains one stage of a job from where it begins or goes on to the returned weights: micro-batches forward and backward in the
// order of the pipeline, gradient norms over all parts, optimiser, evaluation on the held-out samples, checkpoints, collection of
// all weights at the stage that owns the output. The same code trains a whole model (one stage, no exchange).
//
// BatchNorm under micro-batches: each micro-batch is normalised by its own mean and variance, and the running statistics move
// once a micro-batch, in their order (as in GPipe, section 2.1); held-out samples are normalised by the running statistics. A
// batch in m micro-batches therefore differs from a batch in one; how the model is cut makes no difference.
#ifndef WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_
#define WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_

#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/protocol/dataset.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/exchange.h"

namespace weir::worker {

struct TrainerProgress {
  std::int64_t iteration = 0, total = 0;  // done, of all
  double loss = 0;                        // mean over the batch
  std::int64_t epoch = 0;                 // of the last evaluation, from 1; 0: none yet
  double eval_loss = 0, eval_accuracy = -1;
};

struct CheckpointWish {
  bool take = false;
  bool stop = false;  // and end there
};

struct TrainerHooks {
  // After each iteration of the stage that owns the output (on an accelerator one iteration late).
  std::function<void(const TrainerProgress&)> progress;
  // Called after `flop` FLOP of this stage were computed in `seconds`: may sleep, to emulate a slower device. Null: full speed.
  std::function<void(double flop, double seconds)> pace;
  // Throws Aborted when the job is to stop. Called at least once a micro-batch.
  std::function<void()> check;
  // Asked at the beginning of each iteration by the stage that owns the output: whether all stages take a checkpoint at its end.
  std::function<CheckpointWish()> wish;
  // This stage's state after `iteration` iterations (snapshot.h). `seconds`: that training stood still for it.
  std::function<void(std::int64_t iteration, std::string file, bool stopped, double seconds)> checkpoint;
};

struct TrainerSetup {
  at::Device device = at::Device(at::kCPU);
  std::vector<std::string> resume_paths;  // the files of assign.resume
  bool graphs =
      true;  // replay iterations from a recorded graph where the device has them and the part is static (device_graph.h)
};

struct TrainerResult {
  bool stopped = false;        // by a checkpoint that was to be the last; then only `losses` and `weights` are set
  std::string torchscript;     // bytes of the trained model; empty unless this stage owns the output
  std::string onnx;            // the same as ONNX, where the model came as that
  std::vector<double> losses;  // by iteration, from where it began; empty unless this stage owns the output
  double final_loss = 0;       // mean over the last epoch
  double accuracy = -1;        // share of held-out samples (tokens) whose largest output is their label; -1: none
  double eval_loss = 0;        // of the held-out samples
  std::vector<double> epoch_losses, epoch_accuracies;  // held-out, after each epoch that was evaluated
  std::int64_t held_out_samples = 0;
  double compute_seconds = 0;
  std::vector<at::Tensor> weights;  // by weight index, on the CPU; all where this stage owns the output, else its own
};

// `assign` as it came from the coordinator (peers unused), `model_content` the model file's bytes. Throws Error (kInvalid: the
// job's own fault, one line), DamagedSnapshot or Aborted. `exchange` may be null where num_stages is 1.
TrainerResult TrainStage(const wire::Assign& assign, const std::string& model_content, const Dataset& data, Exchange* exchange,
                         const TrainerHooks& hooks, const TrainerSetup& setup = {});

// Checks the model against data and loss by shape alone, before anything runs; throws Error(kInvalid) saying what was expected
// and found.
void CheckModelFits(const wire::TrainSpec& train, const std::string& model_name, const std::vector<std::int64_t>& output_shape,
                    const Dataset& data);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_
