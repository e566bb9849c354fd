#include "env/workload/generator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "env/core/error.h"
#include "env/core/rng.h"
#include "env/core/yaml.h"
#include "env/sim/cluster_state.h"

namespace weir {
namespace {

double NormalCdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

double PositiveQuantity(const Yaml& map, const char* key, Unit unit) {
  const Yaml value = map.Required(key);
  const double result = value.AsQuantity(unit);
  if (!(result > 0)) value.Fail(std::string(DescribeUnit(unit)) + " above 0");
  return result;
}

std::vector<int> IntList(const Yaml& map, const char* key, int low, int high) {
  const Yaml list = map.Required(key);
  std::vector<int> values;
  for (const Yaml& item : list.Items()) values.push_back(static_cast<int>(item.AsInt(low, high)));
  if (values.empty()) list.Fail("a list of at least one number", "an empty list");
  return values;
}

ModelMix::Model ModelFromYaml(const Yaml& item) {
  ModelMix::Model model;
  model.name = item.Required("name").AsString();
  model.gmac = item.Required("gmac").AsDouble(1e-9, 1e9);
  model.params = item.Required("params").AsDouble(0, 1e15);
  model.activation_bytes = item.Required("activation").AsQuantity(Unit::kBytes);
  model.batches = IntList(item, "batches", 1, 1 << 20);
  const Yaml stages = item.Required("stages");
  double sum = 0;
  for (const Yaml& stage : stages.Items()) {
    model.stages.push_back(stage.AsDouble(1e-9, 1e9));
    sum += model.stages.back();
  }
  if (model.stages.empty()) stages.Fail("a list of at least one share", "an empty list");
  for (double& stage : model.stages) stage /= sum;
  const int s = static_cast<int>(model.stages.size());
  model.subgraphs = IntList(item, "subgraphs", 1, s);
  if (auto arcs = item.Optional("arcs")) {
    for (const Yaml& arc : arcs->Items()) {
      const std::vector<Yaml> parts = arc.Items();
      if (parts.size() != 3) arc.Fail("a list [from, to, elements]", "a list of " + std::to_string(parts.size()));
      ModelMix::Arc out;
      out.from = static_cast<int>(parts[0].AsInt(0, s - 1));
      out.to = static_cast<int>(parts[1].AsInt(0, s - 1));
      if (out.from >= out.to) arc.Fail("an arc to a later stage", std::to_string(out.from) + " -> " + std::to_string(out.to));
      out.elements = parts[2].AsDouble(0, 1e15);
      model.arcs.push_back(out);
    }
  }
  item.Finish();
  return model;
}

ModelMix MixFromYaml(const Yaml& root) {
  ModelMix mix;
  mix.name = root.String("name", "");
  const Yaml duration = root.Required("duration");
  mix.median_seconds = PositiveQuantity(duration, "median", Unit::kSeconds);
  mix.sigma = duration.Required("sigma").AsDouble(1e-6, 10);
  mix.min_seconds = PositiveQuantity(duration, "min", Unit::kSeconds);
  mix.max_seconds = PositiveQuantity(duration, "max", Unit::kSeconds);
  if (mix.min_seconds > mix.median_seconds || mix.median_seconds > mix.max_seconds)
    duration.Fail("in order: min <= median <= max");
  mix.reference_flops = PositiveQuantity(duration, "reference", Unit::kFlopPerSecond);
  duration.Finish();
  mix.micro_batches = IntList(root, "micro_batches", 1, 1 << 20);
  mix.flop_per_mac = root.Required("flop_per_mac").AsDouble(1e-9, 1e9);
  mix.bytes_per_param = root.Required("bytes_per_param").AsDouble(0, 1e9);
  mix.bytes_per_element = root.Required("bytes_per_element").AsDouble(0, 1e9);
  mix.overhead_bytes = root.Required("overhead").AsQuantity(Unit::kBytes);
  const Yaml models = root.Required("models");
  for (const Yaml& item : models.Items()) mix.models.push_back(ModelFromYaml(item));
  if (mix.models.empty()) models.Fail("a list of at least one model", "an empty list");
  root.Finish();
  return mix;
}

}  // namespace

ModelMix ReadModelMix(const std::string& path) {
  return MixFromYaml(Yaml::ParseFile(path));
}
ModelMix ParseModelMix(const std::string& text, const std::string& source) {
  return MixFromYaml(Yaml::ParseText(text, source));
}

double ModelMix::MeanSeconds() const {
  const double mu = std::log(median_seconds);
  const double a = (std::log(min_seconds) - mu) / sigma, b = (std::log(max_seconds) - mu) / sigma;
  return std::exp(mu + sigma * sigma / 2) * (NormalCdf(b - sigma) - NormalCdf(a - sigma)) / (NormalCdf(b) - NormalCdf(a));
}

JobSpec MakeProfile(const ModelMix& mix, const ModelMix::Model& model, int batch, int subgraphs, int micro_batches) {
  JobSpec job;
  job.name = fmt::format("{}-b{}-k{}-m{}", model.name, batch, subgraphs, micro_batches);
  job.job_class = model.name;
  job.micro_batches = micro_batches;
  job.subgraphs.resize(subgraphs);
  const int stages = static_cast<int>(model.stages.size());
  const auto subgraph_of = [&](int stage) { return stage * subgraphs / stages; };
  std::vector<double> share(subgraphs, 0.0);
  std::vector<int> count(subgraphs, 0);
  for (int s = 0; s < stages; ++s) {
    share[subgraph_of(s)] += model.stages[s];
    ++count[subgraph_of(s)];
  }
  for (int i = 0; i < subgraphs; ++i) {
    job.subgraphs[i].flop = mix.flop_per_mac * 1e9 * model.gmac * batch * share[i];
    job.subgraphs[i].param_bytes = 4 * model.params / stages * count[i];
    job.subgraphs[i].memory_bytes =
        mix.bytes_per_param * model.params / stages * count[i] + model.activation_bytes * batch * share[i] + mix.overhead_bytes;
  }
  std::map<std::pair<int, int>, double> bytes;  // (to, from): arcs sorted by their end
  for (const ModelMix::Arc& arc : model.arcs) {
    const int from = subgraph_of(arc.from), to = subgraph_of(arc.to);
    if (from != to) bytes[{to, from}] += mix.bytes_per_element * batch * arc.elements;
  }
  for (const auto& [ends, size] : bytes) job.arcs.push_back({ends.second, ends.first, size});
  return job;
}

std::vector<JobSpec> AllProfiles(const ModelMix& mix) {
  std::vector<JobSpec> profiles;
  for (const ModelMix::Model& model : mix.models) {
    for (int b : model.batches) {
      for (int k : model.subgraphs) {
        for (int m : mix.micro_batches) profiles.push_back(MakeProfile(mix, model, b, k, m));
      }
    }
  }
  return profiles;
}

Workload GenerateWorkload(const ModelMix& mix, const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) {
  if (!(options.load > 0) || !std::isfinite(options.load)) throw Invalid("load must be a number > 0, got {}", options.load);
  if (options.jobs < 1) throw Invalid("jobs must be >= 1, got {}", options.jobs);
  const ClusterState empty(workers);
  // Per model the profiles that fit; a model of which none does is left out.
  std::vector<std::vector<JobSpec>> by_model;
  for (const ModelMix::Model& model : mix.models) {
    std::vector<JobSpec> fitting;
    for (int b : model.batches) {
      for (int k : model.subgraphs) {
        for (int m : mix.micro_batches) {
          JobSpec profile = MakeProfile(mix, model, b, k, m);
          if (empty.FitsEmptyCluster(profile)) fitting.push_back(std::move(profile));
        }
      }
    }
    if (!fitting.empty()) by_model.push_back(std::move(fitting));
  }
  if (by_model.empty()) throw Invalid("workload {}: no profile fits the memory of the cluster", mix.name);
  const double mean_gap = mix.MeanSeconds() * mix.reference_flops / (options.load * empty.total_flops());
  // One stream per quantity: more jobs or another load leave the drawn models and durations as they are.
  const Rng root(options.seed);
  Rng gaps = root.Split(1), shapes = root.Split(2), durations = root.Split(3);
  Workload jobs;
  SimTime now = 0;
  for (int id = 0; id < options.jobs; ++id) {
    now += gaps.Exponential(mean_gap);
    const std::vector<JobSpec>& profiles = by_model[shapes.Below(by_model.size())];
    JobSpec job = profiles[shapes.Below(profiles.size())];
    double seconds = 0;
    do {
      seconds = durations.LogNormal(mix.median_seconds, mix.sigma);
    } while (seconds < mix.min_seconds || seconds > mix.max_seconds);
    job.id = id;
    job.arrival = now;
    job.iterations = std::max(1.0, std::round(seconds * mix.reference_flops / job.total_flop()));
    jobs.push_back(std::make_shared<const JobSpec>(std::move(job)));
  }
  return jobs;
}

}  // namespace weir
