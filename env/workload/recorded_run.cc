#include "env/workload/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/workload/scenario.h"

namespace weir {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr JobId kMostJob = 100'000'000;

// One line of the log.
class Line {
 public:
  Line(std::string_view text, const std::string& source, int number) : where_(fmt::format("{}:{}", source, number)) {
    body_ = json::parse(text, nullptr, false);
    if (!body_.is_object()) throw Invalid("{}: expected one JSON object, found a damaged or cut-off line", where_);
    time_ = Number("t", 0, 1e15);
  }
  const std::string& where() const { return where_; }
  double time() const { return time_; }

  double Number(const char* key, double least, double most) const {
    const json& value = Get(key);
    if (!value.is_number()) throw Invalid("{}: {} must be a number", where_, key);
    const double number = value.get<double>();
    if (!(number >= least && number <= most))
      throw Invalid("{}: {} must lie in {:g} to {:g}, got {:g}", where_, key, least, most, number);
    return number;
  }
  double NumberOr(const char* key, double fallback) const {
    const auto found = body_.find(key);
    return found != body_.end() && found->is_number() ? found->get<double>() : fallback;
  }
  int Int(const char* key, int least, int most) const {
    const double number = Number(key, least, most);
    if (number != std::floor(number)) throw Invalid("{}: {} must be a whole number, got {:g}", where_, key, number);
    return static_cast<int>(number);
  }
  JobId Job() const { return Int("job", 0, kMostJob); }
  std::string Text(const char* key) const {
    const json& value = Get(key);
    if (!value.is_string()) throw Invalid("{}: {} must be a text", where_, key);
    return value.get<std::string>();
  }
  std::string TextOr(const char* key) const { return body_.contains(key) ? Text(key) : std::string(); }
  bool Bool(const char* key) const {
    const json& value = Get(key);
    if (!value.is_boolean()) throw Invalid("{}: {} must be true or false", where_, key);
    return value.get<bool>();
  }
  std::vector<double> Numbers(const char* key) const {
    const json& value = Get(key);
    std::vector<double> numbers;
    if (!value.is_array()) throw Invalid("{}: {} must be a list", where_, key);
    for (const json& item : value) {
      if (!item.is_number()) throw Invalid("{}: {} must hold numbers only", where_, key);
      numbers.push_back(item.get<double>());
    }
    return numbers;
  }
  std::vector<std::string> Texts(const char* key) const {
    const json& value = Get(key);
    std::vector<std::string> texts;
    if (!value.is_array()) throw Invalid("{}: {} must be a list", where_, key);
    for (const json& item : value) {
      if (!item.is_string()) throw Invalid("{}: {} must hold names only", where_, key);
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

 private:
  const json& Get(const char* key) const {
    const auto found = body_.find(key);
    if (found == body_.end()) throw Invalid("{}: {} is missing", where_, key);
    return *found;
  }
  const std::string where_;
  json body_;
  double time_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& source) { run_.source = source; }

  void Add(const Line& line, const std::string& event, int number) {
    if (line.time() < last_) throw Invalid("{}: time {:.17g} lies before the line above", line.where(), line.time());
    last_ = line.time();
    if (event == "coordinator_start") {
      run_.model.physical = line.Bool("physical");
      run_.model.restart_seconds = line.Number("restart_seconds", 0, 1e9);
      run_.scheduler = line.TextOr("scheduler");
      // Workers say hello anew.
      for (std::size_t w = 0; w < there_.size(); ++w) Lose(static_cast<WorkerId>(w), line, number);
    } else if (event == "worker_join" || event == "worker_change") {
      Worker(line, number, event == "worker_change");
    } else if (event == "worker_lost") {
      Lose(Index(line, line.Text("name")), line, number);
    } else if (event == "link") {
      if (!links_) links_ = std::make_shared<LinkTable>();
      const WorkerId a = Index(line, line.Text("a")), b = Index(line, line.Text("b"));
      if (a == b) throw Invalid("{}: a link needs two workers", line.where());
      links_->Set(a, b, {line.Number("bandwidth", 0, 1e18), line.Number("latency", -1, 1e9)});
    } else if (event == "arrival") {
      Arrival(line, number);
    } else if (event == "plan") {
      Plan(line);
    } else if (event == "place") {
      Place(line, number);
    } else if (event == "preempt") {
      Job(line);
      run_.events.push_back({RecordedEvent::Kind::kPreempt, line.time(), number, line.Job(), {}, line.NumberOr("iterations", 0)});
    } else if (event == "finish" || event == "fail" || event == "cancel") {
      End(line, number, event);
    }
  }

  RecordedRun Take() {
    run_.model.links = links_;
    for (auto& [id, job] : jobs_) {
      if (job.spec.subgraphs.empty()) {
        if (job.placed()) throw Invalid("{}: job {} was placed without a plan", run_.source, id);
        continue;  // never planned: nothing to play
      }
      run_.jobs.push_back(std::move(job));
    }
    return std::move(run_);
  }

 private:
  WorkerId Index(const Line& line, const std::string& name) const {
    const auto found = std::find(run_.workers.begin(), run_.workers.end(), name);
    if (found == run_.workers.end()) throw Invalid("{}: worker '{}' never joined", line.where(), name);
    return static_cast<WorkerId>(found - run_.workers.begin());
  }
  RecordedJob& Job(const Line& line) {
    const auto found = jobs_.find(line.Job());
    if (found == jobs_.end()) throw Invalid("{}: job {} never arrived", line.where(), line.Job());
    return found->second;
  }

  void Worker(const Line& line, int number, bool change) {
    WorkerSpec spec;
    spec.name = line.Text("name");
    spec.flops = line.Number("flops", 0, 1e30);
    spec.memory_bytes = line.Number("memory", 0, 1e30);
    spec.bandwidth = line.Number("bandwidth", 0, 1e30);
    spec.latency = line.Number("latency", 0, 1e9);
    spec.corun_gain = line.Number("corun_gain", 0, 1e3);
    spec.max_residents = line.Int("max_residents", 1, 1 << 20);
    CheckSpec(spec, line.where());
    const auto found = std::find(run_.workers.begin(), run_.workers.end(), spec.name);
    if (found == run_.workers.end()) {
      if (change) throw Invalid("{}: worker '{}' never joined", line.where(), spec.name);
      const auto id = static_cast<WorkerId>(run_.workers.size());
      run_.workers.push_back(spec.name);
      there_.push_back(true);
      run_.worker_events.push_back({line.time(), WorkerEvent::Kind::kJoin, id, spec});
    } else {
      const auto id = static_cast<WorkerId>(found - run_.workers.begin());
      run_.worker_events.push_back({line.time(), WorkerEvent::Kind::kChange, id, spec});
      if (!there_[id] && !change) {
        there_[id] = true;
        run_.worker_events.push_back({line.time(), WorkerEvent::Kind::kBack, id, {}});
      }
    }
    run_.events.push_back({RecordedEvent::Kind::kWorker, line.time(), number, -1, {}, 0});
  }

  void Lose(WorkerId w, const Line& line, int number) {
    if (!there_[w]) return;
    there_[w] = false;
    run_.worker_events.push_back({line.time(), WorkerEvent::Kind::kLost, w, {}});
    run_.events.push_back({RecordedEvent::Kind::kWorker, line.time(), number, -1, {}, 0});
  }

  void Arrival(const Line& line, int number) {
    const JobId id = line.Job();
    RecordedJob& job = jobs_[id];
    if (!job.name.empty()) throw Invalid("{}: job {} arrived before", line.where(), id);
    job.name = line.Text("name");
    if (job.name.empty()) throw Invalid("{}: name must not be empty", line.where());
    job.spec.id = id;
    job.spec.name = job.name;
    job.spec.arrival = line.time();
    run_.events.push_back({RecordedEvent::Kind::kArrival, line.time(), number, id, {}, 0});
  }

  void Plan(const Line& line) {
    RecordedJob& job = Job(line);
    job.model = line.TextOr("model");
    job.spec.iterations = line.Number("iterations", 1e-9, 1e18);
    job.spec.micro_batches = line.Int("micro_batches", 1, 1 << 20);
    job.spec.evaluation_share = line.NumberOr("evaluation_share", 0);
    const std::vector<double> flop = line.Numbers("flop"), memory = line.Numbers("memory"), params = line.Numbers("param_bytes"),
                              arcs = line.Numbers("arcs");
    if (memory.size() != flop.size() || params.size() != flop.size() || arcs.size() % 3 != 0)
      throw Invalid("{}: flop, memory and param_bytes must have one entry a subgraph, arcs three an arc", line.where());
    job.spec.subgraphs.clear();
    job.spec.arcs.clear();
    for (std::size_t k = 0; k < flop.size(); ++k) job.spec.subgraphs.push_back({flop[k], memory[k], params[k]});
    for (std::size_t a = 0; a < arcs.size(); a += 3) {
      for (std::size_t end : {a, a + 1}) {
        if (!(arcs[end] >= 0 && arcs[end] < static_cast<double>(flop.size())))
          throw Invalid("{}: an arc names subgraph {:g} of {}", line.where(), arcs[end], flop.size());
      }
      job.spec.arcs.push_back({static_cast<int>(arcs[a]), static_cast<int>(arcs[a + 1]), arcs[a + 2]});
    }
    CheckSpec(job.spec, line.where());
  }

  void Place(const Line& line, int number) {
    RecordedJob& job = Job(line);
    job.workers = line.Texts("names");
    if (job.workers.size() != job.spec.subgraphs.size())
      throw Invalid("{}: {} workers for {} subgraphs", line.where(), job.workers.size(), job.spec.subgraphs.size());
    RecordedEvent event{RecordedEvent::Kind::kPlace, line.time(), number, line.Job(), {}, 0};
    for (const std::string& name : job.workers) event.placement.push_back(Index(line, name));
    if (job.start < 0) job.start = line.time();
    job.believed_iteration = line.Number("iteration_seconds", 0, 1e15);
    job.believed_finish = line.Number("finish", 0, 1e15);
    job.spec.overhead_seconds = line.Number("overhead_seconds", 0, 1e9);
    job.spec.correction = line.NumberOr("correction", 1);
    CheckSpec(job.spec, line.where());
    run_.events.push_back(std::move(event));
  }

  void End(const Line& line, int number, const std::string& how) {
    RecordedJob& job = Job(line);
    if (job.finish >= 0) throw Invalid("{}: job {} has ended before", line.where(), line.Job());
    job.finish = line.time();
    if (how == "finish") {
      job.end = RecordedJob::End::kFinished;
      job.iteration_seconds = line.NumberOr("iteration_seconds", 0);
      job.overhead_seconds = line.NumberOr("overhead_seconds", 0);
    } else {
      job.end = how == "fail" ? RecordedJob::End::kFailed : RecordedJob::End::kCancelled;
      job.spec.iterations = std::max(1e-6, line.NumberOr("iterations", 0));
    }
    run_.events.push_back({RecordedEvent::Kind::kFinish, line.time(), number, line.Job(), {}, 0});
  }

  RecordedRun run_;
  std::map<JobId, RecordedJob> jobs_;
  std::vector<char> there_;  // by worker
  std::shared_ptr<LinkTable> links_;
  double last_ = 0;
};

}  // namespace

const RecordedJob* RecordedRun::Find(JobId id) const {
  const auto found =
      std::lower_bound(jobs.begin(), jobs.end(), id, [](const RecordedJob& j, JobId wanted) { return j.spec.id < wanted; });
  return found != jobs.end() && found->spec.id == id ? &*found : nullptr;
}

RecordedRun ParseRun(const std::string& text, const std::string& source) {
  Reader reader(source);
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) throw Invalid("{}:{}: the line is cut off", source, number);
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    if (line.empty()) throw Invalid("{}:{}: expected one JSON object, found an empty line", source, number);
    const Line parsed(line, source, number);
    reader.Add(parsed, parsed.Text("event"), number);
  }
  if (number == 0) throw Invalid("{}: the log is empty", source);
  return reader.Take();
}

RecordedRun ReadRun(const std::string& path) {
  std::error_code error;
  const std::string file = std::filesystem::is_directory(path, error) ? path + "/events.jsonl" : path;
  return ParseRun(ReadFile(file, kMostBytes), file);
}

std::string RunAsScenario(const RecordedRun& run) {
  Scenario scenario;
  for (const WorkerEvent& event : run.worker_events) {
    if (event.kind == WorkerEvent::Kind::kJoin) scenario.workers.push_back(event.spec);
    if (event.kind == WorkerEvent::Kind::kChange) scenario.workers[event.worker] = event.spec;
  }
  double first = kNever;
  for (const RecordedJob& job : run.jobs) first = std::min(first, job.spec.arrival);
  for (const RecordedJob& job : run.jobs) {
    if (!job.placed()) continue;
    JobSpec spec = job.spec;
    spec.id = static_cast<JobId>(scenario.jobs.size());
    spec.arrival -= first;
    spec.iterations *= (1 + spec.evaluation_share) * spec.correction;
    spec.evaluation_share = spec.overhead_seconds = 0;
    spec.correction = 1;
    scenario.jobs.push_back(spec);
  }
  if (scenario.jobs.empty()) throw Invalid("{}: no job was placed: there is nothing to write", run.source);
  return FormatScenario(scenario);
}

}  // namespace weir
