// Random workloads from a mix of models (configs/workloads/*.yaml), seeded.
//
// A job: a model, by weight; of it a profile, uniform; a duration D by the law of durations.h; N = round(D * reference / F), at
// least 1. Arrivals by the process of arrivals.h at the rate load * (sum of flops) / (mean of N*F = E[D] * reference).
// A profile that doesn't fit the cluster when it is empty isn't drawn.
// Profiles are listed in a file (profiles.h) or follow from a model's description: batch b, k subgraphs, M micro-batches. A model
// has S stages; stage s goes to subgraph floor(s*k/S). Per subgraph
//   FLOP   = flop_per_mac * GMAC * 1e9 * b * (share of its stages)
//   memory = bytes_per_param * params/S per stage + activation * b * (share) + overhead
//   arc    = bytes_per_element * b * elements, summed per pair of subgraphs
// With estimate_error > 0 schedulers are told N * exp(estimate_error * z), z standard normal, in place of N (at least 1).
#ifndef WEIR_ENV_WORKLOAD_GENERATOR_H_
#define WEIR_ENV_WORKLOAD_GENERATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "env/sim/simulator.h"
#include "env/sim/spec.h"
#include "env/workload/arrivals.h"
#include "env/workload/durations.h"

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
    double weight = 1;
    std::vector<JobSpec> profiles;  // where they are listed; the fields from gmac to arcs are empty then
  };
  std::string name;
  DurationLaw duration;
  double reference_flops = 0;
  ArrivalProcess arrivals;
  double estimate_error = 0;  // sigma
  std::vector<int> micro_batches;
  double flop_per_mac = 0, bytes_per_param = 0, bytes_per_element = 0, overhead_bytes = 0;
  std::vector<Model> models;
  std::vector<std::string> files;  // besides its own that it was read from
};

// Throw Error(kInvalid) with file:line and the field.
ModelMix ReadModelMix(const std::string& path);
ModelMix ParseModelMix(const std::string& text, const std::string& source);  // files that it names: beside `source`
ModelMix ModelMixFromYaml(const Yaml& root, const std::string& folder);

// The job of one profile, with iterations 1 and id 0.
JobSpec MakeProfile(const ModelMix& mix, const ModelMix::Model& model, int batch, int subgraphs, int micro_batches);
std::vector<JobSpec> ProfilesOf(const ModelMix& mix, const ModelMix::Model& model);
// All profiles, model by model.
std::vector<JobSpec> AllProfiles(const ModelMix& mix);

// Index of an entry, with a chance proportional to its weight. One draw; equal weights: Below(n). REQUIRES: not empty, all > 0.
std::size_t DrawByWeight(const std::vector<double>& weights, Rng* rng);

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
