#include "agent/train/train_config.h"

#include <algorithm>
#include <filesystem>

#include "agent/baselines/baselines.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/yaml.h"
#include "env/mdp/observation.h"
#include "env/workload/cluster_file.h"

namespace weir {
namespace {

// [low, high]
void ReadRange(const Yaml& map, const char* key, double least, double most, double* low, double* high) {
  const auto range = map.Optional(key);
  if (!range) return;
  const auto items = range->Items();
  if (items.size() != 2) range->Fail("[low, high]");
  *low = items[0].AsDouble(least, most);
  *high = items[1].AsDouble(*low, most);
}
void ReadRange(const Yaml& map, const char* key, int least, int most, int* low, int* high) {
  const auto range = map.Optional(key);
  if (!range) return;
  const auto items = range->Items();
  if (items.size() != 2) range->Fail("[low, high]");
  *low = static_cast<int>(items[0].AsInt(least, most));
  *high = static_cast<int>(items[1].AsInt(*low, most));
}

}  // namespace

TrainConfig ReadTrainConfig(const std::string& path) {
  return ParseTrainConfig(ReadFile(path, std::size_t{4} << 20), path, std::filesystem::path(path).parent_path().string());
}

TrainConfig ParseTrainConfig(const std::string& text, const std::string& source, const std::string& folder) {
  const Yaml root = Yaml::ParseText(text, source);
  const auto resolve = [&](const std::string& path) {
    return (std::filesystem::path(folder) / path).lexically_normal().string();
  };
  const auto integer = [](const Yaml& map, const char* key, int fallback, int low, int high) {
    return static_cast<int>(map.Int(key, fallback, low, high));
  };
  TrainConfig c;
  c.text = text;
  c.seed = static_cast<std::uint64_t>(root.Int("seed", 1, 0, std::int64_t{1} << 62));
  if (const auto network = root.Optional("network")) {
    c.sizes.embed = integer(*network, "embed", c.sizes.embed, 1, 256);
    c.sizes.hidden = integer(*network, "hidden", c.sizes.hidden, 1, 1024);
    c.sizes.head = integer(*network, "head", c.sizes.head, 1, 1024);
    if (const auto ignored = network->Optional("ignore_features")) {
      std::vector<std::string> known;
      for (const auto* names : {&GlobalFeatureNames(), &WorkerFeatureNames(), &JobFeatureNames(), &CandidateFeatureNames()}) {
        known.insert(known.end(), names->begin(), names->end());
      }
      for (const Yaml& item : ignored->Items()) {
        c.ignored.push_back(item.AsString());
        if (std::find(known.begin(), known.end(), c.ignored.back()) == known.end()) {
          item.Fail("a feature's name (nearest: '" + NearestName(c.ignored.back(), known) + "')");
        }
      }
    }
    network->Finish();
  }
  const Yaml episodes = root.Required("episodes");
  c.mix = ReadModelMix(resolve(episodes.Required("workload").AsString()));
  for (const Yaml& item : episodes.Required("clusters").Items()) {
    Cluster cluster = ReadCluster(resolve(item.AsString()));
    c.clusters.push_back({cluster.name, std::move(cluster.workers)});
  }
  if (c.clusters.empty()) episodes.Required("clusters").Fail("a list of at least one cluster file");
  ReadRange(episodes, "load", 0.01, 10.0, &c.load_low, &c.load_high);
  ReadRange(episodes, "jobs", 1, 100000, &c.jobs_low, &c.jobs_high);
  c.random_clusters = episodes.Double("random_clusters", c.random_clusters, 0, 1);
  ReadRange(episodes, "random_workers", 1, 256, &c.random_workers_low, &c.random_workers_high);
  episodes.Finish();
  if (const auto imitation = root.Optional("imitation")) {
    if (const auto teacher = imitation->Optional("teacher")) {
      c.imitation.teacher = BaselineNames()[teacher->AsEnum(BaselineNames())];
    }
    c.imitation.rounds = integer(*imitation, "rounds", c.imitation.rounds, 0, 1000);
    c.imitation.episodes = integer(*imitation, "episodes", c.imitation.episodes, 1, 1000000);
    c.imitation.passes = integer(*imitation, "passes", c.imitation.passes, 1, 1000);
    c.imitation.minibatch = integer(*imitation, "minibatch", c.imitation.minibatch, 1, 1 << 20);
    c.imitation.learning_rate = imitation->Double("learning_rate", c.imitation.learning_rate, 1e-9, 1);
    imitation->Finish();
  }
  if (const auto ppo = root.Optional("ppo")) {
    c.ppo.updates = integer(*ppo, "updates", c.ppo.updates, 0, 1000000);
    c.ppo.sequences = integer(*ppo, "sequences", c.ppo.sequences, 1, 100000);
    c.ppo.rollouts = integer(*ppo, "rollouts", c.ppo.rollouts, 2, 1000);
    c.ppo.passes = integer(*ppo, "passes", c.ppo.passes, 1, 100);
    c.ppo.minibatch = integer(*ppo, "minibatch", c.ppo.minibatch, 1, 1 << 20);
    c.ppo.learning_rate = ppo->Double("learning_rate", c.ppo.learning_rate, 1e-9, 1);
    c.ppo.clip = ppo->Double("clip", c.ppo.clip, 0.001, 1);
    c.ppo.kl_stop = ppo->Double("kl_stop", c.ppo.kl_stop, 1e-6, 10);
    c.ppo.entropy_start = ppo->Double("entropy_start", c.ppo.entropy_start, 0, 10);
    c.ppo.entropy_end = ppo->Double("entropy_end", c.ppo.entropy_end, 0, 10);
    c.ppo.gradient_norm = ppo->Double("gradient_norm", c.ppo.gradient_norm, 1e-6, 1e6);
    c.ppo.horizon_gaps = ppo->Double("horizon_gaps", c.ppo.horizon_gaps, 0.1, 1e6);
    c.ppo.value_weight = ppo->Double("value_weight", c.ppo.value_weight, 0, 100);
    ppo->Finish();
  }
  if (const auto validation = root.Optional("validation")) {
    c.validation.every = integer(*validation, "every", c.validation.every, 1, 100000);
    c.validation.episodes = integer(*validation, "episodes", c.validation.episodes, 1, 100000);
    c.validation.jobs = integer(*validation, "jobs", c.validation.jobs, 1, 100000);
    c.validation.patience = integer(*validation, "patience", c.validation.patience, 1, 100000);
    if (const auto loads = validation->Optional("loads")) {
      c.validation.loads.clear();
      for (const Yaml& item : loads->Items()) c.validation.loads.push_back(item.AsDouble(0.01, 10));
      if (c.validation.loads.empty()) loads->Fail("a list of at least one load");
    }
    validation->Finish();
  }
  root.Finish();
  return c;
}

}  // namespace weir
