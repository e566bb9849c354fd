// Recorded runs: reading, playing, and what is said of damaged ones.
#include "env/workload/run_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "agent/baselines/baselines.h"
#include "env/core/error.h"
#include "env/core/event_log.h"
#include "env/core/rng.h"
#include "env/mdp/scheduler.h"
#include "env/workload/recorded_run.h"
#include "env/workload/scenario.h"

namespace weir {
namespace {

std::string Start() {
  return R"({"t":0,"event":"coordinator_start","physical":false,"restart_seconds":2,"scheduler":"fifo"})"
         "\n";
}
std::string Join(const std::string& name, double t = 0) {
  return fmt::format(
      R"({{"t":{},"event":"worker_join","worker":0,"name":"{}","flops":1e9,"memory":1e9,"bandwidth":1e8,"latency":0,"corun_gain":0,"max_residents":1}})"
      "\n",
      t, name);
}
std::string Arrive(int job, double t, double iterations, double share = 0) {
  return fmt::format(
      R"({{"t":{},"event":"arrival","job":{},"name":"j{}"}})"
      "\n"
      R"({{"t":{},"event":"plan","job":{},"model":"m.onnx","iterations":{},"micro_batches":1,"evaluation_share":{},)"
      R"("flop":[1e9],"memory":[1e6],"param_bytes":[0],"arcs":[]}})"
      "\n",
      t, job, job, t, job, iterations, share);
}
std::string PlaceLine(int job, double t, const std::string& name, double overhead = 0) {
  return fmt::format(
      R"({{"t":{},"event":"place","job":{},"workers":[0],"names":["{}"],"iteration_seconds":1,"finish":99,"overhead_seconds":{},"correction":1}})"
      "\n",
      t, job, name, overhead);
}
std::string FinishLine(int job, double t, double iteration) {
  return fmt::format(R"({{"t":{},"event":"finish","job":{},"jct":0,"iteration_seconds":{},"overhead_seconds":0.25}})"
                     "\n",
                     t, job, iteration);
}

std::vector<JobPrediction> Played(const std::string& log) {
  const RecordedRun run = ParseRun(log, "events.jsonl");
  Simulator simulator = SimulatorOf(run);
  ReplayDecisions(run, &simulator);
  return ComparePredictions(run, simulator.records());
}

// One worker of 1 GFLOP/s that holds one job; iterations of 1 GFLOP. The simulator ends job 1 at 1 + 0.5 + 10 * 1.1 = 12.5, the
// run ended it at 14; job 2 follows it in both.
TEST(RunReplayTest, ADecisionFollowsWhatStandsBeforeItInTheLog) {
  const auto p = Played(Start() + Join("w") + Arrive(1, 1, 10, 0.1) + PlaceLine(1, 1, "w", 0.5) + Arrive(2, 3, 4) +
                        FinishLine(1, 14, 1.2) + PlaceLine(2, 14, "w") + FinishLine(2, 18, 1));
  ASSERT_EQ(p.size(), 2u);
  EXPECT_NEAR(p[0].predicted_jct, 11.5, 1e-9);
  EXPECT_DOUBLE_EQ(p[0].measured_jct, 13);
  EXPECT_NEAR(p[0].predicted_iteration, 1, 1e-9);  // without evaluations and start-up
  EXPECT_NEAR(p[0].iteration_error(), 0.2 / 1.2, 1e-9);
  EXPECT_NEAR(p[1].predicted_jct, 12.5 + 4 - 3, 1e-9);  // starts where the simulator ends job 1, not where the run did
  EXPECT_NEAR(p[1].jct_error(), 1.5 / 15, 1e-9);
}

TEST(RunReplayTest, ErrorsAreNearestRanksAndTheMedianOfAnEvenNumberIsTheUpperOne) {
  std::vector<JobPrediction> p(4);
  for (int i = 0; i < 4; ++i) p[i] = {i, 1, 1 + 0.1 * (i + 1), 10, 9.0 - i};
  p[3].measured_iteration = 0;  // not measured
  const PredictionErrors e = ErrorsOf(p);
  EXPECT_EQ(e.jobs, 4);
  EXPECT_EQ(e.with_iterations, 3);
  EXPECT_NEAR(e.median_iteration, 0.2, 1e-12);
  EXPECT_NEAR(e.p90_iteration, 0.3, 1e-12);
  EXPECT_NEAR(e.median_jct, 0.3, 1e-12);
  EXPECT_NEAR(e.p90_jct, 0.4, 1e-12);
  EXPECT_NEAR(e.mean_predicted_jct, 7.5, 1e-12);
  EXPECT_EQ(ErrorsOf({}).jobs, 0);
}

// A worker is lost at 5, when the job has done 4 of 10: it begins anew at 8 on the one that joins, and ends at 18.
TEST(RunReplayTest, ALostWorkerCostsTheProgressThatTheRunLost) {
  const auto p = Played(Start() + Join("a") + Arrive(1, 1, 10) + PlaceLine(1, 1, "a") +
                        "{\"t\":5,\"event\":\"preempt\",\"job\":1,\"reason\":\"worker a was silent\",\"iterations\":0}\n"
                        "{\"t\":5,\"event\":\"worker_lost\",\"worker\":0,\"name\":\"a\",\"reason\":\"worker a was silent\"}\n" +
                        Join("b", 8) + PlaceLine(1, 8, "b") + FinishLine(1, 19, 1));
  ASSERT_EQ(p.size(), 1u);
  // A preempted job's state (1 MB) is loaded again over 100 MB/s, after restart_seconds.
  EXPECT_NEAR(p[0].predicted_jct, 8 + 2 + 0.01 + 10 - 1, 1e-9);
  EXPECT_EQ(p[0].predicted_iteration, 0);  // it ran in two pieces
}

TEST(RunReplayTest, AJobThatFailedOccupiesItsWorkerForTheIterationsThatItDid) {
  const auto p = Played(Start() + Join("w") + Arrive(1, 1, 10) + PlaceLine(1, 1, "w") + Arrive(2, 2, 4) +
                        "{\"t\":4,\"event\":\"fail\",\"job\":1,\"reason\":\"loss is nan\",\"iterations\":3}\n" +
                        PlaceLine(2, 4, "w") + FinishLine(2, 8, 1) + Arrive(3, 9, 4) +
                        "{\"t\":10,\"event\":\"cancel\",\"job\":3,\"reason\":\"user\",\"iterations\":0}\n");
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p[0].id, 2);
  EXPECT_NEAR(p[0].predicted_jct, 4 + 4 - 2, 1e-9);
}

// The oracle: an episode of the simulator, written down as a coordinator would, plays to the same finishes.
TEST(RunReplayTest, AnEpisodeWrittenAsALogPlaysToItself) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto between = [&](double a, double b) { return a + (b - a) * rng.Uniform(); };
    std::vector<WorkerSpec> workers;
    for (int w = 0; w < 4; ++w)
      workers.push_back({fmt::format("w{}", w), between(1e9, 5e9), between(4e6, 9e6), between(1e7, 1e8), between(0, 1e-3),
                         between(0, 0.5), 1 + w % 2});
    std::vector<JobSpec> jobs;
    for (int j = 0; j < 25; ++j) {
      JobSpec job;
      job.id = j + 1;
      job.name = fmt::format("j{}", j);
      job.arrival = (jobs.empty() ? 0 : jobs.back().arrival) + between(0, 4);
      job.iterations = 10 + static_cast<double>(rng.Below(100));
      job.micro_batches = 1 + static_cast<int>(rng.Below(3));
      const int k = 1 + static_cast<int>(rng.Below(3));
      for (int i = 0; i < k; ++i) job.subgraphs.push_back({between(1e7, 2e8), between(1e6, 4e6), between(0, 1e6)});
      for (int i = 0; i + 1 < k; ++i) job.arcs.push_back({i, i + 1, between(1e3, 1e6)});
      job.evaluation_share = between(0, 0.3);
      job.overhead_seconds = between(0, 2);
      job.correction = between(0.8, 1.3);
      jobs.push_back(job);
    }
    const ModelOptions model{.physical = seed % 2 == 0};
    Simulator simulator(workers, MakeWorkload(jobs), model);
    const char* const names[] = {"fifo", "sjf", "greedy", "rule"};
    ASSERT_TRUE(RunEpisode(&simulator, MakeBaseline(names[seed % 4]).get()).empty());

    // (time, order within an instant: finish, arrival, place; number) -> lines. The simulator's own order.
    std::map<std::tuple<double, int, int>, std::string> lines;
    const auto line = [](double t, const char* event, const EventLog::Fields& fields) {
      return EventLog::FormatLine(t, event, fields) + "\n";
    };
    for (const JobSpec& job : jobs) {
      std::vector<double> flop, memory, params, arcs;
      for (const auto& s : job.subgraphs)
        flop.push_back(s.flop), memory.push_back(s.memory_bytes), params.push_back(s.param_bytes);
      for (const auto& a : job.arcs) arcs.insert(arcs.end(), {double(a.from), double(a.to), a.bytes});
      lines[{job.arrival, 1, job.id}] = line(job.arrival, "arrival", {{"job", std::int64_t{job.id}}, {"name", job.name}}) +
                                        line(job.arrival, "plan",
                                             {{"job", std::int64_t{job.id}},
                                              {"model", job.name},
                                              {"iterations", job.iterations},
                                              {"micro_batches", std::int64_t{job.micro_batches}},
                                              {"evaluation_share", job.evaluation_share},
                                              {"flop", flop},
                                              {"memory", memory},
                                              {"param_bytes", params},
                                              {"arcs", arcs}});
    }
    int order = 0;
    for (const TimedAction& a : simulator.actions()) {
      const JobSpec& job = jobs[a.action.job - 1];
      std::vector<std::string> on;
      for (WorkerId w : a.action.placement) on.push_back(workers[w].name);
      lines[{a.time, 2, order++}] = line(a.time, "place",
                                         {{"job", std::int64_t{job.id}},
                                          {"workers", a.action.placement},
                                          {"names", on},
                                          {"iteration_seconds", 1.0},
                                          {"finish", 1.0},
                                          {"overhead_seconds", job.overhead_seconds},
                                          {"correction", job.correction}});
    }
    for (const JobRecord& r : simulator.records())
      lines[{r.finish, 0, r.id}] =
          line(r.finish, "finish", {{"job", std::int64_t{r.id}}, {"iteration_seconds", 1.0}, {"overhead_seconds", 0.0}});
    std::string log =
        line(0, "coordinator_start", {{"physical", model.physical}, {"restart_seconds", 2.0}, {"scheduler", std::string("x")}});
    for (const WorkerSpec& w : workers)
      log += line(0, "worker_join",
                  {{"name", w.name},
                   {"flops", w.flops},
                   {"memory", w.memory_bytes},
                   {"bandwidth", w.bandwidth},
                   {"latency", w.latency},
                   {"corun_gain", w.corun_gain},
                   {"max_residents", std::int64_t{w.max_residents}}});
    for (const auto& [key, text] : lines) log += text;

    const auto p = Played(log);
    ASSERT_EQ(p.size(), jobs.size());
    for (const JobPrediction& job : p)
      EXPECT_NEAR(job.predicted_jct, job.measured_jct, 1e-6 * job.measured_jct) << "seed " << seed << " job " << job.id;
  }
}

TEST(RunReplayTest, TheScenarioHoldsTheEvaluationsAsIterations) {
  const RecordedRun run = ParseRun(Start() + Join("w") + Arrive(7, 5, 10, 0.5) + PlaceLine(7, 5, "w", 1) + Arrive(9, 6, 1), "e");
  const Scenario scenario = ParseScenario(RunAsScenario(run), "s");
  ASSERT_EQ(scenario.jobs.size(), 1u);  // job 9 was never placed
  EXPECT_EQ(scenario.jobs[0].arrival, 0);
  EXPECT_DOUBLE_EQ(scenario.jobs[0].iterations, 15);
  EXPECT_EQ(scenario.workers.at(0).flops, 1e9);
}

TEST(RecordedRunTest, DamagedLogsAreToldWithFileAndLine) {
  const std::string good = Start() + Join("w") + Arrive(1, 1, 10);
  const auto why = [](const std::string& log) -> std::string {
    try {
      Played(log);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInvalid);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why(""), "events.jsonl: the log is empty");
  EXPECT_EQ(why(good + "{\"t\":2,\"event\":\"pla"), "events.jsonl:5: the line is cut off");
  EXPECT_EQ(why(good + "{\"t\":2,\"event\":\"pla\n"),
            "events.jsonl:5: expected one JSON object, found a damaged or cut-off line");
  EXPECT_EQ(why(good + "\n"), "events.jsonl:5: expected one JSON object, found an empty line");
  EXPECT_EQ(why(good + "[1]\n"), "events.jsonl:5: expected one JSON object, found a damaged or cut-off line");
  EXPECT_EQ(why(good + "{\"event\":\"x\"}\n"), "events.jsonl:5: t is missing");
  EXPECT_EQ(why(good + "{\"t\":0.5,\"event\":\"x\"}\n"), "events.jsonl:5: time 0.5 lies before the line above");
  EXPECT_EQ(why(good + "{\"t\":2,\"event\":\"finish\",\"job\":4}\n"), "events.jsonl:5: job 4 never arrived");
  EXPECT_EQ(why(good + "{\"t\":2,\"event\":\"finish\",\"job\":1.5}\n"), "events.jsonl:5: job must be a whole number, got 1.5");
  EXPECT_EQ(why(good + "{\"t\":2,\"event\":\"finish\",\"job\":-1}\n"), "events.jsonl:5: job must lie in 0 to 1e+08, got -1");
  EXPECT_EQ(why(good + PlaceLine(1, 2, "v")), "events.jsonl:5: worker 'v' never joined");
  EXPECT_EQ(why(good + Arrive(1, 2, 3)), "events.jsonl:5: job 1 arrived before");
  EXPECT_EQ(why(good + PlaceLine(1, 2, "w") + FinishLine(1, 3, 1) + FinishLine(1, 4, 1)),
            "events.jsonl:7: job 1 has ended before");
  EXPECT_EQ(why(good + PlaceLine(1, 2, "w") + Arrive(2, 3, 1) + PlaceLine(2, 4, "w")),
            "events.jsonl:8: worker 0 has no free residency (1 of 1 in use)");
  std::string bad = good;
  bad.replace(bad.find("\"flop\":[1e9]"), 12, "\"flop\":[1,2]");
  EXPECT_EQ(why(bad), "events.jsonl:4: flop, memory and param_bytes must have one entry a subgraph, arcs three an arc");
  bad = good;
  bad.replace(bad.find("\"arcs\":[]"), 9, "\"arcs\":[0,3,1]");
  EXPECT_EQ(why(bad), "events.jsonl:4: an arc names subgraph 3 of 1");
  bad = good;
  bad.replace(bad.find("\"flops\":1e9"), 11, "\"flops\":0");
  EXPECT_EQ(why(bad), "events.jsonl:2: flops must be a finite number > 0, got 0");
}

}  // namespace
}  // namespace weir
