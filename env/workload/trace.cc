#include "env/workload/trace.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "env/core/error.h"
#include "env/core/yaml.h"
#include "env/workload/csv.h"

namespace weir {
namespace {

double NearestRank(std::vector<double>& sorted, double p) {
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

Trace ReadTraceTable(const CsvTable& table, TimeOrder order) {
  static const std::vector<std::string> kColumns = {"arrival_s", "duration_s", "iterations", "gpus",
                                                    "model",     "group",      "name",       "estimate_s"};
  const int arrival = table.Column("arrival_s");
  auto find = [&](const char* name) {
    const std::optional<int> column = table.FindColumn(name);
    if (!column) {
      if (const std::string nearest = NearestName(name, table.header());
          !nearest.empty() && std::find(kColumns.begin(), kColumns.end(), nearest) == kColumns.end()) {
        throw Invalid("{}:1: unknown column '{}', did you mean '{}'?", table.source(), nearest, name);
      }
    }
    return column;
  };
  const auto duration = find("duration_s"), iterations = find("iterations"), gpus = find("gpus"), model = find("model"),
             group = find("group"), name = find("name"), estimate = find("estimate_s");
  auto has = [&](int row, std::optional<int> column) { return column && !table.IsEmpty(row, *column); };
  Trace trace;
  for (int row = 0; row < table.num_rows(); ++row) {
    TraceJob job;
    job.arrival = table.Number(row, arrival, 0, kMostSeconds);
    if (order == TimeOrder::kAscending && !trace.jobs.empty() && job.arrival < trace.jobs.back().arrival) {
      throw Invalid("{}: arrival_s {} lies before the row above ({}); `weir trace import csv` sorts", table.where(row),
                    job.arrival, trace.jobs.back().arrival);
    }
    if (has(row, duration)) job.duration = table.Number(row, *duration, 0, kMostSeconds);
    if (has(row, iterations)) job.iterations = table.Number(row, *iterations, 1, kMostIterations);
    if (has(row, gpus)) job.gpus = static_cast<int>(table.Integer(row, *gpus, 1, kMostGpus));
    if (has(row, estimate)) job.estimate = table.Number(row, *estimate, 0, kMostSeconds);
    if (model) job.model = table.Text(row, *model);
    if (group) job.group = table.Text(row, *group);
    if (name) job.name = table.Text(row, *name);
    trace.jobs.push_back(std::move(job));
  }
  if (trace.jobs.empty()) throw Invalid("{}: no job in the file", table.source());
  return trace;
}

Trace ReadTrace(const std::string& path) {
  return ReadTraceTable(CsvTable::Read(path), TimeOrder::kAscending);
}
Trace ParseTrace(const std::string& text, const std::string& source) {
  return ReadTraceTable(CsvTable::Parse(text, source), TimeOrder::kAscending);
}

std::string FormatTrace(const Trace& trace) {
  auto any = [&](auto has) { return std::any_of(trace.jobs.begin(), trace.jobs.end(), has); };
  const bool duration = any([](const TraceJob&j) { return j.duration >= 0; }),
             iterations = any([](const TraceJob&j) { return j.iterations > 0; }),
             model = any([](const TraceJob&j) { return !j.model.empty(); }),
             group = any([](const TraceJob&j) { return !j.group.empty(); }),
             name = any([](const TraceJob&j) { return !j.name.empty(); }),
             estimate = any([](const TraceJob&j) { return j.estimate >= 0; });
  std::string out = "arrival_s";
  if (duration) out += ",duration_s";
  if (iterations) out += ",iterations";
  out += ",gpus";
  if (model) out += ",model";
  if (group) out += ",group";
  if (name) out += ",name";
  if (estimate) out += ",estimate_s";
  out += "\n";
  auto to = std::back_inserter(out);
  auto optional = [&](bool column, bool value, double number) {
    if (column) value ? fmt::format_to(to, ",{}", number) : fmt::format_to(to, ",");
  };
  for (const TraceJob& job : trace.jobs) {
    fmt::format_to(to, "{}", job.arrival);
    optional(duration, job.duration >= 0, job.duration);
    optional(iterations, job.iterations > 0, job.iterations);
    fmt::format_to(to, ",{}", job.gpus);
    if (model) out += "," + CsvField(job.model);
    if (group) out += "," + CsvField(job.group);
    if (name) out += "," + CsvField(job.name);
    optional(estimate, job.estimate >= 0, job.estimate);
    out += "\n";
  }
  return out;
}

void ApplyFilter(const TraceFilter& filter, Trace* trace) {
  std::vector<TraceJob>& jobs = trace->jobs;
  if (!filter.group.empty()) {
    std::vector<std::string> groups;
    for (const TraceJob& job : jobs) {
      if (std::find(groups.begin(), groups.end(), job.group) == groups.end()) groups.push_back(job.group);
    }
    const std::size_t left = std::erase_if(jobs, [&](const TraceJob& job) { return job.group != filter.group; });
    if (jobs.empty()) throw Invalid("no job of group '{}' (groups: {})", filter.group, fmt::join(groups, ", "));
    if (left > 0) trace->notices.push_back(fmt::format("{} jobs of other groups left out", left));
  }
  auto outside = [&](const TraceJob& job) {
    return job.duration >= 0 && (job.duration < filter.min_seconds || job.duration > filter.max_seconds);
  };
  const auto count = std::count_if(jobs.begin(), jobs.end(), outside);
  if (count > 0 && filter.outside == TraceFilter::Outside::kClamp) {
    for (TraceJob& job : jobs) {
      if (job.duration >= 0) job.duration = std::clamp(job.duration, filter.min_seconds, filter.max_seconds);
    }
    trace->notices.push_back(fmt::format("{} durations cut to {:g} .. {:g} s", count, filter.min_seconds, filter.max_seconds));
  } else if (count > 0 && filter.outside == TraceFilter::Outside::kDrop) {
    std::erase_if(jobs, outside);
    trace->notices.push_back(
        fmt::format("{} jobs with durations outside {:g} .. {:g} s left out", count, filter.min_seconds, filter.max_seconds));
  }
  const auto total = static_cast<long long>(jobs.size());
  const long long first = std::min(filter.first, total),
                  end = filter.count < 0 ? total : first + std::min(filter.count, total - first);
  if (first >= end) throw Invalid("no job is left: jobs {} to {} of {} were asked for", filter.first, end, total);
  jobs.erase(jobs.begin() + end, jobs.end());
  jobs.erase(jobs.begin(), jobs.begin() + first);
  if (end - first < total) trace->notices.push_back(fmt::format("jobs {} to {} of {} kept", first, end - 1, total));
  const SimTime start = jobs.front().arrival;
  for (TraceJob& job : jobs) job.arrival -= start;
}

void SortByArrival(Trace* trace) {
  std::vector<TraceJob>& jobs = trace->jobs;
  long long descents = 0;
  for (std::size_t i = 1; i < jobs.size(); ++i) descents += jobs[i].arrival < jobs[i - 1].arrival;
  if (descents > 0) {
    std::stable_sort(jobs.begin(), jobs.end(), [](const TraceJob& a, const TraceJob& b) { return a.arrival < b.arrival; });
    trace->notices.push_back(fmt::format("sorted by time: {} rows stood before the row above them", descents));
  }
  if (jobs.empty()) return;
  const SimTime start = jobs.front().arrival;
  for (TraceJob& job : jobs) job.arrival -= start;
}

TraceStatistics StatisticsOf(const std::vector<TraceJob>& jobs) {
  TraceStatistics s;
  s.jobs = static_cast<long long>(jobs.size());
  if (jobs.empty()) return s;
  std::vector<double> durations;
  double busy = 0, one = 0;
  for (const TraceJob& job : jobs) {
    one += job.gpus == 1;
    if (job.duration < 0) continue;
    durations.push_back(job.duration);
    busy += job.duration * job.gpus;
  }
  const double n = static_cast<double>(jobs.size());
  s.one_gpu_share = one / n;
  s.span = jobs.back().arrival - jobs.front().arrival;
  if (jobs.size() > 1) {
    s.mean_gap = s.span / (n - 1);
    double squares = 0;
    for (std::size_t i = 1; i < jobs.size(); ++i) squares += std::pow(jobs[i].arrival - jobs[i - 1].arrival - s.mean_gap, 2);
    if (s.mean_gap > 0) s.gap_cv = std::sqrt(squares / (n - 1)) / s.mean_gap;
  }
  if (s.span > 0) s.mean_busy_gpus = busy / s.span;
  if (durations.empty()) return s;
  std::sort(durations.begin(), durations.end());
  s.p50_duration = NearestRank(durations, 0.5);
  s.p90_duration = NearestRank(durations, 0.9);
  s.max_duration = durations.back();
  return s;
}

}  // namespace weir
