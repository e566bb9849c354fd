// What an episode is judged by.
//   JCT = finish - arrival    waiting = start - arrival    makespan = last finish - first arrival
//   p-quantile by nearest rank: the value at position ceil(p * n) of the sorted list, counted from 1
// Jobs that never finished are counted, and left out of every average.
#ifndef WEIR_ENV_METRICS_JCT_H_
#define WEIR_ENV_METRICS_JCT_H_

#include <string>
#include <vector>

#include "env/sim/simulator.h"

namespace weir {

struct JctSummary {
  int jobs = 0;
  int unfinished = 0;
  double mean_jct = 0, p50_jct = 0, p95_jct = 0, p99_jct = 0, max_jct = 0;
  double mean_waiting = 0;
  double makespan = 0;
  int preemptions = 0, migrations = 0;
};

JctSummary Summarize(const std::vector<JobRecord>& records);

// Nearest rank. REQUIRES: values not empty, 0 < p <= 1.
double Quantile(std::vector<double> values, double p);

struct MeanAndError {
  double mean = 0;
  double standard_error = 0;  // sample deviation / sqrt(n); 0 for n < 2
};
MeanAndError MeanOf(const std::vector<double>& values);

// The text of a scenario's .expected file; seconds. A job without a finish has "-" there and isn't in the means.
std::string FormatResult(const std::vector<JobRecord>& records);

}  // namespace weir

#endif  // WEIR_ENV_METRICS_JCT_H_
