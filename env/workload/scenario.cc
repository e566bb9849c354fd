#include "env/workload/scenario.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "env/core/error.h"
#include "env/core/file.h"

namespace weir {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

// One line's fields, read from left to right.
class Fields {
 public:
  Fields(std::string_view line, const std::string& source, int number) : source_(source), number_(number) {
    line = line.substr(0, line.find('#'));
    std::size_t at = 0;
    while (true) {
      at = line.find_first_not_of(" \t\r", at);
      if (at == std::string_view::npos) break;
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      words_.push_back(line.substr(at, end - at));
      at = end;
    }
  }
  bool empty() const { return words_.empty(); }
  std::size_t left() const { return words_.size() - next_; }
  std::string where() const { return fmt::format("{}:{}", source_, number_); }
  int number() const { return number_; }

  std::string_view Word(const char* what) {
    if (next_ == words_.size()) throw Invalid("{}: {} is missing", where(), what);
    return words_[next_++];
  }
  double Number(const char* what) {
    const std::string_view word = Word(what);
    double value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
      throw Invalid("{}: {} must be a number, got '{}'", where(), what, word);
    }
    return value;
  }
  int Int(const char* what, int low, int high) {
    const std::string_view word = Word(what);
    int value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < low || value > high) {
      throw Invalid("{}: {} must be a whole number from {} to {}, got '{}'", where(), what, low, high, word);
    }
    return value;
  }
  void End() {
    if (left() > 0) throw Invalid("{}: unexpected '{}' at the end of the line", where(), words_[next_]);
  }

 private:
  const std::string& source_;
  int number_;
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
};

// Calls handle(Fields&) for each line that isn't empty.
template <typename Handle>
void ForEachLine(const std::string& text, const std::string& source, Handle handle) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    Fields fields(std::string_view(text).substr(at, end - at), source, ++number);
    if (!fields.empty()) handle(fields);
    at = end + 1;
  }
}

void ExpectId(Fields& fields, const char* what, std::size_t expected) {
  const int id = fields.Int(what, 0, 1 << 30);
  if (static_cast<std::size_t>(id) != expected) {
    throw Invalid("{}: {} must be {} (ids count up from 0), got {}", fields.where(), what, expected, id);
  }
}

}  // namespace

Scenario ParseScenario(const std::string& text, const std::string& source) {
  Scenario scenario;
  std::string job_where;
  auto finish_job = [&] {
    if (!scenario.jobs.empty()) CheckSpec(scenario.jobs.back(), job_where);
  };
  ForEachLine(text, source, [&](Fields& fields) {
    const std::string_view kind = fields.Word("keyword");
    if (kind == "worker") {
      ExpectId(fields, "the worker's id", scenario.workers.size());
      WorkerSpec worker;
      worker.name = fmt::format("w{}", scenario.workers.size());
      worker.flops = fields.Number("flops");
      worker.memory_bytes = fields.Number("memory");
      worker.bandwidth = fields.Number("bandwidth");
      worker.latency = fields.Number("latency");
      worker.corun_gain = fields.Number("gamma");
      worker.max_residents = fields.Int("max_residents", 1, 1 << 20);
      fields.End();
      CheckSpec(worker, fields.where());
      scenario.workers.push_back(std::move(worker));
    } else if (kind == "job") {
      finish_job();
      ExpectId(fields, "the job's id", scenario.jobs.size());
      JobSpec job;
      job.id = static_cast<int>(scenario.jobs.size());
      job.name = fmt::format("job{}", job.id);
      job.arrival = fields.Number("arrival");
      job.iterations = fields.Number("iterations");
      job.micro_batches = fields.Int("micro_batches", 1, 1 << 20);
      fields.End();
      if (job.arrival < 0) throw Invalid("{}: arrival must be >= 0, got {}", fields.where(), job.arrival);
      if (!(job.iterations > 0)) throw Invalid("{}: iterations must be > 0, got {}", fields.where(), job.iterations);
      job_where = fields.where();
      scenario.jobs.push_back(std::move(job));
    } else if (kind == "sub" || kind == "edge") {
      if (scenario.jobs.empty()) throw Invalid("{}: '{}' stands before any job", fields.where(), kind);
      JobSpec& job = scenario.jobs.back();
      if (kind == "sub") {
        SubgraphSpec sub;
        sub.flop = fields.Number("flop");
        sub.memory_bytes = fields.Number("memory");
        fields.End();
        if (sub.flop < 0) throw Invalid("{}: flop must be >= 0, got {}", fields.where(), sub.flop);
        if (sub.memory_bytes < 0) throw Invalid("{}: memory must be >= 0, got {}", fields.where(), sub.memory_bytes);
        job.subgraphs.push_back(sub);
      } else {
        const int last = job.num_subgraphs() - 1;
        if (last < 1) throw Invalid("{}: an edge needs two subgraphs above it, job {} has {}", fields.where(), job.id, last + 1);
        ArcSpec arc;
        arc.from = fields.Int("the edge's from", 0, last);
        arc.to = fields.Int("the edge's to", 0, last);
        arc.bytes = fields.Number("bytes");
        fields.End();
        if (arc.from >= arc.to) throw Invalid("{}: an edge's from must be < to, got {} {}", fields.where(), arc.from, arc.to);
        if (arc.bytes < 0) throw Invalid("{}: bytes must be >= 0, got {}", fields.where(), arc.bytes);
        job.arcs.push_back(arc);
      }
    } else {
      throw Invalid("{}: expected worker, job, sub or edge, got '{}'", fields.where(), kind);
    }
  });
  finish_job();
  if (scenario.workers.empty()) throw Invalid("{}: no worker in the file", source);
  return scenario;
}

Scenario ReadScenario(const std::string& path) {
  return ParseScenario(ReadFile(path, kMaxBytes), path);
}

std::string FormatScenario(const Scenario& scenario) {
  std::string out;
  auto to = std::back_inserter(out);
  for (std::size_t i = 0; i < scenario.workers.size(); ++i) {
    const WorkerSpec& w = scenario.workers[i];
    fmt::format_to(to, "worker {} {:.17g} {:.17g} {:.17g} {:.17g} {:.17g} {}\n", i, w.flops, w.memory_bytes, w.bandwidth,
                   w.latency, w.corun_gain, w.max_residents);
  }
  for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
    const JobSpec& job = scenario.jobs[i];
    if (job.replicas != 1) throw Invalid("job {}: a scenario file can't say replicas ({})", job.id, job.replicas);
    if (job.estimated_iterations != 0) throw Invalid("job {}: a scenario file can't say estimates of iterations", job.id);
    if (job.id != static_cast<int>(i)) throw Invalid("job {}: ids of a scenario file count up from 0, expected {}", job.id, i);
    fmt::format_to(to, "job {} {:.17g} {:.17g} {}\n", job.id, job.arrival, job.iterations, job.micro_batches);
    for (const SubgraphSpec& s : job.subgraphs) fmt::format_to(to, "sub {:.17g} {:.17g}\n", s.flop, s.memory_bytes);
    for (const ArcSpec& a : job.arcs) fmt::format_to(to, "edge {} {} {:.17g}\n", a.from, a.to, a.bytes);
  }
  return out;
}

std::vector<TimedAction> ParsePlacementLog(const std::string& text, const std::string& source, const Scenario& scenario) {
  std::vector<TimedAction> log;
  ForEachLine(text, source, [&](Fields& fields) {
    const std::string_view kind = fields.Word("keyword");
    if (kind != "place" && kind != "preempt" && kind != "migrate") {
      throw Invalid("{}: expected place, preempt or migrate, got '{}'", fields.where(), kind);
    }
    if (scenario.jobs.empty()) throw Invalid("{}: the scenario has no jobs", fields.where());
    TimedAction entry;
    entry.line = fields.number();
    entry.action.job = fields.Int("job", 0, static_cast<int>(scenario.jobs.size()) - 1);
    entry.time = fields.Number("time");
    if (entry.time < 0) throw Invalid("{}: time must be >= 0, got {}", fields.where(), entry.time);
    if (!log.empty() && entry.time < log.back().time) {
      throw Invalid("{}: time {:.17g} lies before that of line {}", fields.where(), entry.time, log.back().line);
    }
    if (kind == "preempt") {
      entry.action.kind = Action::Kind::kPreempt;
      fields.End();
    } else {
      entry.action.kind = kind == "place" ? Action::Kind::kPlace : Action::Kind::kMigrate;
      const std::size_t k = scenario.jobs[entry.action.job].subgraphs.size();
      if (fields.left() != k) {
        throw Invalid("{}: job {} has {} subgraphs, got {} workers", fields.where(), entry.action.job, k, fields.left());
      }
      for (std::size_t i = 0; i < k; ++i) {
        entry.action.placement.push_back(fields.Int("worker", 0, static_cast<int>(scenario.workers.size()) - 1));
      }
    }
    log.push_back(std::move(entry));
  });
  return log;
}

std::vector<TimedAction> ReadPlacementLog(const std::string& path, const Scenario& scenario) {
  return ParsePlacementLog(ReadFile(path, kMaxBytes), path, scenario);
}

std::string FormatPlacementLog(const std::vector<TimedAction>& log) {
  std::string out;
  auto to = std::back_inserter(out);
  for (const TimedAction& entry : log) {
    const Action& action = entry.action;
    if (action.kind == Action::Kind::kWait) continue;
    const char* kind = action.kind == Action::Kind::kPlace     ? "place"
                       : action.kind == Action::Kind::kMigrate ? "migrate"
                                                               : "preempt";
    fmt::format_to(to, "{} {} {:.17g}", kind, action.job, entry.time);
    for (WorkerId w : action.placement) fmt::format_to(to, " {}", w);
    out.push_back('\n');
  }
  return out;
}

}  // namespace weir
