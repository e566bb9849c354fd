// Trains a policy: imitation of a teacher (cross-entropy over the legal actions), then PPO on paired episodes; the best weights
// on validation episodes are kept. Equal configs give equal policies, on any number of threads and across --resume; only a time
// limit makes the number of updates depend on the machine.
#ifndef WEIR_AGENT_TRAIN_TRAIN_H_
#define WEIR_AGENT_TRAIN_TRAIN_H_

#include <string>
#include <vector>

#include "agent/train/train_config.h"

namespace weir {

struct TrainOptions {
  TrainConfig config;
  std::string out;          // policy file; checkpoints go to out + ".ckpt"
  bool resume = false;      // go on from the checkpoint; refused where the config differs
  double minutes = 0;       // stop after about that much wall time; 0: no limit
  int threads = 0;          // 0: all cores
  std::string tensorboard;  // folder for event files; empty: none
  bool progress = true;     // lines on stderr
};

struct TrainReport {
  std::string hash;                // of the policy file
  int updates = 0;                 // PPO updates done
  int best_update = 0;             // 0: the weights after imitation
  double imitation_agreement = 0;  // share of held-back decisions where the student's best action is the teacher's
  double imitation_score = 0;      // validation score after imitation
  double best_score = 0;  // mean over validation episodes of ln(mean JCT / teacher's); below 0 is better than the teacher
  struct Cell {
    std::string name;
    double policy_over_teacher = 0;  // geometric mean over episodes
  };
  std::vector<Cell> cells;  // of the best weights
  double seconds = 0;
  bool out_of_time = false;
};

// Through libweir_torch.so. Throws Error.
TrainReport Train(const TrainOptions& options);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_TRAIN_H_
