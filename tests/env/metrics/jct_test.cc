#include "env/metrics/jct.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir {
namespace {

TEST(JctTest, NearestRankQuantiles) {
  EXPECT_EQ(Quantile({115, 40}, 0.95), 115);
  EXPECT_EQ(Quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.5), 5);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(Quantile(hundred, 0.95), 95);
  EXPECT_EQ(Quantile(hundred, 1), 100);
}

TEST(JctTest, UnfinishedJobsAreCountedAndLeftOut) {
  const JctSummary s = Summarize({{0, 1, 2, 11, {0}, 0, 0}, {1, 3, -1, -1, {}, 0, 0}});
  EXPECT_EQ(s.jobs, 2);
  EXPECT_EQ(s.unfinished, 1);
  EXPECT_EQ(s.mean_jct, 10);
  EXPECT_EQ(s.mean_waiting, 1);
  EXPECT_EQ(s.makespan, 10);
}

TEST(JctTest, StandardErrorOfTheMean) {
  const MeanAndError m = MeanOf({1, 2, 3});
  EXPECT_EQ(m.mean, 2);
  EXPECT_NEAR(m.standard_error, 1 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(MeanOf({7}).standard_error, 0);
}

}  // namespace
}  // namespace weir
