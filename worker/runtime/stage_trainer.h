// Trains one stage of a job from its first iteration to the returned weights: micro-batches forward, then backward (GPipe order),
// optimiser, evaluation on the held-out samples, collection of all weights at the stage that owns the output.
// The same code trains a whole model (one stage, no exchange).
#ifndef WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_
#define WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_

#include <functional>
#include <string>

#include "worker/protocol/dataset.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/exchange.h"

namespace weir::worker {

struct TrainerHooks {
  // After each iteration of the stage that owns the output.
  std::function<void(std::int64_t iteration, std::int64_t total, double loss)> progress;
  // Called after `flop` FLOP of this stage were computed in `seconds`: may sleep, to emulate a slower device. Null: full speed.
  std::function<void(double flop, double seconds)> pace;
  // Throws Aborted when the job is to stop. Called at least once a micro-batch.
  std::function<void()> check;
};

struct TrainerResult {
  std::string torchscript;     // bytes of the trained model; empty unless this stage owns the output
  std::vector<double> losses;  // by iteration; empty unless this stage owns the output
  double final_loss = 0;       // mean over the last epoch
  double accuracy = -1;        // share of held-out samples whose largest output is their label; -1: none held out
  std::int64_t held_out_samples = 0;
  double compute_seconds = 0;
  std::vector<at::Tensor> weights;  // by weight index; all where this stage owns the output, else its own
};

// `assign` as it came from the coordinator (peers unused), `model_content` the model file's bytes. Throws Error (kInvalid: the
// job's own fault, one line) or Aborted. `exchange` may be null where num_stages is 1.
TrainerResult TrainStage(const wire::Assign& assign, const std::string& model_content, const Dataset& data, Exchange* exchange,
                         const TrainerHooks& hooks);

// Checks the model against data and loss by shape alone, before anything runs; throws Error(kInvalid) saying what was expected
// and found.
void CheckModelFits(const wire::TrainSpec& train, const std::string& model_name, const std::vector<std::int64_t>& output_shape);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_STAGE_TRAINER_H_
