// Training and validation episodes as pure functions of a config and a seed.
#ifndef WEIR_AGENT_TRAIN_EPISODES_H_
#define WEIR_AGENT_TRAIN_EPISODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "agent/train/train_config.h"
#include "env/mdp/scheduling_env.h"

namespace weir {

// A cluster of the config (uniform) or, for the share `random_clusters`, one whose workers are drawn from all of them with speed
// scaled by e^N(0, 0.5), memory by 0.35 .. 1.2, bandwidth by e^N(0, 0.7); a load and a number of jobs, uniform in their ranges;
// sizes scaled in time by a factor of 1/300 .. 1 (log-uniform) for half of the random ones, so that short jobs are seen too.
EpisodeSource TrainingEpisodes(const TrainConfig& config);

// The cells of validation: cluster x load; seed i of a cell is its i-th episode. Disjoint from training.
struct ValidationCell {
  std::string name;  // "edge8 0.7"
  EpisodeSource episodes;
};
std::vector<ValidationCell> ValidationCells(const TrainConfig& config);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_EPISODES_H_
