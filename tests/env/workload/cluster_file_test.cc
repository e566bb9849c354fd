// Links, co-run gains and worker events of cluster files.
#include "env/workload/cluster_file.h"

#include <gtest/gtest.h>

#include "env/core/error.h"

namespace weir {
namespace {

const std::string kWorkers =
    "workers:\n"
    "  - {name: a, flops: 1TFLOP/s, memory: 4GB, bandwidth: 1Gbit/s}\n"
    "  - {name: b, flops: 2TFLOP/s, memory: 8GB, bandwidth: 1Gbit/s, max_residents: 3}\n";

TEST(ClusterFileOptionsTest, ReadsLinksGainsAndEvents) {
  const Cluster cluster =
      ParseCluster(kWorkers +
                       "links:\n"
                       "  - {between: [b, a], bandwidth: 8Mbit/s, latency: 20ms}\n"
                       "corun_gain:\n"
                       "  - {classes: [resnet, bert], gain: -0.25}\n"
                       "events:\n"
                       "  - {at: 10s, event: lost, worker: a}\n"
                       "  - {at: 20s, event: join, worker: c, flops: 3TFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n"
                       "  - {at: 20s, event: change, worker: b, flops: 1TFLOP/s}\n"
                       "  - {at: 30s, event: change, worker: b, latency: 3ms}\n"
                       "  - {at: 1h, event: drain, worker: c}\n",
                   "c.yaml");
  ASSERT_TRUE(cluster.model.links && cluster.model.links->Find(0, 1));
  EXPECT_EQ(cluster.model.links->Find(0, 1)->bandwidth, 1e6);
  EXPECT_EQ(cluster.model.links->Find(1, 0)->latency, 0.02);
  ASSERT_TRUE(cluster.model.corun);
  EXPECT_EQ(cluster.model.corun->Gain(cluster.model.corun->Find("bert"), cluster.model.corun->Find("resnet"), 9), -0.25);
  EXPECT_EQ(cluster.model.corun->Gain(cluster.model.corun->Find("bert"), cluster.model.corun->Find("bert"), 9), 9);
  ASSERT_EQ(cluster.events.size(), 5u);
  EXPECT_EQ(cluster.events[0].kind, WorkerEvent::Kind::kLost);
  EXPECT_EQ(cluster.events[1].worker, 2);
  EXPECT_EQ(cluster.events[1].spec.name, "c");
  EXPECT_EQ(cluster.events[2].spec.flops, 1e12);
  EXPECT_EQ(cluster.events[2].spec.memory_bytes, 8e9);
  EXPECT_EQ(cluster.events[3].spec.flops, 1e12);  // as the change before left it
  EXPECT_EQ(cluster.events[3].spec.latency, 0.003);
  EXPECT_EQ(cluster.events[3].spec.max_residents, 3);
  EXPECT_EQ(cluster.events[4].time, 3600);
  const std::vector<WorkerSpec> best = WorkersAtTheirBest(cluster.workers, cluster.events);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[1].flops, 2e12);
  EXPECT_EQ(best[1].latency, 0);
}

TEST(ClusterFileOptionsTest, NamesLineAndFieldOfWhatIsWrong) {
  const auto error = [](const std::string& more) -> std::string {
    try {
      ParseCluster(kWorkers + more, "c.yaml");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInvalid);
      return e.what();
    }
    return "no error";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"links:\n  - {between: [a, x], latency: 1ms}\n", "c.yaml:5: links[0].between[1]"},
      {"links:\n  - {between: [a, a], latency: 1ms}\n", "c.yaml:5: links[0].between"},
      {"links:\n  - {between: [a, b]}\n", "with a bandwidth or a latency"},
      {"links:\n  - {between: [a, b], bandwidth: 0Gbit/s}\n", "links[0].bandwidth"},
      {"links:\n  - {between: [a, b], latency: 1ms}\n  - {between: [b, a], latency: 1ms}\n", "c.yaml:6: links[1].between"},
      {"corun_gain:\n  - {classes: [x, y], gain: -1}\n", "corun_gain[0].gain"},
      {"corun_gain:\n  - {classes: [x, y], gain: .nan}\n", "corun_gain[0].gain"},
      {"corun_gain:\n  - {classes: [x], gain: 0}\n", "two job classes"},
      {"events:\n  - {at: 5s, event: lost, worker: a}\n  - {at: 4s, event: back, worker: a}\n", "c.yaml:6: events[1].at"},
      {"events:\n  - {at: 5s, event: explode, worker: a}\n", "events[0].event"},
      {"events:\n  - {at: 5s, event: lost, worker: z}\n", "events[0].worker"},
      {"events:\n  - {at: 5s, event: lost, worker: a, flops: 1TFLOP/s}\n", "flops"},
      {"events:\n  - {at: 5s, event: join, worker: a, flops: 1TFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n", "a new name"},
      {"events:\n  - {at: 5s, event: join, worker: c, flops: 1TFLOP/s, memory: 0GB, bandwidth: 1Gbit/s}\n", "events[0].memory"},
      {"events:\n  - {at: -5s, event: lost, worker: a}\n", "events[0].at"},
  };
  for (const auto& [more, expected] : cases) {
    const std::string found = error(more);
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\nexpected: " << expected;
    EXPECT_NE(found.find("c.yaml:"), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace weir
