// Statistics of paired episodes.
#ifndef WEIR_ENV_METRICS_STATISTICS_H_
#define WEIR_ENV_METRICS_STATISTICS_H_

#include <cstdint>
#include <vector>

namespace weir {

struct Interval {
  double low = 0, high = 0;
};

// Percentile bootstrap (Efron 1979) of the mean: `resamples` times draw n values with replacement; the interval holds the middle
// `level` of their means, ends by nearest rank. The values drawn in resample r depend on (seed, r, n) alone, so intervals of
// several quantities of the same episodes rest on the same resampled episodes. Few values give short intervals: with n < 10 they
// cover less than they say. Fewer than two values: the mean itself, twice.
Interval BootstrapMean(const std::vector<double>& values, int resamples, std::uint64_t seed, double level = 0.95);

// Jain's fairness index (sum x)^2 / (n * sum x^2): 1 where all are equal, 1/n where one has everything (Jain, Chiu, Hawe 1984).
// 1 for no values or all zero. REQUIRES: values >= 0.
double JainIndex(const std::vector<double>& values);

}  // namespace weir

#endif  // WEIR_ENV_METRICS_STATISTICS_H_
