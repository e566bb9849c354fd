// Where a job would run: against closed forms, against whole episodes of the simulator, and against what a submit then does.
#include "coordinator/plan_query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "agent/baselines/baselines.h"
#include "env/core/rng.h"
#include "env/sim/simulator.h"
#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

using namespace testing_cluster;

WorkerSpec Worker(const std::string& name, double flops, double memory = 1e9, int residents = 1) {
  return {.name = name, .flops = flops, .memory_bytes = memory, .bandwidth = 1e8, .max_residents = residents};
}

JobSpec Job(JobId id, double flop, double iterations, double memory = 1e6, int parts = 1) {
  JobSpec spec;
  spec.id = id;
  spec.iterations = iterations;
  for (int k = 0; k < parts; ++k) spec.subgraphs.push_back({.flop = flop, .memory_bytes = memory, .param_bytes = 0});
  for (int k = 0; k + 1 < parts; ++k) spec.arcs.push_back({k, k + 1, 1e5});
  return spec;
}

PlanQuery Query(ClusterState state, JobSpec job) {
  PlanQuery query;
  for (const WorkerSpec& w : state.workers()) query.workers.push_back(w.name);
  query.why_not.resize(query.workers.size());
  query.plan.spec = std::move(job);
  query.plan.spec.arrival = state.now();
  query.plan.graph_fingerprint = "model";
  query.state = std::move(state);
  return query;
}

TEST(PlanQueryTest, AFreeClusterGivesTheClosedForm) {
  PlanQuery query = Query(ClusterState({Worker("slow", 1e9), Worker("fast", 4e9)}), Job(7, 2e9, 100));
  query.plan.spec.evaluation_share = 0.25;
  query.plan.spec.overhead_seconds = 3;
  const auto greedy = MakeBaseline("greedy");
  const PlanOutcome out = Foresee(query, greedy.get());
  EXPECT_EQ(out.placement, Placement{1});
  EXPECT_DOUBLE_EQ(out.iteration_seconds, 0.5);
  EXPECT_EQ(out.start, 0);
  EXPECT_NEAR(out.finish, 3 + 100 * 0.5 * 1.25, 1e-9);
  // A correction of this model on this device multiplies the iteration, no other.
  query.corrections.AddIteration("model", {"fast"}, 1.5, 1);
  query.corrections.AddIteration("other", {"fast"}, 3, 1);
  const PlanOutcome corrected = Foresee(query, greedy.get());
  EXPECT_NEAR(corrected.correction, 1.5, 1e-12);
  EXPECT_NEAR(corrected.iteration_seconds, 0.75, 1e-12);
  EXPECT_NEAR(corrected.finish, 3 + 100 * 0.75 * 1.25, 1e-9);
}

TEST(PlanQueryTest, ABusyWorkerIsWaitedForAndAnUnsuitedOneAvoided) {
  ClusterState state({Worker("slow", 1e9), Worker("fast", 4e9)});
  state.AddJob(Job(1, 4e9, 10));  // 10 s on the fast one
  state.Place(1, {1});
  state.AdvanceTo(4);
  state.AddJob(Job(2, 1e9, 10));  // 10 s on the slow one
  state.Place(2, {0});
  PlanQuery query = Query(state, Job(3, 4e9, 5));
  const auto fifo = MakeBaseline("fifo");
  PlanOutcome out = Foresee(query, fifo.get());
  EXPECT_EQ(out.placement, Placement{1});
  EXPECT_NEAR(out.start, 10, 1e-9);
  EXPECT_NEAR(out.finish, 15, 1e-9);
  const auto reply = AnswerPlanQuery(query, fifo.get());
  EXPECT_EQ(reply.why_waits(), "the workers that suit it are busy");
  EXPECT_NEAR(reply.choices(0).start_seconds(), 6, 1e-9);  // from now
  EXPECT_NEAR(reply.choices(0).finish_seconds(), 11, 1e-9);
  EXPECT_EQ(reply.workers(1).why_not(), "busy: 1 of 1 jobs");

  query.why_not[1] = "needs 1 GPU(s), it has 0";
  out = Foresee(query, fifo.get());
  EXPECT_EQ(out.placement, Placement{0});
  EXPECT_NEAR(out.start, 14, 1e-9);
  EXPECT_NEAR(out.finish, 14 + 20, 1e-9);
}

TEST(PlanQueryTest, JobsBeforeItGoWhereTheyMayAndAtTheirOwnCorrection) {
  ClusterState state({Worker("fast", 4e9), Worker("slow", 1e9)});
  state.AddJob(Job(1, 4e9, 10));
  PlanQuery query = Query(state, Job(2, 4e9, 5));
  query.why_not[1] = "needs 1 GPU(s), it has 0";
  const auto fifo = MakeBaseline("fifo");
  EXPECT_NEAR(Foresee(query, fifo.get()).start, 10, 1e-9);  // behind job 1 on the fast one
  query.fingerprints[1] = "other";
  query.corrections.AddIteration("other", {"fast"}, 2, 1);
  EXPECT_NEAR(Foresee(query, fifo.get()).start, 20, 1e-9);  // whose iterations take twice as long as modelled
  query.suited[1] = {false, true};
  EXPECT_EQ(Foresee(query, fifo.get()).start, 0);  // which may only run on the slow one
}

TEST(PlanQueryTest, AJobThatFitsNowhereNeverStarts) {
  PlanQuery query = Query(ClusterState({Worker("a", 1e9, 1e6), Worker("b", 1e9, 1e6)}), Job(1, 1e9, 10, 2e6));
  query.why_never = "too large";
  const auto greedy = MakeBaseline("greedy");
  const auto reply = AnswerPlanQuery(query, greedy.get());
  EXPECT_EQ(reply.why_waits(), "too large");
  ASSERT_EQ(reply.choices_size(), 3);  // greedy once
  for (const auto& choice : reply.choices()) {
    EXPECT_LT(choice.start_seconds(), 0);
    EXPECT_EQ(choice.workers_size(), 0);
    EXPECT_NE(choice.note().find("nothing will change"), std::string::npos) << choice.note();
  }
  EXPECT_NE(reply.workers(0).why_not().find("the whole job needs 2 MB, 1 MB are free"), std::string::npos);
}

// Answers with kWait for ever, and counts.
class Never : public Scheduler {
 public:
  std::string name() const override { return "never"; }
  Action Decide(const ClusterState&) override { return Action::Wait(); }
};
// Stops and starts the same job again and again.
class Restless : public Scheduler {
 public:
  std::string name() const override { return "restless"; }
  Action Decide(const ClusterState& state) override {
    ++decisions;
    if (!state.running().empty()) return Action::Preempt(state.running()[0]);
    return Action::Place(state.waiting()[0], {0});
  }
  int decisions = 0;
};

TEST(PlanQueryTest, AHeldJobIsSaidToBeHeldAndARestlessSchedulerIsGivenUp) {
  const PlanQuery query = Query(ClusterState({Worker("a", 1e9)}), Job(1, 1e9, 10));
  Never never;
  const auto reply = AnswerPlanQuery(query, &never);
  EXPECT_EQ(reply.why_waits(), "there is room, but never holds it");
  ASSERT_EQ(reply.choices_size(), 4);
  EXPECT_EQ(reply.choices(0).scheduler(), "never");
  EXPECT_LT(reply.choices(0).start_seconds(), 0);
  EXPECT_EQ(reply.choices(1).start_seconds(), 0);  // fifo takes it
  Restless restless;
  const PlanOutcome out = Foresee(query, &restless);
  EXPECT_LE(restless.decisions, kMostQueryDecisions);
  EXPECT_LT(out.finish, 0);
  EXPECT_EQ(out.note, "not foreseeable: more than 2000 decisions ahead");
  // Once its patience is used up, a scheduler is asked no more.
  PlanQuery hasty = query;
  hasty.patience = 0;
  restless.decisions = 0;
  EXPECT_EQ(Foresee(hasty, &restless).note, "not foreseeable: more than 0 s of looking ahead");
  EXPECT_LE(restless.decisions, 1);
  EXPECT_NE(AnswerPlanQuery(hasty, &never).why_waits(), "");
}

// Jobs that arrive together: the last one's start and finish are those of the simulator's whole episode.
TEST(PlanQueryTest, ForeseesWhatTheSimulatorDoes) {
  int waited = 0, split = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto draw = [&](double low, double high) { return low + (high - low) * rng.Uniform(); };
    std::vector<WorkerSpec> workers;
    for (int w = 0; w < 3; ++w) {
      workers.push_back(Worker("w" + std::to_string(w), draw(1e9, 5e9), draw(2e6, 6e6), 1 + seed % 2));
      workers.back().latency = draw(0, 1e-3);
    }
    std::vector<JobSpec> jobs;
    for (JobId id = 0; id < 8; ++id) {
      jobs.push_back(Job(id, draw(1e8, 1e9), std::floor(draw(5, 50)), draw(2e5, 1.5e6), 1 + id % 3));
      jobs.back().micro_batches = 1 + id % 4;
      jobs.back().evaluation_share = draw(0, 0.5);
      jobs.back().overhead_seconds = draw(0, 2);
    }
    for (const char* name : {"fifo", "sjf", "greedy"}) {
      const auto scheduler = MakeBaseline(name);
      const ModelOptions model{.physical = seed % 3 == 0};
      Simulator simulator(workers, MakeWorkload(jobs), model);
      RunEpisode(&simulator, scheduler.get());
      const JobRecord& record = simulator.records().back();

      ClusterState state(workers, model);
      for (std::size_t j = 0; j + 1 < jobs.size(); ++j) state.AddJob(jobs[j]);
      const PlanOutcome out = Foresee(Query(state, jobs.back()), scheduler.get());
      EXPECT_NEAR(out.start, record.start, 1e-6 * std::max(1.0, record.start)) << name << seed;
      EXPECT_NEAR(out.finish, record.finish, 1e-6 * std::max(1.0, record.finish)) << name << seed;
      EXPECT_EQ(out.placement, record.workers) << name << seed;
      waited += out.start > 0;
      split += std::adjacent_find(out.placement.begin(), out.placement.end(), std::not_equal_to<>()) != out.placement.end();
    }
  }
  EXPECT_GT(waited, 20);
  EXPECT_GT(split, 5);
}

// ---- Over real sockets

wire::PlanQueryReply Ask(worker::Client* client, const wire::SubmitRequest& submit) {
  wire::PlanQueryRequest request;
  *request.mutable_submit() = submit;
  return client->Call<wire::PlanQueryReply>(MessageType::kPlanQueryRequest, request, MessageType::kPlanQueryReply);
}

TEST(PlanQueryTest, TheAnswerIsWhatASubmitThenDoesAndLeavesNothingBehind) {
  TemporaryFolder folder;
  TestCoordinator coordinator(folder.path(), "greedy");
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker small(coordinator.address(), "small", 1.5e6), large(coordinator.address(), "large", 2.5e6);
  small.Hello();
  large.Hello();
  wire::SubmitRequest submit = MakeSubmit(&client, "a");
  (*submit.mutable_labels())["parts"] = "3";  // 1 MB each: two on the large one
  const auto plan = Ask(&client, submit);
  ASSERT_EQ(plan.error(), "");
  EXPECT_EQ(plan.why_waits(), "");
  ASSERT_EQ(plan.choices_size(), 3);
  EXPECT_EQ(plan.choices(0).scheduler(), "greedy");
  EXPECT_EQ(plan.choices(0).start_seconds(), 0);
  ASSERT_EQ(plan.choices(0).workers_size(), 3);
  EXPECT_EQ(plan.parts_size(), 3);
  EXPECT_EQ(plan.arcs_size(), 2);
  EXPECT_EQ(plan.workers(0).why_not(), "the whole job needs 3 MB, 1.5 MB are free");

  wire::ListReply list = client.Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply);
  EXPECT_EQ(list.jobs_size(), 0);
  const auto reply = Submit(&client, submit);
  EXPECT_EQ(reply.job(), 1);
  small.Assigned();
  large.Assigned();
  const auto job = Show(&client, 1);
  std::vector<std::string> by_part(plan.choices(0).workers().begin(), plan.choices(0).workers().end());
  by_part.erase(std::unique(by_part.begin(), by_part.end()), by_part.end());
  EXPECT_EQ(std::vector<std::string>(job.workers().begin(), job.workers().end()), by_part);
  EXPECT_NEAR(job.predicted_iteration_seconds(), plan.choices(0).iteration_seconds(), 1e-12);
  EXPECT_NEAR(job.predicted_finish() - job.start(), plan.choices(0).finish_seconds(), 1e-6);

  // Now both are taken.
  submit.set_request_id("b");
  const auto busy = Ask(&client, submit);
  EXPECT_EQ(busy.why_waits(), "the workers that suit it are busy");
  EXPECT_GT(busy.choices(0).start_seconds(), 0);
  coordinator.Stop();
  std::ifstream log(folder.path() + "/events.jsonl");
  int arrivals = 0;
  for (std::string line; std::getline(log, line);) arrivals += line.find("\"arrival\"") != std::string::npos;
  EXPECT_EQ(arrivals, 1);
}

TEST(PlanQueryTest, TheCoordinatorSaysWhyAJobWouldWaitOrIsRefused) {
  TemporaryFolder folder;
  TestCoordinator coordinator(folder.path(), "fifo");
  worker::Client client(coordinator.address(), kPatience);
  wire::SubmitRequest submit = MakeSubmit(&client, "a");
  EXPECT_EQ(Ask(&client, submit).why_waits(), "no worker is connected");
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.hello().set_arch("x86_64");
  worker.Hello();
  EXPECT_EQ(Ask(&client, submit).why_waits(), "");

  auto gpu = submit;
  gpu.set_gpus(1);
  auto plan = Ask(&client, gpu);
  EXPECT_EQ(plan.why_waits(), "no worker suits: w0 needs 1 GPU(s), it has 0");
  EXPECT_EQ(plan.workers(0).why_not(), "needs 1 GPU(s), it has 0");
  EXPECT_LT(plan.choices(0).start_seconds(), 0);
  auto arm = submit;
  arm.set_arch("aarch64");
  EXPECT_EQ(Ask(&client, arm).why_waits(), "no worker suits: w0 needs aarch64, it is x86_64");

  auto large = submit;
  (*large.mutable_labels())["operator"] = "1e12";
  plan = Ask(&client, large);
  EXPECT_EQ(plan.why_waits(), "an operator is too large");
  EXPECT_EQ(plan.choices_size(), 0);

  auto bad = submit;
  (*bad.mutable_labels())["fail"] = "train.loss: bad";
  plan = Ask(&client, bad);
  EXPECT_EQ(plan.error(), "train.loss: bad");
  EXPECT_EQ(plan.exit_code(), 2);
  bad.set_model_artifact(std::string(64, 'a'));
  plan = Ask(&client, bad);
  EXPECT_NE(plan.error().find("the model file (artifact 'aaa"), std::string::npos) << plan.error();
  EXPECT_EQ(plan.exit_code(), 2);
}

TEST(PlanQueryTest, AJobThatIsAskedAboutStandsBehindThoseThatWaitAlready) {
  TemporaryFolder folder;
  TestCoordinator coordinator(folder.path(), "fifo");
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  wire::SubmitRequest submit = MakeSubmit(&client, "running");
  (*submit.mutable_labels())["iterations"] = "1000";  // of 0.1 s
  Submit(&client, submit);
  worker.Assigned();
  submit.set_request_id("waiting");
  Submit(&client, submit);
  submit.set_request_id("asked");
  const auto plan = Ask(&client, submit);
  // Behind two runs of 100 s (less the moment since the first was placed), each with its start-up.
  const double runs = 2 * (100 + plan.overhead_seconds());
  EXPECT_LT(plan.choices(0).start_seconds(), runs);
  EXPECT_GT(plan.choices(0).start_seconds(), runs - 0.5 * 100);
  EXPECT_NEAR(plan.choices(0).finish_seconds() - plan.choices(0).start_seconds(), 100 + plan.overhead_seconds(), 1e-6);
}

}  // namespace
}  // namespace weir::coordinator
