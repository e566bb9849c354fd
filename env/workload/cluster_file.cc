#include "env/workload/cluster_file.h"

#include <algorithm>
#include <map>
#include <memory>
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

// The figures of a worker; `base`: what keys that are missing stand for, null where they are required.
WorkerSpec WorkerFromYaml(const Yaml& item, const WorkerSpec* base) {
  WorkerSpec worker = base ? *base : WorkerSpec{};
  auto positive = [&](const char* key, Unit unit, double* value) {
    if (!base || item.Optional(key)) *value = Positive(item, key, unit);
  };
  positive("flops", Unit::kFlopPerSecond, &worker.flops);
  positive("memory", Unit::kBytes, &worker.memory_bytes);
  positive("bandwidth", Unit::kBytesPerSecond, &worker.bandwidth);
  worker.latency = item.Quantity("latency", worker.latency, Unit::kSeconds);
  worker.corun_gain = item.Double("corun_gain", worker.corun_gain, 0, 10);
  worker.max_residents = static_cast<int>(item.Int("max_residents", worker.max_residents, 1, 1000));
  return worker;
}

// Index of the worker that a scalar names.
WorkerId NamedWorker(const Yaml& value, const std::vector<WorkerSpec>& workers) {
  const std::string name = value.AsString();
  const auto found = std::find_if(workers.begin(), workers.end(), [&](const WorkerSpec& w) { return w.name == name; });
  if (found == workers.end())
    value.Fail(
        "the name of a worker of this file (`count` makes name-0, name-1, ...; in an event also of one that joined before)",
        "'" + name + "'");
  return static_cast<WorkerId>(found - workers.begin());
}

std::shared_ptr<const LinkTable> LinksFromYaml(const Yaml& list, const std::vector<WorkerSpec>& workers) {
  auto links = std::make_shared<LinkTable>();
  for (const Yaml& item : list.Items()) {
    const Yaml between = item.Required("between");
    const std::vector<Yaml> ends = between.Items();
    if (ends.size() != 2) between.Fail("two workers");
    const WorkerId a = NamedWorker(ends[0], workers), b = NamedWorker(ends[1], workers);
    if (a == b) between.Fail("two different workers", "one twice");
    if (links->Find(a, b)) between.Fail("a pair that has no link yet", "the pair twice");
    LinkOverride link;
    if (item.Optional("bandwidth")) link.bandwidth = Positive(item, "bandwidth", Unit::kBytesPerSecond);
    if (item.Optional("latency")) link.latency = item.Quantity("latency", 0, Unit::kSeconds);
    if (link.bandwidth == 0 && link.latency < 0) item.Fail("with a bandwidth or a latency", "neither");
    item.Finish();
    links->Set(a, b, link);
  }
  return links;
}

std::shared_ptr<const CorunTable> CorunFromYaml(const Yaml& list) {
  auto table = std::make_shared<CorunTable>();
  std::set<std::pair<std::string, std::string>> seen;
  for (const Yaml& item : list.Items()) {
    const Yaml classes = item.Required("classes");
    const std::vector<Yaml> names = classes.Items();
    if (names.size() != 2) classes.Fail("two job classes");
    std::string a = names[0].AsString(), b = names[1].AsString();
    if (b < a) std::swap(a, b);
    if (!seen.emplace(a, b).second) classes.Fail("a pair that has no gain yet", "the pair twice");
    const double gain = item.Required("gain").AsDouble(-0.99, 10);
    item.Finish();
    table->Set(a, b, gain);
  }
  return table;
}

std::vector<WorkerEvent> EventsFromYaml(const Yaml& list, std::vector<WorkerSpec> workers) {
  using Kind = WorkerEvent::Kind;
  std::vector<WorkerEvent> events;
  for (const Yaml& item : list.Items()) {
    WorkerEvent event;
    const Yaml at = item.Required("at");
    event.time = at.AsQuantity(Unit::kSeconds);
    if (event.time < 0) at.Fail("a time >= 0");
    if (!events.empty() && event.time < events.back().time) at.Fail("not before the event above (events stand in order of time)");
    const Yaml kind = item.Required("event");
    event.kind = static_cast<Kind>(kind.AsEnum({"join", "lost", "back", "drain", "change"}));
    const Yaml name = item.Required("worker");
    if (event.kind == Kind::kJoin) {
      event.spec = WorkerFromYaml(item, nullptr);
      event.spec.name = name.AsString();
      for (const WorkerSpec& w : workers) {
        if (w.name == event.spec.name) name.Fail("a new name", "'" + w.name + "', which is there already");
      }
      event.worker = static_cast<WorkerId>(workers.size());
      workers.push_back(event.spec);
    } else {
      event.worker = NamedWorker(name, workers);
      if (event.kind == Kind::kChange) event.spec = workers[event.worker] = WorkerFromYaml(item, &workers[event.worker]);
    }
    item.Finish();
    events.push_back(std::move(event));
  }
  return events;
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
    const std::string name = item.String("name", "w" + std::to_string(cluster.workers.size()));
    const int count = static_cast<int>(item.Int("count", 1, 1, kMaxWorkers));
    WorkerSpec worker = WorkerFromYaml(item, nullptr);
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
  if (auto links = root.Optional("links")) cluster.model.links = LinksFromYaml(*links, cluster.workers);
  if (auto gains = root.Optional("corun_gain")) cluster.model.corun = CorunFromYaml(*gains);
  if (auto events = root.Optional("events")) cluster.events = EventsFromYaml(*events, cluster.workers);
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
