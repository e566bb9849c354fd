// Training and validation episodes as pure functions of a config and a seed.
#ifndef WEIR_AGENT_TRAIN_EPISODES_H_
#define WEIR_AGENT_TRAIN_EPISODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "agent/train/train_config.h"
#include "env/mdp/scheduling_env.h"

namespace weir {

// A cluster of the config (uniform), a load and a number of jobs, uniform in their ranges. For the share `random_clusters` a
// cluster whose workers are drawn from all of the config's: their number log-uniform, speed times e^N(0, 0.5), memory times 0.35
// .. 1.2, bandwidth times e^N(0, 0.7). For half of these all compute (and the work of jobs) is scaled by 1/300 .. 1, so that
// links are fast beside it; for half the durations are scaled by 1/300 .. 1. More jobs where there are more than 8 workers.
EpisodeSource TrainingEpisodes(const TrainConfig& config);

// The cells of validation: cluster x load; seed i of a cell is its i-th episode. Disjoint from training.
struct ValidationCell {
  std::string name;  // "edge8 0.7"
  EpisodeSource episodes;
};
std::vector<ValidationCell> ValidationCells(const TrainConfig& config);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_EPISODES_H_
