#include <gtest/gtest.h>

#include <cmath>

#include "agent/baselines/baselines.h"
#include "agent/baselines/cem.h"
#include "agent/baselines/rule_file.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

TEST(CemTest, FindsTheMinimumOfABowl) {
  const std::vector<CemParameter> parameters = {{"a", 1, 1}, {"b", 10, 1}, {"c", 0, 1, true}};
  const CemScore score = [](const std::vector<std::vector<double>>& points) {
    std::vector<double> scores;
    for (const auto& p : points) {
      scores.push_back(std::pow(std::log(p[0] / 3), 2) + std::pow(std::log(p[1] / 2), 2) + std::pow(p[2] + 1.5, 2));
    }
    return scores;
  };
  CemOptions options;
  options.generations = 25;
  options.population = 40;
  int calls = 0;
  const CemResult result = MinimizeByCem(parameters, options, score, [&](int g, const CemGeneration&) { EXPECT_EQ(g, calls++); });
  EXPECT_EQ(calls, 25);
  EXPECT_NEAR(result.values[0], 3, 0.15);
  EXPECT_NEAR(result.values[1], 2, 0.1);
  EXPECT_NEAR(result.values[2], -1.5, 0.05);
  EXPECT_DOUBLE_EQ(result.score, score({result.values})[0]);
  EXPECT_EQ(MinimizeByCem(parameters, options, score).values, result.values);
  options.seed = 2;
  EXPECT_NE(MinimizeByCem(parameters, options, score).values, result.values);
}

TEST(CemTest, FollowsTheUpdateByHand) {
  // One parameter, one generation: the centre moves to 0.2 * old + 0.8 * mean of the best four, the whole population here.
  const std::vector<CemParameter> parameters = {{"x", 0, 1, true}};
  CemOptions options;
  options.generations = 1;
  options.population = 4;
  std::vector<double> seen;
  const CemScore score = [&](const std::vector<std::vector<double>>& points) {
    for (const auto& p : points) seen.push_back(p[0]);
    return std::vector<double>(points.size(), 1.0);
  };
  const CemResult result = MinimizeByCem(parameters, options, score);
  ASSERT_EQ(seen.size(), 5u);  // the centre is scored last
  EXPECT_NEAR(seen[4], 0.8 * (seen[0] + seen[1] + seen[2] + seen[3]) / 4, 2e-3 * std::abs(seen[4]));
  EXPECT_TRUE(result.is_centre);  // no sample is better by the margin
  EXPECT_EQ(result.values[0], seen[4]);
}

TEST(RuleFileTest, ShippedFilesAreWhatTheNamesStandFor) {
  const std::string folder = std::string(WEIR_SOURCE_DIR) + "/configs/rules/";
  const std::string rule = FormatRuleFile({TunedRule(), std::nullopt}, "");
  EXPECT_EQ(FormatRuleFile(ReadRuleFile(folder + "edge8.yaml"), ""), rule);
  const PreemptingRuleOptions preempting = TunedPreemptingRule();
  EXPECT_EQ(FormatRuleFile(ReadRuleFile(folder + "edge8-preempt.yaml"), ""),
            FormatRuleFile({preempting.rule, preempting.preempt}, ""));
}

TEST(RuleFileTest, ReadsBackAndNamesWhatIsWrong) {
  RuleFile file;
  SetRuleParameters({1.5, 2, 3, 4, 5, 0.1, 0.02, 0.003, -0.25, 0.5}, &file);
  EXPECT_EQ(file.rule.kappa, 2);
  EXPECT_EQ(file.rule.pmem, -0.25);
  const std::string text = FormatRuleFile(file, "two\nlines");
  EXPECT_EQ(text.substr(0, 15), "# two\n# lines\nr");
  EXPECT_EQ(FormatRuleFile(ParseRuleFile(text, "copy"), "two\nlines"), text);
  const auto error = [](const std::string& bad) -> std::string {
    try {
      ParseRuleFile(bad, "r.yaml");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  std::string negative = text, unknown = text, missing = text;
  negative.replace(negative.find("kappa: 2"), 8, "kappa: -2");
  EXPECT_NE(error(negative).find("r.yaml:7: rule.kappa"), std::string::npos) << error(negative);
  unknown.replace(unknown.find("kappa"), 5, "kapa");
  EXPECT_NE(error(unknown).find("kappa"), std::string::npos) << error(unknown);
  negative = text;
  negative.replace(negative.find("kappa: 2"), 8, "kappa: .nan");
  EXPECT_NE(error(negative).find("rule.kappa"), std::string::npos) << error(negative);
}

TEST(TuneTest, IsTheSameOnAnyNumberOfThreadsAndBeatsItsStart) {
  TuneConfig config;
  config.cluster = std::string(WEIR_SOURCE_DIR) + "/configs/clusters/small.yaml";
  config.workload = std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml";
  config.load = 0.9;
  config.jobs = 40;
  config.episodes = 4;
  config.base.rule.order = RuleOptions::Order::kBestTime;
  config.base.rule.wide = false;
  config.cem.generations = 3;
  config.cem.population = 12;
  const CemResult one = TuneRule(config, 1), three = TuneRule(config, 3);
  EXPECT_EQ(one.values, three.values);
  EXPECT_EQ(one.score, three.score);
  EXPECT_LE(one.score, one.generations[0].median);
  // Its score is what its values reach.
  double ratio = 0;
  for (std::uint64_t seed = config.first_seed; seed < config.first_seed + 4; ++seed) {
    const Episode episode = testing::StudyEpisodes("small", 0.9, 40)(seed);
    RuleFile file = config.base;
    SetRuleParameters(one.values, &file);
    double jct[2];
    for (int i = 0; i < 2; ++i) {
      Simulator simulator(episode.workers, episode.jobs);
      RunEpisode(&simulator, (i == 0 ? MakeRule("x", file) : MakeBaseline(config.reference)).get());
      jct[i] = simulator.job_seconds();
    }
    ratio += jct[0] / jct[1] / 4;
  }
  EXPECT_NEAR(one.score, ratio, 1e-12);
}

TEST(TuneTest, TrainingSeedsStayAwayFromThoseOfComparisons) {
  for (const char* name : {"edge8", "edge8-preempt"}) {
    const TuneConfig config = ReadTuneConfig(std::string(WEIR_SOURCE_DIR) + "/configs/tune/" + name + ".yaml");
    EXPECT_GT(config.first_seed, 1'000'000u);
  }
}

}  // namespace
}  // namespace weir
