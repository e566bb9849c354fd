#include "cli/demo_file.h"

#include <algorithm>
#include <filesystem>

#include "env/core/yaml.h"

namespace weir::cli {

DemoFile ReadDemo(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  const Yaml root = Yaml::ParseFile(path);
  DemoFile demo;
  demo.cluster = ReadCluster((folder / root.Required("cluster").AsString()).string());
  demo.emulate_link = root.Bool("emulate_link", false);
  for (const Yaml& item : root.Required("jobs").Items()) {
    DemoJob job;
    job.job = worker::ReadJobFile((folder / item.Required("file").AsString()).string());
    job.at = item.Required("at").AsQuantity(Unit::kSeconds);
    job.min_accuracy = item.Required("min_accuracy").AsDouble(0, 1);
    item.Finish();
    demo.jobs.push_back(std::move(job));
  }
  root.Finish();
  if (demo.jobs.empty()) root.Required("jobs").Fail("a list of at least one job", "an empty list");
  std::stable_sort(demo.jobs.begin(), demo.jobs.end(), [](const DemoJob& a, const DemoJob& b) { return a.at < b.at; });
  return demo;
}

}  // namespace weir::cli
