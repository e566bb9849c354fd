#include "env/metrics/jct.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "env/core/check.h"

namespace weir {

double Quantile(std::vector<double> values, double p) {
  WEIR_CHECK(!values.empty() && p > 0 && p <= 1);
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size()) - 1e-9));
  const std::size_t at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[at];
}

JctSummary Summarize(const std::vector<JobRecord>& records) {
  JctSummary summary;
  std::vector<double> jct;
  double waiting = 0, first = kNever, last = 0;
  for (const JobRecord& record : records) {
    ++summary.jobs;
    summary.preemptions += record.preemptions;
    summary.migrations += record.migrations;
    first = std::min(first, record.arrival);
    if (!record.finished()) {
      ++summary.unfinished;
      continue;
    }
    jct.push_back(record.jct());
    waiting += record.start - record.arrival;
    last = std::max(last, record.finish);
  }
  if (jct.empty()) return summary;
  double sum = 0;
  for (double value : jct) sum += value;
  summary.mean_jct = sum / static_cast<double>(jct.size());
  summary.mean_waiting = waiting / static_cast<double>(jct.size());
  summary.makespan = last - first;
  summary.p50_jct = Quantile(jct, 0.5);
  summary.p95_jct = Quantile(jct, 0.95);
  summary.p99_jct = Quantile(jct, 0.99);
  summary.max_jct = *std::max_element(jct.begin(), jct.end());
  return summary;
}

MeanAndError MeanOf(const std::vector<double>& values) {
  MeanAndError result;
  const double n = static_cast<double>(values.size());
  if (values.empty()) return result;
  for (double value : values) result.mean += value / n;
  if (values.size() < 2) return result;
  double squares = 0;
  for (double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (n - 1) / n);
  return result;
}

std::string FormatResult(const std::vector<JobRecord>& records) {
  std::string out = "# job start finish jct\n";
  for (const JobRecord& record : records) {
    if (!record.finished()) {
      out += fmt::format("job {} {} - -\n", record.id, record.start < 0 ? "-" : fmt::format("{:.9g}", record.start));
      continue;
    }
    out += fmt::format("job {} {:.9g} {:.9g} {:.9g}\n", record.id, record.start, record.finish, record.jct());
  }
  const JctSummary summary = Summarize(records);
  out += fmt::format("mean_jct {:.9g}\np95_jct {:.9g}\n", summary.mean_jct, summary.p95_jct);
  return out;
}

}  // namespace weir
