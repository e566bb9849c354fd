// Measured links: averages against the closed form, whose turn it is, and a job's prediction over a measured link.
#include "coordinator/link_book.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

using namespace testing_cluster;

bool Always(WorkerId) {
  return true;
}

TEST(LinkBookTest, FiguresAreAveragesOfLogarithms) {
  LinkBook book;
  EXPECT_EQ(book.Table(), nullptr);
  EXPECT_FALSE(book.Find(0, 1));
  const double mbit[] = {100, 90, 120, 30, 110, 100};
  double x = 0;
  for (int n = 1; n <= 6; ++n) {
    book.Add(n % 2, 1 - n % 2, mbit[n - 1] * 125e3, 1e-3, n);  // both directions count
    x += std::max(1.0 / n, 0.3) * (std::log(mbit[n - 1] * 125e3) - x);
    EXPECT_NEAR(book.Find(1, 0)->bandwidth, std::exp(x), 1e-6 * std::exp(x));
  }
  EXPECT_NEAR(book.Find(0, 1)->latency, 1e-3, 1e-12);
  const auto table = book.Table();
  EXPECT_DOUBLE_EQ(table->Find(1, 0)->bandwidth, book.Find(0, 1)->bandwidth);
  EXPECT_EQ(table->Find(0, 2), nullptr);
  for (double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    book.Add(2, 3, bad, 1e-3, 9);
  book.Add(2, 3, 1e6, -1, 9);
  EXPECT_FALSE(book.Find(2, 3));
  book.Forget(0);
  EXPECT_EQ(book.Table(), nullptr);
}

TEST(LinkBookTest, OneProbeAtATimeUnmeasuredPairsFirstThenTheOldestInTurns) {
  LinkBook book;
  double now = 1000;
  std::vector<std::pair<int, int>> order;
  const auto next = [&] {
    const auto probe = book.Next(3, now, Always);
    if (!probe) return false;
    order.emplace_back(probe->from, probe->to);
    EXPECT_FALSE(book.Next(3, now + LinkBook::kGapSeconds, Always)) << "two at a time";
    book.Add(probe->from, probe->to, 1e6, 1e-3, now += 0.5);
    EXPECT_FALSE(book.Next(3, now + 0.5 * LinkBook::kGapSeconds, Always)) << "too soon";
    now += LinkBook::kGapSeconds;
    return true;
  };
  while (next()) {
  }
  EXPECT_EQ(order, (std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}}));
  order.clear();
  now = 1000 + LinkBook::kRepeatSeconds + 100;
  while (next()) {
  }
  EXPECT_EQ(order, (std::vector<std::pair<int, int>>{{1, 0}, {2, 0}, {2, 1}}));  // the other direction
  // A worker that must not be disturbed is left out; a probe without an answer is given up.
  LinkBook other;
  EXPECT_EQ(other.Next(3, 0, [](WorkerId w) { return w != 0; })->to, 2);
  EXPECT_FALSE(other.Next(3, LinkBook::kPatience - 1, Always));
  EXPECT_EQ(other.Next(3, LinkBook::kPatience, Always)->to, 1);
}

TEST(LinkBookTest, AJobsPredictionTakesInTheMeasuredLink) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker a(coordinator.address(), "a", 1.5e6), b(coordinator.address(), "b", 1.5e6);
  a.hello().set_probe_address("tcp://127.0.0.1:2");
  b.hello().set_probe_address("tcp://127.0.0.1:3");
  a.Hello();
  b.Hello();
  const auto probe = a.Expect<wire::ProbeLink>(MessageType::kProbeLink);
  EXPECT_EQ(probe.peer(), "b");
  EXPECT_EQ(probe.address(), "tcp://127.0.0.1:3");
  wire::LinkReport report;
  report.set_peer("b");
  report.set_bandwidth(1000);  // 1000 bytes there and back take 2 s
  report.set_latency(0.25);
  a.Send(MessageType::kLinkReport, report);
  const auto list = [&] {
    return client.Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply);
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (list().workers(0).links_size() == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(10));
  auto request = MakeSubmit(&client, "two");
  (*request.mutable_labels())["parts"] = "2";
  const auto job = Submit(&client, request).job();
  a.Assigned();
  b.Assigned();
  // Two parts of 0.1 s, an arc of 2 * 1000/1000 + 2 * 0.25 s, one micro-batch.
  EXPECT_NEAR(Show(&client, job).predicted_iteration_seconds(), 0.2 + 2 + 0.5, 1e-9);
  const auto reply = list();
  ASSERT_EQ(reply.workers(1).links_size(), 1);
  EXPECT_EQ(reply.workers(1).links(0).peer(), "a");
  EXPECT_NEAR(reply.workers(1).links(0).bandwidth(), 1000, 1e-6);
}

}  // namespace
}  // namespace weir::coordinator
