// The hand-written forward against LibTorch's.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "agent/baselines/baselines.h"
#include "agent/policy/network.h"
#include "agent/policy/policy.h"
#include "env/mdp/scheduling_env.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

extern "C" weir::ActionScorer* weir_torch_load_policy(const weir::PolicyFile& policy);

namespace weir {
namespace {

TEST(ParityTest, FloatForwardEqualsLibTorch) {
  const std::string root = WEIR_SOURCE_DIR;
  const ModelMix mix = ReadModelMix(root + "/configs/workloads/study.yaml");
  for (const char* name : {"small", "edge8", "edge32"}) {
    const Cluster cluster = ReadCluster(root + "/configs/clusters/" + name + ".yaml");
    PolicyFile policy;
    policy.info.sizes = {8, 24, 12};
    policy.weights = InitialWeights(policy.info.sizes, 11);
    FloatNetwork network(policy.info.sizes, policy.weights);
    const std::unique_ptr<ActionScorer> torch(weir_torch_load_policy(policy));
    SchedulingEnv env([&](std::uint64_t seed) {
      return Episode{cluster.workers, GenerateWorkload(mix, cluster.workers, {0.9, 25, seed})};
    });
    env.Reset(4);
    auto greedy = MakeBaseline("greedy");
    greedy->Reset();
    std::vector<float> a, b;
    float value_a = 0, value_b = 0;
    while (!env.done()) {
      network.Score(env.observation(), &a, &value_a);
      torch->Score(env.observation(), &b, &value_b);
      ASSERT_EQ(a.size(), b.size());
      EXPECT_NEAR(value_a, value_b, 1e-4 * (1 + std::abs(value_a)));
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isinf(b[i])) {
          EXPECT_EQ(a[i], b[i]);
        } else {
          EXPECT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(a[i])));
        }
      }
      env.StepAction(greedy->Decide(env.state()));
    }
  }
}

}  // namespace
}  // namespace weir
