// What runs teach, against the closed form.
#include "coordinator/corrections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "env/core/error.h"
#include "env/core/file.h"
#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

TEST(CorrectionsTest, TheFirstRunsAreAveragedAndLaterOnesForgetExponentially) {
  Corrections c;
  EXPECT_EQ(c.Factor("m", {"d"}), 1);
  // ln of the ratios; weights 1, 1/2, 1/3, 1/4, then 1/4 for ever.
  const double ratio[] = {1.2, 0.9, 1.5, 1.1, 1.3, 0.8, 1.0};
  double x = 0;
  for (int n = 1; n <= 7; ++n) {
    c.AddIteration("m", {"d"}, 0.01 * ratio[n - 1], 0.01);
    x += (n < 4 ? 1.0 / n : 0.25) * (std::log(ratio[n - 1]) - x);
    EXPECT_NEAR(c.Factor("m", {"d"}), std::exp(x), 1e-12) << n;
  }
  // Of equal ratios, exactly that ratio.
  for (int n = 0; n < 50; ++n) c.AddIteration("m", {"e"}, 3, 2);
  EXPECT_NEAR(c.Factor("m", {"e"}), 1.5, 1e-12);
  EXPECT_EQ(c.Factor("other", {"e"}), 1);
}

TEST(CorrectionsTest, AnOutlierCountsForFourFoldAtMostAndNonsenseForNothing) {
  Corrections c;
  c.AddIteration("m", {"d"}, 1e9, 1e-3);
  EXPECT_NEAR(c.Factor("m", {"d"}), 4, 1e-12);
  c.AddIteration("n", {"d"}, 1e-9, 1);
  EXPECT_NEAR(c.Factor("n", {"d"}), 0.25, 1e-12);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (double bad : {0.0, -1.0, nan, inf}) {
    c.AddIteration("k", {"d"}, bad, 1);
    c.AddIteration("k", {"d"}, 1, bad);
  }
  EXPECT_EQ(c.Factor("k", {"d"}), 1);
  c.AddOverhead("k", nan);
  EXPECT_EQ(c.Overhead("k"), Corrections::kUnknownOverhead);
}

TEST(CorrectionsTest, SeveralDevicesGiveTheirGeometricMean) {
  Corrections c;
  c.AddIteration("m", {"a"}, 2, 1);
  c.AddIteration("m", {"b"}, 1, 2);
  EXPECT_NEAR(c.Factor("m", {"a", "b"}), 1, 1e-12);
  EXPECT_NEAR(c.Factor("m", {"a", "unknown"}), 2, 1e-12);
  c.AddIteration("m", {"c", "d"}, 3, 1);
  EXPECT_NEAR(c.Factor("m", {"c"}), 3, 1e-12);
  EXPECT_NEAR(c.Factor("m", {"d"}), 3, 1e-12);
}

TEST(CorrectionsTest, AnUnknownModelHasTheOthersMeanOverhead) {
  Corrections c;
  c.AddOverhead("a", 1);
  c.AddOverhead("a", 3);
  EXPECT_DOUBLE_EQ(c.Overhead("a"), 2);
  c.AddOverhead("b", -5);  // a clock that went back
  EXPECT_DOUBLE_EQ(c.Overhead("b"), 0);
  EXPECT_DOUBLE_EQ(c.Overhead("c"), 1);
}

TEST(CorrectionsTest, WhatIsWrittenReadsBackAndDamageIsTold) {
  Corrections c;
  c.AddIteration("model \"x\"", {"box,1", "box 2"}, 1.234567890123, 1);
  c.AddOverhead("m", 0.1);
  EXPECT_EQ(Corrections::Parse(c.Format(), "f"), c);
  EXPECT_EQ(Corrections::Parse(Corrections().Format(), "f"), Corrections());
  for (const char* bad :
       {"", "[]", "{}", "{\"version\":2,\"iterations\":[],\"overheads\":[]}",
        "{\"version\":1,\"iterations\":[{}],\"overheads\":[]}",
        "{\"version\":1,\"iterations\":[{\"model\":\"m\",\"device\":\"d\",\"log_ratio\":9,\"count\":1}],\"overheads\":[]}",
        "{\"version\":1,\"iterations\":[],\"overheads\":[{\"model\":\"m\",\"seconds\":1,\"count\":0}]}"}) {
    try {
      Corrections::Parse(bad, "corrections.json");
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).rfind("corrections.json: ", 0), 0u) << e.what();
    }
  }
}

using namespace testing_cluster;

// Runs a job of the stub's only model to its end; returns what was predicted for it.
wire::JobInfo RunOne(worker::Client* client, ScriptedWorker* worker, const std::string& id, double iteration_seconds) {
  const auto job = Submit(client, MakeSubmit(client, id)).job();
  const auto assign = worker->Assigned();
  wire::Progress progress;
  *progress.mutable_key() = assign.key();
  progress.set_iteration(100);
  progress.set_iteration_seconds(iteration_seconds);
  worker->Send(MessageType::kProgress, progress);
  worker->Done(assign.key(), "00000000000000000000000000000000000000000000000000000000000000aa");
  return Await(client, job, "finished");
}

// 1 GFLOP at 10 GFLOP/s: 0.1 s by the model.
TEST(CorrectionsTest, TheNextRunOfAModelOnAWorkerIsPredictedWithWhatTheLastOneTaughtAlsoAfterARestart) {
  TemporaryFolder state;
  {
    TestCoordinator coordinator(state.path());
    worker::Client client(coordinator.address(), kPatience);
    ScriptedWorker worker(coordinator.address(), "w0");
    worker.Hello();
    const auto first = RunOne(&client, &worker, "a", 0.12);
    EXPECT_NEAR(first.predicted_iteration_seconds(), 0.1, 1e-9);
    EXPECT_NEAR(first.correction(), 1, 1e-12);
    EXPECT_NEAR(first.predicted_overhead_seconds(), Corrections::kUnknownOverhead, 1e-12);
    const auto second = RunOne(&client, &worker, "b", 0.12);
    EXPECT_NEAR(second.correction(), 1.2, 1e-9);
    EXPECT_NEAR(second.predicted_iteration_seconds(), 0.12, 1e-9);
    // The script took no time for its hundred iterations: no overhead was left.
    EXPECT_NEAR(second.predicted_overhead_seconds(), 0, 1e-9);
    EXPECT_NEAR(second.predicted_finish() - second.start(), 100 * 0.12, 1e-6);
  }
  {
    TestCoordinator coordinator(state.path());
    worker::Client client(coordinator.address(), kPatience);
    ScriptedWorker worker(coordinator.address(), "w0");
    worker.Hello();
    // A corrected run's own measurements are held against the model, not against the corrected prediction.
    EXPECT_NEAR(RunOne(&client, &worker, "c", 0.12).correction(), 1.2, 1e-9);
  }
  WriteFileAtomically(state.path() + "/corrections.json", "{\"version\": 1, \"itera");
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker other(coordinator.address(), "w0");
  other.Hello();
  EXPECT_NEAR(RunOne(&client, &other, "d", 0.12).correction(), 1, 1e-12);  // damaged: dropped, and the coordinator lives
}

}  // namespace
}  // namespace weir::coordinator
