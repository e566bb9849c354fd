// Random workloads from a mix of models (configs/workloads/*.yaml): Poisson arrivals, log-normal durations, seeded.
//
// A job: a model, uniform; of it a profile (batch b, number of subgraphs k, micro-batches M), uniform; a duration D, log-normal
// and redrawn outside [min, max]; N = round(D * reference / F), at least 1. A model has S stages; stage s goes to subgraph
// floor(s*k/S). Per subgraph
//   FLOP   = flop_per_mac * GMAC * 1e9 * b * (share of its stages)
//   memory = bytes_per_param * params/S per stage + activation * b * (share) + overhead
//   arc    = bytes_per_element * b * elements, summed per pair of subgraphs
// Arrivals: rate = load * (sum of flops) / (mean of N*F = E[D] * reference, E in closed form).
// A profile that doesn't fit the cluster when it is empty is redrawn.
#ifndef WEIR_ENV_WORKLOAD_GENERATOR_H_
#define WEIR_ENV_WORKLOAD_GENERATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "env/sim/simulator.h"
#include "env/sim/spec.h"

namespace weir {

struct ModelMix {
  struct Arc {
    int from = 0, to = 0;  // stages
    double elements = 0;
  };
  struct Model {
    std::string name;
    double gmac = 0;  // per sample, forward
    double params = 0;
    double activation_bytes = 0;  // per sample
    std::vector<int> batches;
    std::vector<int> subgraphs;
    std::vector<double> stages;  // shares, scaled to sum to 1
    std::vector<Arc> arcs;
  };
  std::string name;
  double median_seconds = 0, sigma = 0, min_seconds = 0, max_seconds = 0;
  double reference_flops = 0;
  std::vector<int> micro_batches;
  double flop_per_mac = 0, bytes_per_param = 0, bytes_per_element = 0, overhead_bytes = 0;
  std::vector<Model> models;

  double MeanSeconds() const;  // E[D], of the truncated log-normal
};

// Throw Error(kInvalid) with file:line and the field.
ModelMix ReadModelMix(const std::string& path);
ModelMix ParseModelMix(const std::string& text, const std::string& source);

// The job of one profile, with iterations 1 and id 0.
JobSpec MakeProfile(const ModelMix& mix, const ModelMix::Model& model, int batch, int subgraphs, int micro_batches);
// All profiles, model by model.
std::vector<JobSpec> AllProfiles(const ModelMix& mix);

struct WorkloadOptions {
  double load = 0.7;  // offered work / total flops, > 0
  int jobs = 150;
  std::uint64_t seed = 1;
};
// Jobs 0 .. jobs-1 in order of arrival. A pure function of its arguments. Throws Error(kInvalid) for load <= 0, jobs < 1, or a
// mix of which nothing fits the cluster.
Workload GenerateWorkload(const ModelMix& mix, const std::vector<WorkerSpec>& workers, const WorkloadOptions& options);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_GENERATOR_H_
