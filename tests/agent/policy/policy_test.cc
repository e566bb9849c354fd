#include "agent/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "agent/baselines/baselines.h"
#include "agent/policy/network.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"
#include "env/mdp/scheduling_env.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

std::string Message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    return e.what();
  }
  return "no error";
}

EpisodeSource Source(const std::string& cluster, double load, int jobs) {
  const std::string root = WEIR_SOURCE_DIR;
  const Cluster c = ReadCluster(root + "/configs/clusters/" + cluster + ".yaml");
  const ModelMix mix = ReadModelMix(root + "/configs/workloads/study.yaml");
  return [=](std::uint64_t seed) { return Episode{c.workers, GenerateWorkload(mix, c.workers, {load, jobs, seed})}; };
}

// Observations of an episode driven by Greedy.
std::vector<Observation> SomeObservations() {
  std::vector<Observation> all;
  SchedulingEnv env(Source("edge8", 0.9, 40));
  env.Reset(3);
  auto greedy = MakeBaseline("greedy");
  greedy->Reset();
  while (!env.done()) {
    all.push_back(env.observation());
    env.StepAction(greedy->Decide(env.state()));
  }
  return all;
}

PolicyFile SomePolicy() {
  PolicyFile policy;
  policy.info.seed = 7;
  policy.info.config = "seed: 7\n";
  policy.info.record = "imitation agreement=0.9\n";
  policy.weights = InitialWeights(policy.info.sizes, 7);
  return policy;
}

// The same observation with workers renumbered, jobs and actions (but for wait) in another order.
struct Shuffled {
  Observation observation;
  std::vector<int> action_from;  // new index -> old
};
Shuffled Shuffle(const Observation& o, std::uint64_t seed) {
  Rng rng(seed);
  auto permutation = [&](int n, int fixed) {
    std::vector<int> p(n);
    std::iota(p.begin(), p.end(), 0);
    for (int i = n - 1; i > fixed; --i) std::swap(p[i], p[fixed + static_cast<int>(rng.Below(i - fixed + 1))]);
    return p;
  };
  const int workers = static_cast<int>(o.worker_features.size()) / kWorkerFeatures;
  const int jobs = static_cast<int>(o.job_ids.size());
  const auto worker_from = permutation(workers, 0), job_from = permutation(jobs, 0),
             action_from = permutation(o.num_actions(), 1);
  std::vector<int> worker_to(workers), job_to(jobs);
  for (int i = 0; i < workers; ++i) worker_to[worker_from[i]] = i;
  for (int i = 0; i < jobs; ++i) job_to[job_from[i]] = i;
  Shuffled s{o, action_from};
  auto rows = [](const std::vector<float>& from, const std::vector<int>& order, int features) {
    std::vector<float> to;
    for (int r : order) to.insert(to.end(), from.begin() + r * features, from.begin() + (r + 1) * features);
    return to;
  };
  s.observation.worker_features = rows(o.worker_features, worker_from, kWorkerFeatures);
  s.observation.job_features = rows(o.job_features, job_from, kJobFeatures);
  s.observation.action_features = rows(o.action_features, action_from, kCandidateFeatures);
  s.observation.action_worker_begin = {0};
  s.observation.action_workers.clear();
  for (int i = 0; i < jobs; ++i) s.observation.job_ids[i] = o.job_ids[job_from[i]];
  for (int a = 0; a < o.num_actions(); ++a) {
    const int from = action_from[a];
    s.observation.actions[a] = o.actions[from];
    s.observation.mask[a] = o.mask[from];
    s.observation.action_job[a] = o.action_job[from] < 0 ? -1 : job_to[o.action_job[from]];
    for (int i = o.action_worker_begin[from]; i < o.action_worker_begin[from + 1]; ++i) {
      s.observation.action_workers.push_back(worker_to[o.action_workers[i]]);
    }
    s.observation.action_worker_begin.push_back(static_cast<int>(s.observation.action_workers.size()));
  }
  return s;
}

TEST(FloatNetworkTest, OrderOfWorkersJobsAndActionsDoesNotMatter) {
  FloatNetwork network({}, InitialWeights({}, 5));
  std::vector<float> scores, shuffled_scores;
  float value = 0, shuffled_value = 0;
  for (const Observation& o : SomeObservations()) {
    network.Score(o, &scores, &value);
    for (std::uint64_t seed : {1, 2}) {
      const Shuffled s = Shuffle(o, seed);
      network.Score(s.observation, &shuffled_scores, &shuffled_value);
      EXPECT_NEAR(shuffled_value, value, 1e-4);
      for (int a = 0; a < o.num_actions(); ++a) {
        const float before = scores[s.action_from[a]];
        if (std::isinf(before)) {
          EXPECT_EQ(shuffled_scores[a], before);
        } else {
          EXPECT_NEAR(shuffled_scores[a], before, 1e-4);
        }
      }
      EXPECT_TRUE(s.observation.actions[BestAction(s.observation, shuffled_scores)] == o.actions[BestAction(o, scores)]);
    }
  }
}

TEST(FloatNetworkTest, MaskedActionsAreNeverBest) {
  FloatNetwork network({}, InitialWeights({}, 5));
  std::vector<float> scores;
  for (Observation o : SomeObservations()) {
    for (int only = 0; only < o.num_actions(); ++only) {
      o.mask.assign(o.mask.size(), 0);
      o.mask[only] = 1;
      network.Score(o, &scores, nullptr);
      EXPECT_EQ(BestAction(o, scores), only);
    }
  }
}

TEST(FloatNetworkTest, MaskedActionsDoNotInfluenceOthers) {
  FloatNetwork network({}, InitialWeights({}, 5));
  std::vector<float> before, after;
  for (Observation o : SomeObservations()) {
    if (o.num_actions() < 3) continue;
    o.mask[1] = 0;
    network.Score(o, &before, nullptr);
    std::fill_n(o.action_features.begin() + kCandidateFeatures, kCandidateFeatures, 5.0f);
    network.Score(o, &after, nullptr);
    EXPECT_EQ(before, after);
  }
}

TEST(PolicyFileTest, RoundTripKeepsEverything) {
  const std::string path = ::testing::TempDir() + "/round.weirpolicy";
  const PolicyFile policy = SomePolicy();
  const std::string hash = WritePolicyFile(path, policy);
  const PolicyFile read = ReadPolicyFile(path);
  EXPECT_EQ(read.weights, policy.weights);
  EXPECT_EQ(read.info.hash, hash);
  EXPECT_EQ(hash, ContentHash(ReadFile(path)).substr(0, 12));
  EXPECT_EQ(read.info.seed, 7u);
  EXPECT_EQ(read.info.config, policy.info.config);
  EXPECT_EQ(read.info.record, policy.info.record);
  EXPECT_EQ(read.info.schema_version, kFeatureSchemaVersion);
  EXPECT_EQ(read.info.parameters, static_cast<long>(WeightLayout({}).trained));
  EXPECT_EQ(ReadPolicyInfo(path).hash, hash);
  EXPECT_EQ(LoadPolicy(path)->info().hash, hash);
}

TEST(PolicyFileTest, RefusesEveryTruncation) {
  const std::string content = EncodePolicy(SomePolicy());
  for (std::size_t n = 0; n < content.size(); n += n < 300 ? 1 : 997) {
    EXPECT_NE(Message([&] { DecodePolicy(content.substr(0, n), "p"); }), "no error") << n;
  }
  EXPECT_NE(Message([&] { DecodePolicy(content + "x", "p"); }), "no error");
}

TEST(PolicyFileTest, RefusesAFlippedBitAnywhere) {
  const std::string content = EncodePolicy(SomePolicy());
  for (std::size_t at = 0; at < content.size(); at += at < 200 ? 1 : 499) {
    std::string damaged = content;
    damaged[at] ^= 4;
    EXPECT_NE(Message([&] { DecodePolicy(damaged, "p"); }), "no error") << at;
  }
}

// `edit` changes the body; the trailer is made to fit it.
std::string Resealed(const std::function<void(std::string*)>& edit) {
  std::string content = EncodePolicy(SomePolicy());
  content.resize(content.size() - 64);
  edit(&content);
  return content + ContentHash(content);
}

TEST(PolicyFileTest, RefusalsNameWhatWasExpectedAndFound) {
  using ::testing::HasSubstr;
  auto decode = [](std::size_t at, char value) {
    return Message([&] { DecodePolicy(Resealed([&](std::string* body) { (*body)[at] = value; }), "old.weirpolicy"); });
  };
  EXPECT_THAT(decode(8, 9), HasSubstr("old.weirpolicy: policy format version must be 1, found 9"));
  EXPECT_THAT(decode(12, 77), HasSubstr("feature schema version must be 1, found 77"));
  EXPECT_THAT(decode(16, 3), HasSubstr("number of global features must be 8, found 3"));
  EXPECT_THAT(decode(32, 17), HasSubstr("number of weights must be"));
  EXPECT_THAT(decode(60, 'X'), HasSubstr("feature names differ"));
  EXPECT_THAT(Message([] { DecodePolicy("hello", "p"); }), HasSubstr("not a policy file"));
  EXPECT_THAT(Message([] { ReadPolicyFile("/nowhere/x.weirpolicy"); }), HasSubstr("/nowhere/x.weirpolicy"));
  EXPECT_THAT(Message([] {
                DecodePolicy(Resealed([](std::string* body) {
                               const float nan = std::numeric_limits<float>::quiet_NaN();
                               std::memcpy(body->data() + body->size() - 4, &nan, 4);
                             }),
                             "p");
              }),
              HasSubstr("weights must be finite"));
}

class BrokenScorer : public ActionScorer {
 public:
  void Score(const Observation& o, std::vector<float>* scores, float*) override {
    scores->assign(o.num_actions(), std::numeric_limits<float>::quiet_NaN());
  }
};

TEST(PolicySchedulerTest, FallsBackToTheBaselineOnNonFiniteScores) {
  PolicyScheduler policy(std::make_unique<BrokenScorer>(), PolicyInfo{});
  auto rule = MakeBaseline("rule");
  const Episode episode = Source("small", 0.7, 30)(5);
  Simulator a(episode.workers, episode.jobs), b(episode.workers, episode.jobs);
  policy.Reset();
  rule->Reset();
  EXPECT_TRUE(RunEpisode(&a, &policy).empty());
  EXPECT_TRUE(RunEpisode(&b, rule.get()).empty());
  EXPECT_GT(policy.fallbacks(), 0);
  EXPECT_LE(policy.fallbacks(), policy.decisions());
}

TEST(PolicySchedulerTest, AnyWeightsFinishEveryJobWithLegalActions) {
  for (const char* cluster : {"small", "edge8", "edge8-tight"}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      PolicyScheduler policy(std::make_unique<FloatNetwork>(NetworkSizes{}, InitialWeights({}, seed)), PolicyInfo{});
      const Episode episode = Source(cluster, 0.8, 40)(seed);
      Simulator simulator(episode.workers, episode.jobs);
      policy.Reset();
      EXPECT_TRUE(RunEpisode(&simulator, &policy).empty()) << cluster << ' ' << seed;
      EXPECT_EQ(policy.fallbacks(), 0);
    }
  }
}

}  // namespace
}  // namespace weir
