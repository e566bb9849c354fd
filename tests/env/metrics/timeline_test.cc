#include "env/metrics/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir {
namespace {

// Workers 0 and 1; time runs to the right, letters are jobs:
//   w0  AAAA....BB    job 0 (A): placed on 0 at 0, preempted at 4, placed on 1 at 6, finishes at 8
//   w1  .CCCCCAABB    job 1 (B): placed on 0 and 1 at 8, finishes at 10;   job 2 (C): placed on 1 at 1, migrates 1 -> 1 at 3,
//   ends 6
struct Story {
  std::vector<JobRecord> records = {{0, 0, 0, 8, {1}, 1, 0}, {1, 2, 8, 10, {0, 1}, 0, 0}, {2, 1, 1, 6, {1}, 0, 1}};
  std::vector<TimedAction> actions = {{0, Action::Place(0, {0})}, {1, Action::Place(2, {1})}, {3, Action::Migrate(2, {1})},
                                      {4, Action::Preempt(0)},    {6, Action::Place(0, {1})}, {8, Action::Place(1, {0, 1})}};
};

TEST(TimelineTest, SegmentsFollowTheActions) {
  const Story story;
  const std::vector<Segment> s = SegmentsOf(story.records, story.actions);
  ASSERT_EQ(s.size(), 5u);
  auto expect = [&](int i, JobId job, double start, double end, bool finished) {
    EXPECT_EQ(s[i].job, job) << i;
    EXPECT_EQ(s[i].start, start) << i;
    EXPECT_EQ(s[i].end, end) << i;
    EXPECT_EQ(s[i].finished, finished) << i;
  };
  expect(0, 0, 0, 4, false);
  expect(1, 2, 1, 3, false);
  expect(2, 2, 3, 6, true);
  expect(3, 0, 6, 8, true);
  expect(4, 1, 8, 10, true);
  EXPECT_EQ(s[4].workers, (Placement{0, 1}));
  // w0: 4 + 2 s, w1: 5 + 2 + 2 s of 10 s each.
  EXPECT_DOUBLE_EQ(Utilisation(s, story.records, 2), 15.0 / 20);
}

TEST(TimelineTest, OverlappingStaysCountOnce) {
  const std::vector<JobRecord> records = {{0, 0, 0, 6, {0}, 0, 0}, {1, 0, 2, 4, {0}, 0, 0}, {2, 0, 8, 10, {0, 0}, 0, 0}};
  const std::vector<Segment> s =
      SegmentsOf(records, {{0, Action::Place(0, {0})}, {2, Action::Place(1, {0})}, {8, Action::Place(2, {0, 0})}});
  EXPECT_DOUBLE_EQ(Utilisation(s, records, 1), 0.8);
}

TEST(TimelineTest, ALostWorkerEndsTheStaysOfItsJobs) {
  // Job 0 on 0 and 1 from 0; worker 1 is lost at 3; job 0 again on 0 from 5 to 9. Job 1 finished on 1 at 3, in time.
  const std::vector<JobRecord> records = {{0, 0, 0, 9, {0}, 1, 0}, {1, 0, 1, 3, {1}, 0, 0}};
  const std::vector<TimedAction> actions = {
      {0, Action::Place(0, {0, 1})}, {1, Action::Place(1, {1})}, {5, Action::Place(0, {0, 0})}};
  const std::vector<Segment> s = SegmentsOf(records, actions, {{3, WorkerEvent::Kind::kLost, 1, {}}});
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].end, 3);
  EXPECT_FALSE(s[0].finished);
  EXPECT_EQ(s[1].end, 3);
  EXPECT_TRUE(s[1].finished);
  EXPECT_EQ(s[2].start, 5);
  EXPECT_EQ(s[2].end, 9);
}

TEST(TimelineTest, ChromeTraceHoldsEveryStayAndTheQueue) {
  const Story story;
  std::vector<JobSpec> jobs(3);
  for (int i = 0; i < 3; ++i) {
    jobs[i].id = i;
    jobs[i].name = (i == 2 ? "\xff" : "n\"") + std::to_string(i);  // \xff: no UTF-8
    jobs[i].subgraphs.resize(i == 1 ? 2 : 1);
  }
  const std::string text = FormatChromeTrace({{"a", 1, 1, 1, 0, 0, 2}, {"b", 1, 1, 1, 0, 0, 2}}, MakeWorkload(jobs),
                                             story.records, SegmentsOf(story.records, story.actions));
  const auto trace = nlohmann::json::parse(text);
  double busy[3] = {0, 0, 0};
  std::map<double, int> waiting;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] == "X") busy[e["pid"].get<int>()] += e["dur"].get<double>() / 1e6;
    if (e["ph"] == "C") waiting[e["ts"].get<double>() / 1e6] = e["args"]["jobs"].get<int>();
    if (e["ph"] == "X" && e["args"]["job"] == 1) {
      EXPECT_EQ(e["args"]["subgraphs"], nlohmann::json({e["pid"].get<int>() - 1}));
      EXPECT_EQ(e["name"], "1 n\"1");
    }
  }
  EXPECT_DOUBLE_EQ(busy[1], 6);
  EXPECT_DOUBLE_EQ(busy[2], 9);
  // Job 1 waits from 2 to 8, job 0 from 4 to 6.
  EXPECT_EQ(waiting, (std::map<double, int>{{2, 1}, {4, 2}, {6, 1}, {8, 0}}));
}

}  // namespace
}  // namespace weir
