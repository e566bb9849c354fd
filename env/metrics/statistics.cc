#include "env/metrics/statistics.h"

#include <algorithm>
#include <cmath>

#include "env/core/check.h"
#include "env/core/rng.h"

namespace weir {

Interval BootstrapMean(const std::vector<double>& values, int resamples, std::uint64_t seed, double level) {
  WEIR_CHECK(!values.empty() && resamples >= 1 && level > 0 && level < 1);
  const std::size_t n = values.size();
  if (n < 2) return {values[0], values[0]};
  const Rng root(seed);
  std::vector<double> means(resamples);
  for (int r = 0; r < resamples; ++r) {
    Rng rng = root.Split(static_cast<std::uint64_t>(r));
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += values[rng.Below(n)];
    means[r] = sum / static_cast<double>(n);
  }
  std::sort(means.begin(), means.end());
  auto at = [&](double p) {
    const auto rank = static_cast<std::size_t>(std::ceil(p * resamples - 1e-9));
    return means[std::clamp<std::size_t>(rank, 1, means.size()) - 1];
  };
  return {at((1 - level) / 2), at(1 - (1 - level) / 2)};
}

double JainIndex(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (double value : values) {
    WEIR_CHECK(value >= 0);
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

}  // namespace weir
