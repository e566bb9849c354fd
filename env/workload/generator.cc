#include "env/workload/generator.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "env/core/error.h"
#include "env/core/rng.h"
#include "env/core/yaml.h"
#include "env/sim/cluster_state.h"
#include "env/workload/profiles.h"

namespace weir {
namespace {

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
  model.weight = item.Double("weight", 1, 1e-9, 1e9);
  item.Finish();
  return model;
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace

ModelMix ModelMixFromYaml(const Yaml& root, const std::string& folder) {
  ModelMix mix;
  auto beside = [&](const Yaml& file) { return (std::filesystem::path(folder) / file.AsString()).string(); };
  const auto base = root.Optional("mix");
  if (base) {
    const std::string path = beside(*base);
    mix = ReadModelMix(path);
    mix.files.insert(mix.files.begin(), path);
  }
  mix.name = root.String("name", mix.name);
  if (const auto duration = base ? root.Optional("duration") : root.Required("duration")) {
    mix.duration = DurationsFromYaml(*duration, folder);
    if (!mix.duration.file.empty()) mix.files.push_back(mix.duration.file);
    mix.reference_flops = PositiveQuantity(*duration, "reference", Unit::kFlopPerSecond);
    duration->Finish();
  }
  if (auto arrivals = root.Optional("arrivals")) mix.arrivals = ArrivalsFromYaml(*arrivals);
  mix.estimate_error = root.Double("estimate_error", mix.estimate_error, 0, 10);
  if (auto profiles = base ? std::nullopt : root.Optional("profiles")) {
    mix.files.push_back(beside(*profiles));
    mix.models = ReadProfiles(mix.files.back());
  } else if (!base) {
    mix.micro_batches = IntList(root, "micro_batches", 1, 1 << 20);
    mix.flop_per_mac = root.Required("flop_per_mac").AsDouble(1e-9, 1e9);
    mix.bytes_per_param = root.Required("bytes_per_param").AsDouble(0, 1e9);
    mix.bytes_per_element = root.Required("bytes_per_element").AsDouble(0, 1e9);
    mix.overhead_bytes = root.Required("overhead").AsQuantity(Unit::kBytes);
    const Yaml models = root.Required("models");
    for (const Yaml& item : models.Items()) mix.models.push_back(ModelFromYaml(item));
    if (mix.models.empty()) models.Fail("a list of at least one model", "an empty list");
  }
  if (auto weights = root.Optional("weights")) {
    for (ModelMix::Model& model : mix.models) model.weight = weights->Double(model.name, model.weight, 1e-9, 1e9);
    weights->Finish();
  }
  root.Finish();
  return mix;
}

ModelMix ReadModelMix(const std::string& path) {
  return ModelMixFromYaml(Yaml::ParseFile(path), FolderOf(path));
}
ModelMix ParseModelMix(const std::string& text, const std::string& source) {
  return ModelMixFromYaml(Yaml::ParseText(text, source), FolderOf(source));
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

std::vector<JobSpec> ProfilesOf(const ModelMix& mix, const ModelMix::Model& model) {
  if (!model.profiles.empty()) return model.profiles;
  std::vector<JobSpec> profiles;
  for (int b : model.batches) {
    for (int k : model.subgraphs) {
      for (int m : mix.micro_batches) profiles.push_back(MakeProfile(mix, model, b, k, m));
    }
  }
  return profiles;
}

std::vector<JobSpec> AllProfiles(const ModelMix& mix) {
  std::vector<JobSpec> all;
  for (const ModelMix::Model& model : mix.models) {
    for (JobSpec& profile : ProfilesOf(mix, model)) all.push_back(std::move(profile));
  }
  return all;
}

std::size_t DrawByWeight(const std::vector<double>& weights, Rng* rng) {
  if (std::all_of(weights.begin(), weights.end(), [&](double w) { return w == weights[0]; })) return rng->Below(weights.size());
  double sum = 0;
  for (double weight : weights) sum += weight;
  double at = rng->Uniform() * sum;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    if (at < weights[i]) return i;
    at -= weights[i];
  }
  return weights.size() - 1;
}

Workload GenerateWorkload(const ModelMix& mix, const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) {
  if (!(options.load >= 1e-6 && options.load <= 1e6)) throw Invalid("load must lie in 1e-6..1e6, got {}", options.load);
  if (options.jobs < 1) throw Invalid("jobs must be >= 1, got {}", options.jobs);
  const ClusterState empty(workers);
  // Per model the profiles that fit; a model of which none does is left out.
  std::vector<std::vector<JobSpec>> by_model;
  std::vector<double> weights;
  for (const ModelMix::Model& model : mix.models) {
    std::vector<JobSpec> fitting = ProfilesOf(mix, model);
    std::erase_if(fitting, [&](const JobSpec& profile) { return !empty.FitsEmptyCluster(profile); });
    if (fitting.empty()) continue;
    by_model.push_back(std::move(fitting));
    weights.push_back(model.weight);
  }
  if (by_model.empty()) throw Invalid("workload {}: no profile fits the memory of the cluster", mix.name);
  const double mean_gap = mix.duration.Mean() * mix.reference_flops / (options.load * empty.total_flops());
  // One stream per quantity: more jobs or another load leave the drawn models and durations as they are.
  const Rng root(options.seed);
  ArrivalStream arrivals(mix.arrivals, mean_gap, root.Split(1));
  Rng shapes = root.Split(2), durations = root.Split(3), estimates = root.Split(4);
  Workload jobs;
  for (int id = 0; id < options.jobs; ++id) {
    const std::vector<JobSpec>& profiles = by_model[DrawByWeight(weights, &shapes)];
    JobSpec job = profiles[shapes.Below(profiles.size())];
    job.id = id;
    job.arrival = arrivals.Next();
    job.iterations = std::max(1.0, std::round(mix.duration.Draw(&durations) * mix.reference_flops / job.total_flop()));
    if (mix.estimate_error > 0)
      job.estimated_iterations = std::max(1.0, std::round(job.iterations * estimates.LogNormal(1, mix.estimate_error)));
    jobs.push_back(std::make_shared<const JobSpec>(std::move(job)));
  }
  return jobs;
}

}  // namespace weir
