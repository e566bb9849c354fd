// Training configs (configs/train/*.yaml). Keys, units and defaults: configs/train/default.yaml, which lists all of them.
#ifndef WEIR_AGENT_TRAIN_TRAIN_CONFIG_H_
#define WEIR_AGENT_TRAIN_TRAIN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "agent/policy/policy_file.h"
#include "env/sim/spec.h"
#include "env/workload/generator.h"

namespace weir {

struct TrainConfig {
  std::uint64_t seed = 1;
  NetworkSizes sizes;
  std::vector<std::string> ignored;  // names of features that get scale 0

  // What episodes are drawn from.
  struct NamedCluster {
    std::string name;
    std::vector<WorkerSpec> workers;
  };
  std::vector<NamedCluster> clusters;
  ModelMix mix;
  double load_low = 0.5, load_high = 0.9;
  int jobs_low = 40, jobs_high = 100;
  double random_clusters = 0.25;  // share of episodes on a random cluster, see episodes.h
  int random_workers_low = 3, random_workers_high = 32;

  struct Imitation {
    std::string teacher = "rule";
    int rounds = 4;        // the first driven by the teacher, the later ones by the student
    int episodes = 64;     // a round
    int passes = 4;        // over all samples so far, a round
    int minibatch = 1024;  // samples
    double learning_rate = 1e-3;
  } imitation;

  struct Ppo {
    int updates = 60;
    int sequences = 8;  // arrival sequences an update
    int rollouts = 8;   // of each sequence
    int passes = 3;
    int minibatch = 2048;
    double learning_rate = 3e-4;
    double clip = 0.2;
    double kl_stop = 0.01;
    double entropy_start = 0.01, entropy_end = 0.001;
    double gradient_norm = 0.5;
    double horizon_gaps = 40;  // time constant of the discount, in mean gaps between arrivals
    double value_weight = 0.5;
  } ppo;

  struct Validation {
    int every = 5;     // updates
    int episodes = 6;  // for each cluster and load
    int jobs = 100;
    std::vector<double> loads = {0.7};
    int patience = 8;  // validations without a better one until the end
  } validation;

  std::string text;  // of the file
};

// Paths inside are relative to the file. Throws Error(kInvalid) with file:line and the field.
TrainConfig ReadTrainConfig(const std::string& path);
TrainConfig ParseTrainConfig(const std::string& text, const std::string& source, const std::string& folder);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_TRAIN_CONFIG_H_
