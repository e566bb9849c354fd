// Arrival processes and laws of durations against closed forms.
#include "env/workload/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "env/core/error.h"
#include "env/workload/durations.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

std::vector<double> Gaps(const ArrivalProcess& process, double mean_gap, int count, std::uint64_t seed) {
  ArrivalStream stream(process, mean_gap, Rng(seed));
  std::vector<double> gaps;
  SimTime last = 0;
  for (int i = 0; i < count; ++i) {
    const SimTime next = stream.Next();
    gaps.push_back(next - last);
    last = next;
  }
  return gaps;
}

struct Moments {
  double mean = 0, cv = 0;
};
Moments MomentsOf(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (double v : values) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size())) / mean};
}

TEST(ArrivalsTest, PoissonGapsAreThoseOfTheStream) {
  ArrivalStream stream({}, 3, Rng(5));
  Rng rng(5);
  SimTime now = 0;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(stream.Next(), now += rng.Exponential(3));
}

// Gaps of a two-state MMPP seen from an arrival: E[T^k] = k! a (-D0)^-k 1, D0 = [[-(rb+sb), sb], [sq, -(rq+sq)]], a proportional
// to (share * rb, (1 - share) * rq) (Fischer and Meier-Hellstern, 1993).
TEST(ArrivalsTest, BurstsHaveTheMomentsOfTheMmpp) {
  for (const auto& [factor, share, jobs] : std::vector<std::array<double, 3>>{{5, 0.15, 20}, {2, 0.5, 4}, {8, 0.05, 50}}) {
    ArrivalProcess process;
    process.kind = ArrivalProcess::Kind::kBursty;
    process.factor = factor;
    process.share = share;
    process.burst_jobs = jobs;
    const double gap = 10, rb = factor / gap, rq = (1 - share * factor) / (1 - share) / gap;
    const double sb = rb / jobs, sq = sb * share / (1 - share);
    // (-D0)^-1 by hand: -D0 = [[rb+sb, -sb], [-sq, rq+sq]].
    const double p = rb + sb, q = rq + sq, det = p * q - sb * sq;
    const double inverse[2][2] = {{q / det, sb / det}, {sq / det, p / det}};
    double a[2] = {share * rb, (1 - share) * rq};
    const double norm = a[0] + a[1];
    EXPECT_NEAR(norm, 1 / gap, 1e-12);
    double v[2] = {1, 1}, moment[2];
    for (int k = 0; k < 2; ++k) {
      const double w[2] = {inverse[0][0] * v[0] + inverse[0][1] * v[1], inverse[1][0] * v[0] + inverse[1][1] * v[1]};
      v[0] = w[0];
      v[1] = w[1];
      moment[k] = (k + 1) * (a[0] * v[0] + a[1] * v[1]) / norm;
    }
    EXPECT_NEAR(moment[0], gap, 1e-9);
    const double cv = std::sqrt(moment[1] / (gap * gap) - 1);
    const Moments seen = MomentsOf(Gaps(process, gap, 1000000, 7));
    EXPECT_NEAR(seen.mean, gap, 0.02 * gap) << factor;
    EXPECT_NEAR(seen.cv, cv, 0.02 * cv) << factor;
    EXPECT_GT(cv, 1.05);
  }
}

// Jobs in a twelfth of the period, over many periods, against the integral of the rate.
TEST(ArrivalsTest, DiurnalRateFollowsTheSine) {
  ArrivalProcess process;
  process.kind = ArrivalProcess::Kind::kDiurnal;
  process.period = 1000;
  process.amplitude = 0.9;
  process.phase = 0.25;
  ArrivalStream stream(process, 1, Rng(3));
  std::vector<double> counts(12, 0);
  constexpr int kPeriods = 400;
  SimTime now = 0;
  while ((now = stream.Next()) < kPeriods * process.period) ++counts[static_cast<int>(std::fmod(now, 1000) / 1000 * 12)];
  const double turn = 2 * std::numbers::pi;
  double chi = 0;
  for (int i = 0; i < 12; ++i) {
    const double from = i / 12.0, to = (i + 1) / 12.0;
    const double expected =
        kPeriods * 1000 * ((to - from) - 0.9 / turn * (std::cos(turn * (to + 0.25)) - std::cos(turn * (from + 0.25))));
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi, 31.3);  // 12 degrees of freedom: exceeded once in 500 seeds
}

TEST(ArrivalsTest, BatchesArriveTogetherAtTheMeanRate) {
  ArrivalProcess process;
  process.kind = ArrivalProcess::Kind::kBatch;
  process.batch = 10;
  const std::vector<double> gaps = Gaps(process, 2, 200000, 1);
  for (std::size_t i = 0; i < gaps.size(); ++i) ASSERT_EQ(gaps[i] == 0, i % 10 != 0);
  EXPECT_NEAR(MomentsOf(gaps).mean, 2, 0.05);
}

// The law's mean by integration of its distribution function: E[D] = min + integral of P(D > x).
double MeanBySurvival(const DurationLaw& law, const std::function<double(double)>& cdf) {
  constexpr int kSteps = 200000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {  // on a logarithmic grid, midpoints
    const double a = law.min * std::pow(law.max / law.min, static_cast<double>(i) / kSteps),
                 b = law.min * std::pow(law.max / law.min, static_cast<double>(i + 1) / kSteps);
    sum += (1 - cdf(std::sqrt(a * b))) * (b - a);
  }
  return law.min + sum;
}

TEST(DurationLawTest, MeansAgreeWithIntegrationAndWithDraws) {
  DurationLaw lognormal{DurationLaw::Kind::kLogNormal, 60, 18000, 720, 1.3, 0, {}, ""};
  auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  auto z = [&](double x) { return (std::log(x) - std::log(720.0)) / 1.3; };
  EXPECT_NEAR(lognormal.Mean(),
              MeanBySurvival(lognormal, [&](double x) { return (phi(z(x)) - phi(z(60))) / (phi(z(18000)) - phi(z(60))); }), 0.01);
  for (double alpha : {0.5, 1.0, 1.1, 2.5}) {
    DurationLaw pareto{DurationLaw::Kind::kPareto, 60, 100000, 0, 0, alpha, {}, ""};
    auto cdf = [&](double x) { return (1 - std::pow(60 / x, alpha)) / (1 - std::pow(60 / 100000.0, alpha)); };
    EXPECT_NEAR(pareto.Mean(), MeanBySurvival(pareto, cdf), 1e-4 * pareto.Mean()) << alpha;
    Rng rng(9);
    int below = 0;
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) {
      const double d = pareto.Draw(&rng);
      ASSERT_GE(d, 60);
      ASSERT_LE(d, 100000);
      below += d < 300;
    }
    EXPECT_NEAR(below, kDraws * cdf(300), 4 * std::sqrt(kDraws * cdf(300) * (1 - cdf(300)))) << alpha;
  }
  DurationLaw file{DurationLaw::Kind::kFile, 1, 100, 0, 0, 0, {10, 20, 60}, ""};
  EXPECT_EQ(file.Mean(), 30);
  file.Scale(2);
  EXPECT_EQ(file.Mean(), 60);
}

TEST(DurationLawTest, BoundsThatMeetAreAConstant) {
  DurationLaw pareto{DurationLaw::Kind::kPareto, 60, 60, 0, 0, 1, {}, ""};
  Rng rng(1);
  EXPECT_EQ(pareto.Mean(), 60);
  EXPECT_EQ(pareto.Draw(&rng), 60);
}

std::string ErrorOf(const std::string& extra,
                    const std::string& duration = "{median: 1h, sigma: 1, min: 1s, max: 9h, reference: 1TFLOP/s}") {
  try {
    ParseModelMix("name: m\nduration: " + duration + "\n" + extra +
                      "\nmicro_batches: [1]\nflop_per_mac: 6\nbytes_per_param: 16\nbytes_per_element: 2\noverhead: "
                      "0.2GB\nmodels:\n  - {name: a, "
                      "gmac: 1, params: 1, activation: 1MB, batches: [1], subgraphs: [1], stages: [1]}\n",
                  "m.yaml");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(ArrivalsTest, BadValuesAreNamed) {
  EXPECT_EQ(ErrorOf("arrivals: {kind: bursty, factor: 4, share: 0.25}"), "no error");
  EXPECT_NE(ErrorOf("arrivals: {kind: bursty, factor: 5, share: 0.25}")
                .find("m.yaml:3: arrivals must be a process with factor * share <= 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf("arrivals: {kind: diurnal, period: 0s}").find("above 0"), std::string::npos);
  EXPECT_NE(ErrorOf("arrivals: {kind: diurnal, amplitude: 1.5}").find("arrivals.amplitude must be"), std::string::npos);
  EXPECT_NE(ErrorOf("arrivals: {kind: batch, size: 0}").find("arrivals.size must be"), std::string::npos);
  EXPECT_NE(ErrorOf("arrivals: {kind: poison}").find("arrivals.kind must be"), std::string::npos);
  EXPECT_NE(ErrorOf("arrivals: {kind: poisson, size: 3}").find("unknown key 'arrivals.size'"), std::string::npos);
  EXPECT_NE(ErrorOf("estimate_error: -1").find("estimate_error must be"), std::string::npos);
  EXPECT_NE(ErrorOf("", "{kind: pareto, min: 1s, max: 9h, reference: 1TFLOP/s}").find("'alpha' is missing"), std::string::npos);
  EXPECT_NE(ErrorOf("", "{kind: pareto, alpha: 1, min: 9h, max: 1s, reference: 1TFLOP/s}").find("min <= max"), std::string::npos);
  EXPECT_NE(ErrorOf("", "{kind: file, file: none.csv, min: 1s, max: 9h, reference: 1TFLOP/s}").find("none.csv: can't be read"),
            std::string::npos);
}

TEST(GenerateWorkloadTest, EstimatesAreLogNormalAroundTheTruthAndChangeNothingElse) {
  ModelMix mix = ReadModelMix(std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml");
  const std::vector<WorkerSpec> workers = {{"w", 1e13, 64e9, 1e9, 0, 0, 2}};
  const Workload plain = GenerateWorkload(mix, workers, {0.7, 20000, 3});
  mix.estimate_error = 0.4;
  const Workload estimated = GenerateWorkload(mix, workers, {0.7, 20000, 3});
  double sum = 0, squares = 0;
  int counted = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i]->arrival, estimated[i]->arrival);
    ASSERT_EQ(plain[i]->iterations, estimated[i]->iterations);
    ASSERT_EQ(plain[i]->estimated_iterations, 0);
    ASSERT_GE(estimated[i]->estimated_iterations, 1);
    if (plain[i]->iterations < 1000) continue;  // rounding
    const double log = std::log(estimated[i]->estimated_iterations / estimated[i]->iterations);
    sum += log;
    squares += log * log;
    ++counted;
  }
  ASSERT_GT(counted, 5000);
  EXPECT_NEAR(sum / counted, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / counted), 0.4, 0.02);
}

TEST(GenerateWorkloadTest, ModelsAreDrawnByWeight) {
  Rng rng(4);
  std::vector<int> counts(3, 0);
  for (int i = 0; i < 60000; ++i) ++counts[DrawByWeight({1, 2, 3}, &rng)];
  EXPECT_NEAR(counts[0], 10000, 400);
  EXPECT_NEAR(counts[1], 20000, 500);
  Rng a(8), b(8);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(DrawByWeight({2, 2, 2, 2, 2}, &a), b.Below(5));  // as before there were weights
}

}  // namespace
}  // namespace weir
