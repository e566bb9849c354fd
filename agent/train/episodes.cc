#include "agent/train/episodes.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "env/core/error.h"
#include "env/core/rng.h"

namespace weir {
namespace {

// Workload seeds are hashed into these streams; small seeds stay free for comparisons.
constexpr std::uint64_t kTraining = 0x7261696e, kValidation = 0x76616c69;

double LogUniform(Rng* rng, double low, double high) {
  return std::exp(rng->Uniform(std::log(low), std::log(high)));
}

// `compute` scales every FLOP/s.
std::vector<WorkerSpec> RandomCluster(const TrainConfig& config, double compute, Rng* rng) {
  const int n = static_cast<int>(LogUniform(rng, config.random_workers_low, config.random_workers_high + 0.999));
  std::vector<WorkerSpec> workers;
  for (int i = 0; i < n; ++i) {
    const auto& from = config.clusters[rng->Below(config.clusters.size())].workers;
    WorkerSpec worker = from[rng->Below(from.size())];
    worker.name = "w" + std::to_string(i);
    worker.flops *= compute * rng->LogNormal(1, 0.5);
    worker.memory_bytes *= rng->Uniform(0.35, 1.2);
    worker.bandwidth *= rng->LogNormal(1, 0.7);
    worker.corun_gain = std::max(0.0, rng->Uniform(-0.1, 0.5));
    workers.push_back(worker);
  }
  return workers;
}

}  // namespace

EpisodeSource TrainingEpisodes(const TrainConfig& config) {
  auto shared = std::make_shared<const TrainConfig>(config);
  return [shared](std::uint64_t seed) {
    const TrainConfig& c = *shared;
    Rng rng(Mix64(seed, kTraining));
    Episode episode;
    const bool random = rng.Uniform() < c.random_clusters;
    ModelMix mix = c.mix;
    double compute = 1;
    if (random) {
      if (rng.Uniform() < 0.5) compute = LogUniform(&rng, 1.0 / 300, 1);
      const double time = rng.Uniform() < 0.5 ? LogUniform(&rng, 1.0 / 300, 1) : 1;
      mix.duration.Scale(time);
      mix.reference_flops *= compute;
      episode.workers = RandomCluster(c, compute, &rng);
    } else {
      episode.workers = c.clusters[rng.Below(c.clusters.size())].workers;
    }
    WorkloadOptions options;
    options.load = rng.Uniform(c.load_low, c.load_high);
    options.jobs = c.jobs_low + static_cast<int>(rng.Below(static_cast<std::uint64_t>(c.jobs_high - c.jobs_low + 1)));
    options.jobs = std::max(options.jobs, options.jobs * static_cast<int>(episode.workers.size()) / 8);  // enough to fill it
    options.seed = rng.Next();
    for (;;) {
      try {
        episode.jobs = GenerateWorkload(mix, episode.workers, options);
        return episode;
      } catch (const Error&) {  // nothing fits this random cluster
        if (!random) throw;
        episode.workers = RandomCluster(c, compute, &rng);
      }
    }
  };
}

std::vector<ValidationCell> ValidationCells(const TrainConfig& config) {
  auto shared = std::make_shared<const TrainConfig>(config);
  std::vector<ValidationCell> cells;
  for (std::size_t k = 0; k < config.clusters.size(); ++k) {
    for (double load : config.validation.loads) {
      cells.push_back(
          {fmt::format("{} {:g}", config.clusters[k].name, load), [shared, k, load](std::uint64_t seed) {
             WorkloadOptions options;
             options.load = load;
             options.jobs = shared->validation.jobs;
             options.seed = Mix64(seed, kValidation);
             return Episode{shared->clusters[k].workers, GenerateWorkload(shared->mix, shared->clusters[k].workers, options)};
           }});
    }
  }
  return cells;
}

}  // namespace weir
