#include "agent/baselines/rule_file.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "agent/baselines/baselines.h"
#include "env/core/error.h"
#include "env/core/parallel.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

struct Field {
  const char* name;
  double RuleOptions::*value;
};
constexpr std::array<Field, 10> kFields = {{{"alpha", &RuleOptions::alpha},
                                            {"kappa", &RuleOptions::kappa},
                                            {"chi", &RuleOptions::chi},
                                            {"claim", &RuleOptions::claim},
                                            {"delta", &RuleOptions::delta},
                                            {"split", &RuleOptions::split},
                                            {"beta", &RuleOptions::beta},
                                            {"press", &RuleOptions::press},
                                            {"pmem", &RuleOptions::pmem},
                                            {"aging", &RuleOptions::aging}}};
struct PreemptField {
  const char* name;
  double PreemptOptions::*value;
};
constexpr std::array<PreemptField, 3> kPreemptFields = {
    {{"phi", &PreemptOptions::phi}, {"mu", &PreemptOptions::mu}, {"eta", &PreemptOptions::eta}}};

RuleFile FromYaml(const Yaml& root) {
  RuleFile file;
  const Yaml rule = root.Required("rule");
  file.rule.order = RuleOptions::Order::kBestTime;
  file.rule.wide = rule.Bool("wide", false);
  file.rule.projected = rule.Bool("projected", true);
  for (const Field& field : kFields) {
    const bool any_sign = std::string(field.name) == "pmem";
    file.rule.*field.value = rule.Required(field.name).AsDouble(any_sign ? -100 : 0, 1e9);
  }
  rule.Finish();
  if (auto preempt = root.Optional("preempt")) {
    file.preempt.emplace();
    for (const PreemptField& field : kPreemptFields) {
      (*file.preempt).*field.value = preempt->Required(field.name).AsDouble(0, 1e9);
    }
    preempt->Finish();
  }
  root.Finish();
  return file;
}

}  // namespace

RuleFile ReadRuleFile(const std::string& path) {
  return FromYaml(Yaml::ParseFile(path));
}
RuleFile ParseRuleFile(const std::string& text, const std::string& source) {
  return FromYaml(Yaml::ParseText(text, source));
}

std::string FormatRuleFile(const RuleFile& file, const std::string& comment) {
  std::string out;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    out += "# " + comment.substr(at, end - at) + "\n";
    at = end + 1;
  }
  out += fmt::format("rule:\n  wide: {}\n  projected: {}\n", file.rule.wide, file.rule.projected);
  for (const Field& field : kFields) out += fmt::format("  {}: {}\n", field.name, file.rule.*field.value);
  if (file.preempt) {
    out += "preempt:\n";
    for (const PreemptField& field : kPreemptFields) out += fmt::format("  {}: {}\n", field.name, (*file.preempt).*field.value);
  }
  return out;
}

std::unique_ptr<Scheduler> MakeRule(const std::string& name, const RuleFile& file) {
  if (file.preempt) return std::make_unique<PreemptingRule>(name, file.rule, *file.preempt);
  return std::make_unique<RuleScheduler>(name, file.rule);
}

std::vector<CemParameter> RuleParameters(bool preempt) {
  std::vector<CemParameter> parameters = {{"alpha", 1, 0.7},      {"kappa", 1, 0.5},    {"chi", 4.5, 1.5},   {"claim", 1, 0.4},
                                          {"delta", 12, 1.2},     {"split", 0.14, 1.5}, {"beta", 0.05, 1.5}, {"press", 0.05, 1.5},
                                          {"pmem", 0, 0.4, true}, {"aging", 0.05, 1.5}};
  if (preempt) {
    parameters.push_back({"phi", 1, 0.7});
    parameters.push_back({"mu", 1, 0.7});
    parameters.push_back({"eta", 0.02, 1.5});
  }
  return parameters;
}

void SetRuleParameters(const std::vector<double>& values, RuleFile* file) {
  for (std::size_t i = 0; i < kFields.size(); ++i) file->rule.*kFields[i].value = values[i];
  if (!file->preempt) return;
  for (std::size_t i = 0; i < kPreemptFields.size(); ++i) {
    (*file->preempt).*kPreemptFields[i].value = values[kFields.size() + i];
  }
}

TuneConfig ReadTuneConfig(const std::string& path) {
  const Yaml root = Yaml::ParseFile(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  TuneConfig config;
  config.cluster = (folder / root.Required("cluster").AsString()).lexically_normal().string();
  config.workload = (folder / root.Required("workload").AsString()).lexically_normal().string();
  config.load = root.Double("load", config.load, 0.01, 10);
  config.jobs = static_cast<int>(root.Int("jobs", config.jobs, 1, 100000));
  config.episodes = static_cast<int>(root.Int("episodes", config.episodes, 1, 100000));
  config.first_seed = static_cast<std::uint64_t>(
      root.Int("first_seed", static_cast<std::int64_t>(config.first_seed), 0, std::numeric_limits<std::int64_t>::max()));
  if (auto reference = root.Optional("reference")) {
    config.reference = reference->AsString();
    if (!IsBaseline(config.reference)) reference->Fail("a scheduler's name", "'" + config.reference + "'");
  }
  config.base.rule.order = RuleOptions::Order::kBestTime;
  config.base.rule.wide = root.Bool("wide", false);
  config.base.rule.projected = root.Bool("projected", true);
  if (root.Bool("preempt", false)) config.base.preempt.emplace();
  if (auto cem = root.Optional("cem")) {
    config.cem.generations = static_cast<int>(cem->Int("generations", config.cem.generations, 1, 1000));
    config.cem.population = static_cast<int>(cem->Int("population", config.cem.population, 4, 10000));
    config.cem.seed = static_cast<std::uint64_t>(cem->Int("seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
    cem->Finish();
  }
  root.Finish();
  return config;
}

CemResult TuneRule(const TuneConfig& config, int threads,
                   const std::function<void(int generation, const CemGeneration&)>& progress) {
  const Cluster cluster = ReadCluster(config.cluster);
  const ModelMix mix = ReadModelMix(config.workload);
  std::vector<Workload> episodes(config.episodes);
  std::vector<double> reference(config.episodes, 0.0);
  const auto mean_jct = [&](int episode, Scheduler* scheduler) {
    Simulator simulator(cluster.workers, episodes[episode], cluster.model, cluster.events);
    simulator.set_keep_actions(false);
    const std::vector<JobId> left = RunEpisode(&simulator, scheduler);
    if (!left.empty()) {
      throw Failure(ExitCode::kNotPlaceable, "tune: seed {}: {} jobs are never placed to their end by {}",
                    config.first_seed + static_cast<std::uint64_t>(episode), left.size(), scheduler->name());
    }
    return simulator.job_seconds() / config.jobs;
  };
  ParallelFor(threads, config.episodes, [&](int e) {
    episodes[e] =
        GenerateWorkload(mix, cluster.workers, {config.load, config.jobs, config.first_seed + static_cast<std::uint64_t>(e)});
    reference[e] = mean_jct(e, MakeBaseline(config.reference).get());
  });
  const CemScore score = [&](const std::vector<std::vector<double>>& points) {
    std::vector<double> ratio(points.size() * episodes.size());
    ParallelFor(threads, static_cast<int>(ratio.size()), [&](int i) {
      RuleFile file = config.base;
      SetRuleParameters(points[i / config.episodes], &file);
      const int e = i % config.episodes;
      ratio[i] = mean_jct(e, MakeRule("rule", file).get()) / reference[e];
    });
    std::vector<double> scores(points.size(), 0.0);
    for (std::size_t i = 0; i < ratio.size(); ++i) scores[i / config.episodes] += ratio[i] / config.episodes;
    return scores;
  };
  return MinimizeByCem(RuleParameters(config.base.preempt.has_value()), config.cem, score, progress);
}

}  // namespace weir
