#include "agent/train/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "agent/policy/policy.h"
#include "agent/train/episodes.h"
#include "agent/train/rollout.h"
#include "env/core/error.h"
#include "env/core/file.h"

extern "C" void weir_torch_train(const weir::TrainOptions& options, weir::TrainReport* report);

namespace weir {
namespace {

std::string TinyText(int updates) {
  return fmt::format(R"(seed: 3
network: {{embed: 4, hidden: 12, head: 8}}
episodes:
  workload: ../workloads/study.yaml
  clusters: [../clusters/small.yaml]
  load: [0.7, 0.7]
  jobs: [15, 20]
imitation: {{teacher: sbt-mc-hold-1.5, rounds: 2, episodes: 24, passes: 6, minibatch: 128, learning_rate: 5.0e-3}}
ppo: {{updates: {}, sequences: 2, rollouts: 3, passes: 2, minibatch: 256}}
validation: {{every: 2, episodes: 3, jobs: 30}}
)",
                     updates);
}

TrainConfig Tiny(int updates = 3) {
  return ParseTrainConfig(TinyText(updates), "tiny.yaml", std::string(WEIR_SOURCE_DIR) + "/configs/train");
}

TrainReport RunTraining(const TrainConfig& config, const std::string& name, int threads, bool resume = false) {
  TrainOptions options;
  options.config = config;
  options.out = ::testing::TempDir() + "/" + name + ".weirpolicy";
  options.threads = threads;
  options.resume = resume;
  options.progress = false;
  TrainReport report;
  weir_torch_train(options, &report);
  return report;
}

TEST(TrainTest, SameSeedSamePolicyOnAnyNumberOfThreads) {
  const TrainReport one = RunTraining(Tiny(), "one", 1), again = RunTraining(Tiny(), "again", 1),
                    three = RunTraining(Tiny(), "three", 3);
  EXPECT_EQ(one.hash, again.hash);
  EXPECT_EQ(one.hash, three.hash);
  EXPECT_EQ(one.best_score, three.best_score);
  TrainConfig other = Tiny();
  other.seed = 4;
  EXPECT_NE(RunTraining(other, "other", 2).hash, one.hash);
}

TEST(TrainTest, ResumeGivesWhatAnUninterruptedRunGives) {
  // The interrupted run: the time limit ends it before the first update.
  TrainOptions options;
  options.config = Tiny();
  options.out = ::testing::TempDir() + "/resumed.weirpolicy";
  options.minutes = 1e-9;
  options.progress = false;
  std::filesystem::remove(options.out + ".ckpt");
  TrainReport stopped, resumed;
  weir_torch_train(options, &stopped);
  EXPECT_TRUE(stopped.out_of_time);
  EXPECT_EQ(stopped.updates, 0);
  options.minutes = 0;
  options.resume = true;
  weir_torch_train(options, &resumed);
  EXPECT_EQ(resumed.updates, 3);
  EXPECT_EQ(resumed.hash, RunTraining(Tiny(), "whole", 2).hash);
}

TEST(TrainTest, ResumeRefusesACheckpointOfAnotherConfig) {
  RunTraining(Tiny(1), "mixed", 2);
  try {
    RunTraining(Tiny(2), "mixed", 2, true);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("belongs to another config"));
  }
}

TEST(TrainTest, TrainingBeatsAnUntrainedNetworkAndRandom) {
  const TrainConfig config = Tiny(4);
  RunTraining(config, "better", 2);
  const PolicyFile policy = ReadPolicyFile(::testing::TempDir() + "/better.weirpolicy");
  FloatNetwork trained(policy.info.sizes, policy.weights),
      fresh(policy.info.sizes, InitialWeights(policy.info.sizes, config.seed));
  const EpisodeSource source = ValidationCells(config)[0].episodes;
  double trained_log = 0, fresh_log = 0, random_log = 0;
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    trained_log += std::log(PlayPolicy(source, seed, &trained, Mode::kBest, 0, false).mean_jct);
    fresh_log += std::log(PlayPolicy(source, seed, &fresh, Mode::kBest, 0, false).mean_jct);
    random_log += std::log(PlayTeacher(source, seed, "random", nullptr, 0, false).mean_jct);
  }
  EXPECT_LT(trained_log, random_log - 12 * 0.1);
  EXPECT_LT(trained_log, fresh_log - 12 * 0.1);
}

TEST(RolloutTest, SameDrawsGiveTheSameEpisode) {
  const EpisodeSource source = TrainingEpisodes(Tiny());
  FloatNetwork network({}, InitialWeights({}, 2));
  const Rollout a = PlayPolicy(source, 9, &network, Mode::kSample, 1, true),
                b = PlayPolicy(source, 9, &network, Mode::kSample, 1, true);
  const Rollout c = PlayPolicy(source, 9, &network, Mode::kSample, 2, true);
  EXPECT_EQ(a.mean_jct, b.mean_jct);
  EXPECT_EQ(a.store.action_features, b.store.action_features);
  EXPECT_NE(a.mean_jct, c.mean_jct);
  EXPECT_EQ(a.store.samples.size(), a.sample_times.size());
}

// Two rollouts of two jobs in system until 10 and until 20 (then none), a decision at 0 each, tau 10:
// cost(0) = 2 (1 - e^-1) and 2 (1 - e^-2); the advantage of the first is the difference, over the mean of the two.
TEST(RolloutTest, AdvantagesAreTimeAlignedDifferencesToTheSiblings) {
  std::vector<Rollout> siblings(2);
  for (int r = 0; r < 2; ++r) {
    siblings[r].times = {0, 10.0 * (r + 1)};
    siblings[r].jobs_in_system = {2, 0};
    siblings[r].sample_times = {0};
    siblings[r].store.samples.resize(1);
  }
  SetAdvantages(&siblings, 10);
  const double first = 2 * (1 - std::exp(-1)), second = 2 * (1 - std::exp(-2)), mean = (first + second) / 2;
  EXPECT_NEAR(siblings[0].store.samples[0].advantage, (second - first) / mean, 1e-6);
  EXPECT_NEAR(siblings[1].store.samples[0].advantage, (first - second) / mean, 1e-6);
  EXPECT_NEAR(siblings[0].store.samples[0].target, std::log1p(first), 1e-6);
}

TEST(RolloutTest, ParallelForRunsEachIndexOnceAndRethrows) {
  std::vector<int> count(100, 0);
  ParallelFor(4, 100, [&](int i) { ++count[i]; });
  EXPECT_THAT(count, ::testing::Each(1));
  EXPECT_THROW(ParallelFor(4, 10,
                           [](int i) {
                             if (i == 7) throw Invalid("seven");
                           }),
               Error);
}

TEST(EpisodesTest, ValidationAndTrainingAreDisjointAndRepeatable) {
  const TrainConfig config = Tiny();
  const Episode a = TrainingEpisodes(config)(1), b = TrainingEpisodes(config)(1), v = ValidationCells(config)[0].episodes(1);
  ASSERT_EQ(a.jobs.size(), b.jobs.size());
  for (std::size_t i = 0; i < a.jobs.size(); ++i) EXPECT_EQ(a.jobs[i]->arrival, b.jobs[i]->arrival);
  EXPECT_NE(a.jobs[0]->arrival, v.jobs[0]->arrival);
}

TEST(TrainConfigTest, RefusesUnknownKeysAndValuesWithLineAndField) {
  const std::string folder = std::string(WEIR_SOURCE_DIR) + "/configs/train";
  auto message = [&](const std::string& text) -> std::string {
    try {
      ParseTrainConfig(text, "t.yaml", folder);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string base = "episodes:\n  workload: ../workloads/study.yaml\n  clusters: [../clusters/small.yaml]\n";
  EXPECT_EQ(message(base), "no error");
  EXPECT_THAT(message(base + "ppo: {updtes: 3}\n"),
              ::testing::AllOf(::testing::HasSubstr("t.yaml:4"), ::testing::HasSubstr("updates")));
  EXPECT_THAT(message(base + "ppo: {clip: -1}\n"), ::testing::HasSubstr("ppo.clip"));
  EXPECT_THAT(message(base + "imitation: {teacher: nobody}\n"), ::testing::HasSubstr("imitation.teacher"));
  EXPECT_THAT(message(base + "network: {ignore_features: [log_sise]}\n"), ::testing::HasSubstr("ignore_features"));
  EXPECT_THAT(message("seed: 1\n"), ::testing::HasSubstr("episodes"));
}

TEST(TrainConfigTest, TheDefaultConfigIsRead) {
  const TrainConfig config = ReadTrainConfig(std::string(WEIR_SOURCE_DIR) + "/configs/train/default.yaml");
  EXPECT_EQ(config.clusters.size(), 3u);
}

}  // namespace
}  // namespace weir
