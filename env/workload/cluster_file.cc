#include "env/workload/cluster_file.h"

#include <set>

#include "env/core/error.h"
#include "env/core/yaml.h"

namespace weir {
namespace {

constexpr int kMaxWorkers = 100000;

double Positive(const Yaml& map, const char* key, Unit unit) {
  const Yaml value = map.Required(key);
  const double result = value.AsQuantity(unit);
  if (!(result > 0)) value.Fail(std::string(DescribeUnit(unit)) + " above 0");
  return result;
}

Cluster FromYaml(const Yaml& root) {
  Cluster cluster;
  cluster.name = root.String("name", "");
  if (auto model = root.Optional("model")) {
    cluster.model.physical = model->Bool("physical", cluster.model.physical);
    cluster.model.restart_seconds = model->Quantity("restart", cluster.model.restart_seconds, Unit::kSeconds);
    model->Finish();
  }
  const Yaml list = root.Required("workers");
  std::set<std::string> names;
  for (const Yaml& item : list.Items()) {
    WorkerSpec worker;
    const std::string name = item.String("name", "w" + std::to_string(cluster.workers.size()));
    const int count = static_cast<int>(item.Int("count", 1, 1, kMaxWorkers));
    worker.flops = Positive(item, "flops", Unit::kFlopPerSecond);
    worker.memory_bytes = Positive(item, "memory", Unit::kBytes);
    worker.bandwidth = Positive(item, "bandwidth", Unit::kBytesPerSecond);
    worker.latency = item.Quantity("latency", 0, Unit::kSeconds);
    worker.corun_gain = item.Double("corun_gain", 0, 0, 10);
    worker.max_residents = static_cast<int>(item.Int("max_residents", 2, 1, 1000));
    item.Finish();
    for (int i = 0; i < count; ++i) {
      worker.name = count == 1 ? name : name + "-" + std::to_string(i);
      if (!names.insert(worker.name).second) item.Fail("of a distinct name", "'" + worker.name + "' twice");
      if (static_cast<int>(cluster.workers.size()) == kMaxWorkers)
        item.Fail("within " + std::to_string(kMaxWorkers) + " workers", "more");
      cluster.workers.push_back(worker);
    }
  }
  if (cluster.workers.empty()) list.Fail("a list of at least one worker", "an empty list");
  root.Finish();
  return cluster;
}

}  // namespace

Cluster ReadCluster(const std::string& path) {
  return FromYaml(Yaml::ParseFile(path));
}
Cluster ParseCluster(const std::string& text, const std::string& source) {
  return FromYaml(Yaml::ParseText(text, source));
}

}  // namespace weir
