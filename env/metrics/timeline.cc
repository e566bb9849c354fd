#include "env/metrics/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace weir {
namespace {

std::vector<WorkerId> Distinct(Placement workers) {
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

}  // namespace

std::vector<Segment> SegmentsOf(const std::vector<JobRecord>& records, const std::vector<TimedAction>& actions,
                                const std::vector<WorkerEvent>& events) {
  std::vector<Segment> segments;
  std::map<JobId, Segment> open;
  SimTime last = 0;
  auto close = [&](JobId job, SimTime time, bool finished) {
    const auto at = open.find(job);
    if (at == open.end()) return;
    at->second.end = time;
    at->second.finished = finished;
    segments.push_back(std::move(at->second));
    open.erase(at);
  };
  std::map<JobId, SimTime> finish;
  for (const JobRecord& record : records) {
    if (record.finished()) finish[record.id] = record.finish;
  }
  std::size_t next = 0;
  // Changes of workers come before the decisions of their instant, completions before both.
  auto lose_workers = [&](SimTime until) {
    for (; next < events.size() && events[next].time <= until; ++next) {
      if (events[next].kind != WorkerEvent::Kind::kLost) continue;
      std::vector<JobId> gone;
      for (const auto& [job, segment] : open) {
        const auto ends = finish.find(job);
        if (ends != finish.end() && ends->second <= events[next].time) continue;
        if (std::count(segment.workers.begin(), segment.workers.end(), events[next].worker) > 0) gone.push_back(job);
      }
      for (JobId job : gone) close(job, events[next].time, false);
    }
  };
  for (const TimedAction& entry : actions) {
    lose_workers(entry.time);
    last = std::max(last, entry.time);
    if (entry.action.kind == Action::Kind::kWait) continue;
    close(entry.action.job, entry.time, false);
    if (entry.action.kind != Action::Kind::kPreempt)
      open[entry.action.job] = {entry.action.job, entry.time, 0, entry.action.placement, false};
  }
  for (const JobRecord& record : records) last = std::max(last, record.finish);
  lose_workers(last);
  for (const JobRecord& record : records) {
    if (record.finished()) {
      close(record.id, record.finish, true);
    } else {
      close(record.id, last, false);
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return std::pair(a.start, a.job) < std::pair(b.start, b.job); });
  return segments;
}

double Utilisation(const std::vector<Segment>& segments, const std::vector<JobRecord>& records, int num_workers) {
  SimTime first = kNever, last = 0;
  for (const JobRecord& record : records) {
    first = std::min(first, record.arrival);
    last = std::max(last, record.finish);
  }
  if (num_workers == 0 || !(last > first)) return 0;
  // Segments come by start, so each worker's busy time is a sweep.
  std::vector<SimTime> busy_until(num_workers, 0);
  double busy = 0;
  for (const Segment& segment : segments) {
    for (WorkerId w : Distinct(segment.workers)) {
      busy += std::max(0.0, segment.end - std::max(segment.start, busy_until[w]));
      busy_until[w] = std::max(busy_until[w], segment.end);
    }
  }
  return busy / (num_workers * (last - first));
}

std::string FormatChromeTrace(const std::vector<WorkerSpec>& workers, const Workload& jobs, const std::vector<JobRecord>& records,
                              const std::vector<Segment>& segments) {
  using Json = nlohmann::ordered_json;
  constexpr double kMicro = 1e6;
  std::map<JobId, const JobSpec*> specs;
  for (const auto& job : jobs) specs[job->id] = job.get();
  Json events = Json::array();
  auto meta = [&](const char* what, int pid, int tid, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}});
  };
  meta("process_name", 0, 0, "queue");
  for (std::size_t w = 0; w < workers.size(); ++w) meta("process_name", static_cast<int>(w) + 1, 0, workers[w].name);
  // Each stay takes the lowest free row of its worker; rows are residencies.
  std::vector<std::vector<SimTime>> free_at(workers.size());
  for (const Segment& segment : segments) {
    for (WorkerId w : Distinct(segment.workers)) {
      std::size_t row = 0;
      while (row < free_at[w].size() && free_at[w][row] > segment.start) ++row;
      if (row == free_at[w].size()) {
        free_at[w].push_back(0);
        meta("thread_name", w + 1, static_cast<int>(row) + 1, "residency " + std::to_string(row));
      }
      free_at[w][row] = segment.end;
      const auto spec = specs.find(segment.job);
      Json args = {{"job", segment.job}, {"workers", segment.workers}, {"ends", segment.finished ? "finished" : "moved"}};
      if (spec != specs.end()) {
        Json own = Json::array();
        const std::size_t k = spec->second->subgraphs.size();
        for (std::size_t i = 0; i < segment.workers.size(); ++i) {
          if (segment.workers[i] == w) own.push_back(i % k);
        }
        args["subgraphs"] = std::move(own);
        args["iterations"] = spec->second->iterations;
      }
      events.push_back({{"ph", "X"},
                        {"name", fmt::format("{} {}", segment.job, spec != specs.end() ? spec->second->name : "")},
                        {"cat", "job"},
                        {"pid", w + 1},
                        {"tid", row + 1},
                        {"ts", segment.start * kMicro},
                        {"dur", (segment.end - segment.start) * kMicro},
                        {"args", std::move(args)}});
    }
  }
  // Waiting: arrived or preempted, and on no worker.
  std::map<SimTime, int> steps;
  for (const JobRecord& record : records) ++steps[record.arrival];
  for (const Segment& segment : segments) {
    --steps[segment.start];
    if (!segment.finished) ++steps[segment.end];
  }
  int waiting = 0;
  for (const auto& [time, step] : steps) {
    waiting += step;
    if (step != 0)
      events.push_back(
          {{"ph", "C"}, {"name", "waiting"}, {"pid", 0}, {"tid", 0}, {"ts", time * kMicro}, {"args", {{"jobs", waiting}}}});
  }
  Json out = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  // Names may hold any bytes; what is no UTF-8 is replaced.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weir
