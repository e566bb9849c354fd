#include "env/workload/workload_source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"
#include "env/core/yaml.h"
#include "env/sim/cluster_state.h"

namespace weir {

WorkloadSource WorkloadSource::Read(const std::string& path) {
  WorkloadSource source = Parse(ReadFile(path, std::size_t{64} << 20), path);
  source.files_.insert(source.files_.begin(), path);
  return source;
}

WorkloadSource WorkloadSource::Parse(const std::string& text, const std::string& source) {
  const Yaml root = Yaml::ParseText(text, source);
  const std::filesystem::path folder = std::filesystem::path(source).parent_path();
  const std::optional<Yaml> trace = root.Optional("trace");
  if (!trace) {
    WorkloadSource result(ModelMixFromYaml(root, folder.string()));
    result.files_ = result.mix_.files;
    return result;
  }
  const std::string mix_path = (folder / root.Required("mix").AsString()).string(),
                    trace_path = (folder / trace->AsString()).string();
  WorkloadSource result(ReadModelMix(mix_path));
  result.files_ = {mix_path, trace_path};
  result.files_.insert(result.files_.end(), result.mix_.files.begin(), result.mix_.files.end());
  result.name_ = root.String("name", "");
  Trace read = ReadTrace(trace_path);
  TraceFilter filter;
  filter.group = root.String("group", "");
  if (auto duration = root.Optional("duration")) {
    filter.min_seconds = duration->Quantity("min", 0, Unit::kSeconds);
    filter.max_seconds = duration->Quantity("max", kNever, Unit::kSeconds);
    if (filter.min_seconds > filter.max_seconds) duration->Fail("in order: min <= max");
    if (auto outside = duration->Optional("outside")) {
      filter.outside = static_cast<TraceFilter::Outside>(outside->AsEnum({"keep", "clamp", "drop"}));
    } else {
      filter.outside = TraceFilter::Outside::kClamp;
    }
    duration->Finish();
  }
  ApplyFilter(filter, &read);
  result.trace_ = std::make_shared<const Trace>(std::move(read));
  if (auto gpus = root.Optional("gpus")) result.gpus_ = static_cast<Gpus>(gpus->AsEnum({"work", "replicas", "ignore"}));
  result.estimates_ = root.Bool("estimates", false);
  result.mix_.estimate_error = root.Double("estimate_error", 0, 0, 10);
  if (auto models = root.Optional("models")) {
    for (const std::string& key : models->Keys()) {
      const Yaml value = models->Required(key);
      const std::string name = value.AsString();
      const auto& known = result.mix_.models;
      if (std::none_of(known.begin(), known.end(), [&](const ModelMix::Model& m) { return m.name == name; })) {
        std::vector<std::string> names;
        for (const ModelMix::Model& model : known) names.push_back(model.name);
        value.Fail(fmt::format("a model of the mix ({})", fmt::join(names, ", ")));
      }
      result.models_[key] = name;
    }
  }
  root.Finish();
  return result;
}

DrawnWorkload WorkloadSource::Draw(const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) const {
  if (trace_) return DrawTrace(workers, options);
  DrawnWorkload drawn;
  drawn.jobs = GenerateWorkload(mix_, workers, options);
  return drawn;
}

DrawnWorkload WorkloadSource::DrawTrace(const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) const {
  if (!(options.load >= 1e-6 && options.load <= 1e6)) throw Invalid("load must lie in 1e-6..1e6, got {}", options.load);
  if (options.jobs < 1) throw Invalid("jobs must be >= 1, got {}", options.jobs);
  const auto total = static_cast<std::uint64_t>(trace_->jobs.size()), count = static_cast<std::uint64_t>(options.jobs);
  if (total < count) throw Invalid("workload {}: the trace has {} jobs, an episode asks for {}", name_, total, count);
  const std::uint64_t first = options.seed % (total / count) * count;

  const ClusterState empty(workers);
  std::vector<std::vector<JobSpec>> profiles;
  std::vector<double> weights;
  std::map<std::string, std::size_t> known;  // name in the mix -> index
  for (const ModelMix::Model& model : mix_.models) {
    std::vector<JobSpec> fitting = ProfilesOf(mix_, model);
    std::erase_if(fitting, [&](const JobSpec& profile) { return !empty.FitsEmptyCluster(profile); });
    if (fitting.empty()) continue;
    known[model.name] = profiles.size();
    profiles.push_back(std::move(fitting));
    weights.push_back(model.weight);
  }
  if (profiles.empty()) throw Invalid("workload {}: no profile of {} fits the memory of the cluster", name_, mix_.name);

  const Rng root(options.seed);
  Rng shapes = root.Split(2), durations = root.Split(3), estimates = root.Split(4);
  DrawnWorkload drawn;
  std::vector<JobSpec> jobs;
  double work = 0;
  const SimTime start = trace_->jobs[first].arrival;
  int drawn_models = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const TraceJob& recorded = trace_->jobs[first + i];
    std::string name = recorded.model;
    if (const auto renamed = models_.find(name); renamed != models_.end()) name = renamed->second;
    const auto found = known.find(name);
    const std::size_t any = DrawByWeight(weights, &shapes);  // drawn always: the others' draws don't depend on the names
    drawn_models += found == known.end();
    const std::vector<JobSpec>& choice = profiles[found == known.end() ? any : found->second];
    JobSpec job = choice[shapes.Below(choice.size())];
    const double flop = job.total_flop(), drawn_seconds = mix_.duration.Draw(&durations);
    const double gpus = gpus_ == Gpus::kIgnore ? 1 : recorded.gpus;
    auto size = [&](double seconds) {
      return std::clamp(std::round(seconds * gpus * mix_.reference_flops / flop), 1.0, kMostIterations);
    };
    if (recorded.duration < 0 && recorded.iterations > 0) {
      job.iterations = recorded.iterations;
    } else {
      job.iterations = size(recorded.duration < 0 ? drawn_seconds : recorded.duration);
    }
    if (gpus_ == Gpus::kReplicas) job.replicas = recorded.gpus;
    if (estimates_ && recorded.estimate > 0) job.estimated_iterations = size(recorded.estimate);
    const double factor = estimates.LogNormal(1, mix_.estimate_error);
    if (mix_.estimate_error > 0) {
      const double told = job.estimated_iterations > 0 ? job.estimated_iterations : job.iterations;
      job.estimated_iterations = std::clamp(std::round(told * factor), 1.0, kMostIterations);
    }
    job.id = static_cast<JobId>(i);
    job.arrival = recorded.arrival - start;
    if (!recorded.name.empty()) job.name = recorded.name;
    if (job.replicas > 1 && (job.replicas > empty.num_workers() || !empty.FitsEmptyCluster(job))) {
      ++drawn.unplaceable;
      continue;
    }
    work += job.iterations * flop;
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) throw Invalid("workload {}: none of {} jobs fits the cluster", name_, count);
  const double span = jobs.back().arrival - jobs.front().arrival;
  if (span > 0) {
    const double load = work / (span * empty.total_flops());
    drawn.arrival_factor = load / options.load;
    drawn.notices.push_back(fmt::format("{}: seed {}: jobs {} to {}, arrival times x {:.6g} (load {:.4g} -> {:g})", name_,
                                        options.seed, first, first + count - 1, drawn.arrival_factor, load, options.load));
  } else {
    drawn.notices.push_back(fmt::format("{}: seed {}: all jobs arrive at once, no load can be set", name_, options.seed));
  }
  if (drawn_models > 0) drawn.notices.push_back(fmt::format("{} of {} jobs got a model drawn from the mix", drawn_models, count));
  if (drawn.unplaceable > 0)
    drawn.notices.push_back(fmt::format("{} jobs with more replicas than the cluster can hold left out", drawn.unplaceable));
  for (JobSpec& job : jobs) {
    job.arrival *= drawn.arrival_factor;
    drawn.jobs.push_back(std::make_shared<const JobSpec>(std::move(job)));
  }
  return drawn;
}

}  // namespace weir
