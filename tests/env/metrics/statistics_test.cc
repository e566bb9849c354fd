#include "env/metrics/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "env/core/rng.h"

namespace weir {
namespace {

// All n^n resamples of few values: the exact distribution of which the bootstrap draws.
TEST(BootstrapTest, AgreesWithTheExactDistributionOfResampledMeans) {
  const std::vector<double> values = {1, 2, 4, 9, 30};
  std::vector<double> means;
  for (int code = 0; code < 3125; ++code) {
    double sum = 0;
    for (int rest = code, i = 0; i < 5; ++i, rest /= 5) sum += values[rest % 5];
    means.push_back(sum / 5);
  }
  std::sort(means.begin(), means.end());
  auto share_below = [&](double x) {
    return static_cast<double>(std::lower_bound(means.begin(), means.end(), x) - means.begin()) / 3125;
  };
  auto share_to = [&](double x) {
    return static_cast<double>(std::upper_bound(means.begin(), means.end(), x + 1e-9) - means.begin()) / 3125;
  };
  for (double level : {0.95, 0.8}) {
    const Interval interval = BootstrapMean(values, 40000, 3, level);
    const double p = (1 - level) / 2;
    EXPECT_LT(share_below(interval.low - 1e-9), p + 0.005);
    EXPECT_GT(share_to(interval.low), p - 0.005);
    EXPECT_LT(share_below(interval.high - 1e-9), 1 - p + 0.005);
    EXPECT_GT(share_to(interval.high), 1 - p - 0.005);
  }
}

TEST(BootstrapTest, CoversTheTrueMeanAboutAsOftenAsItSays) {
  Rng rng(11);
  int covered = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 24; ++i) values.push_back(5 + 2 * rng.Normal());
    const Interval interval = BootstrapMean(values, 600, static_cast<std::uint64_t>(trial));
    covered += interval.low <= 5 && 5 <= interval.high;
  }
  // For n = 24 the percentile interval is known to be a little short: about sqrt(23/24) * 1.96/2.07 of the t interval, 92.7 %.
  EXPECT_NEAR(covered / static_cast<double>(kTrials), 0.927, 0.025);
}

TEST(BootstrapTest, IsAFunctionOfItsSeedAndShiftsAndScales) {
  const std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
  const Interval a = BootstrapMean(values, 1000, 7), b = BootstrapMean(values, 1000, 7);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  std::vector<double> scaled;
  for (double v : values) scaled.push_back(2 * v + 1);
  const Interval c = BootstrapMean(scaled, 1000, 7);  // the same episodes are drawn
  EXPECT_NEAR(c.low, 2 * a.low + 1, 1e-12);
  EXPECT_NEAR(c.high, 2 * a.high + 1, 1e-12);
  const Interval one = BootstrapMean({4}, 1000, 7);
  EXPECT_EQ(one.low, 4);
  EXPECT_EQ(one.high, 4);
}

TEST(JainTest, ClosedForms) {
  EXPECT_EQ(JainIndex({2, 2, 2}), 1);
  EXPECT_EQ(JainIndex({5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex({1, 2, 3}), 36.0 / (3 * 14));
  EXPECT_EQ(JainIndex({}), 1);
  EXPECT_EQ(JainIndex({0, 0}), 1);
}

}  // namespace
}  // namespace weir
