#include "cli/compare/compare_config.h"

#include <algorithm>
#include <filesystem>

#include "env/core/yaml.h"

namespace weir::cli {
namespace {

std::vector<double> Loads(const Yaml& list) {
  std::vector<double> loads;
  for (const Yaml& item : list.Items()) loads.push_back(item.AsDouble(1e-6, 1e6));
  if (loads.empty()) list.Fail("a list of at least one load", "an empty list");
  return loads;
}

}  // namespace

CompareSpec ReadCompareConfig(const std::string& path) {
  const Yaml root = Yaml::ParseFile(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  CompareSpec spec;
  spec.name = root.String("name", std::filesystem::path(path).stem().string());
  auto resolve = [&](const Yaml& file) {
    spec.files.push_back((folder / file.AsString()).string());
    return spec.files.back();
  };
  const Yaml clusters = root.Required("clusters");
  for (const Yaml& item : clusters.Items()) {
    CompareSpec::ClusterEntry entry;
    if (item.IsMap()) {
      entry.cluster = ReadCluster(resolve(item.Required("file")));
      entry.jobs = static_cast<int>(item.Int("jobs", 0, 1, 1 << 24));
      if (auto loads = item.Optional("loads")) entry.loads = Loads(*loads);
      item.Finish();
    } else {
      entry.cluster = ReadCluster(resolve(item));
    }
    spec.clusters.push_back(std::move(entry));
  }
  if (spec.clusters.empty()) clusters.Fail("a list of at least one cluster", "an empty list");
  const Yaml workloads = root.Required("workloads");
  for (const Yaml& item : workloads.Items()) {
    spec.workloads.push_back(WorkloadSource::Read((folder / item.AsString()).string()));
    const auto& files = spec.workloads.back().files();
    spec.files.insert(spec.files.end(), files.begin(), files.end());
  }
  if (spec.workloads.empty()) workloads.Fail("a list of at least one workload", "an empty list");
  if (auto loads = root.Optional("loads")) spec.loads = Loads(*loads);
  const Yaml schedulers = root.Required("schedulers");
  for (const Yaml& item : schedulers.Items()) {
    std::string name = item.AsString();
    if (std::count(spec.schedulers.begin(), spec.schedulers.end(), name) > 0) item.Fail("given once", "'" + name + "' twice");
    spec.schedulers.push_back(std::move(name));
  }
  if (spec.schedulers.empty()) schedulers.Fail("a list of at least one scheduler", "an empty list");
  spec.reference = root.String("reference", spec.reference);
  if (std::count(spec.schedulers.begin(), spec.schedulers.end(), spec.reference) == 0) spec.schedulers.push_back(spec.reference);
  spec.seed = static_cast<std::uint64_t>(root.Int("seed", 1, 0, std::int64_t{1} << 62));
  spec.chosen_seed = spec.seed;
  spec.seeds = static_cast<int>(root.Int("seeds", spec.seeds, 1, 1000000));
  spec.jobs = static_cast<int>(root.Int("jobs", spec.jobs, 1, 1 << 24));
  spec.resamples = static_cast<int>(root.Int("resamples", spec.resamples, 100, 10000000));
  if (auto error = root.Optional("estimate_error")) {
    for (WorkloadSource& workload : spec.workloads) workload.set_estimate_error(error->AsDouble(0, 10));
  }
  root.Finish();
  return spec;
}

}  // namespace weir::cli
