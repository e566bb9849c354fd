// Checkpoints in the coordinator, over real sockets, with workers that are scripts: which ones count, where a job goes on, what
// preemption and migration do, what becomes of damaged files.
#include <gtest/gtest.h>

#include <filesystem>

#include "coordinator/checkpoint_book.h"
#include "coordinator/resources.h"
#include "env/mdp/scheduler.h"
#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

using namespace testing_cluster;

constexpr char kResult[] = "00000000000000000000000000000000000000000000000000000000000000aa";

wire::StageCheckpoint Part(int stage, std::int64_t iteration, const std::string& artifact, bool stopped = false) {
  wire::StageCheckpoint part;
  part.mutable_key()->set_stage(stage);
  part.set_iteration(iteration);
  part.set_artifact(artifact);
  part.set_bytes(10);
  part.set_stopped(stopped);
  return part;
}

TEST(CheckpointBookTest, CountsWhenEveryStageHasReportedTheSameIteration) {
  CheckpointBook book;
  book.Begin(2);
  EXPECT_FALSE(book.Add(Part(0, 10, "a")));
  EXPECT_FALSE(book.Add(Part(0, 10, "a")));  // a repeat
  EXPECT_FALSE(book.Add(Part(0, 20, "c")));
  EXPECT_FALSE(book.Add(Part(2, 10, "x")));  // no such stage
  const auto complete = book.Add(Part(1, 20, "d"));
  ASSERT_TRUE(complete);
  EXPECT_EQ(complete->iteration(), 20);
  EXPECT_EQ(complete->artifacts_size(), 2);
  EXPECT_EQ(complete->bytes(), 20);
  EXPECT_FALSE(book.Add(Part(1, 10, "b")));  // older than what is complete
  EXPECT_FALSE(book.AllStopped());
  book.Add(Part(0, 30, "e", true));
  EXPECT_TRUE(book.AnyStopped());
  EXPECT_TRUE(book.Add(Part(1, 30, "f", true)));
  EXPECT_TRUE(book.AllStopped());
  book.Begin(1);
  EXPECT_FALSE(book.AnyStopped());
}

// Uploads a file of this content and reports it as the stage's checkpoint.
std::string Checkpoint(ScriptedWorker* worker, worker::Client* client, const wire::StageKey& key, std::int64_t iteration,
                       const std::string& content, bool stopped = false) {
  const std::string hash = worker::ArtifactClient(worker::ArtifactAddress(client)).PutContent(content);
  wire::StageCheckpoint report = Part(key.stage(), iteration, hash, stopped);
  *report.mutable_key() = key;
  worker->Send(MessageType::kStageCheckpoint, report);
  EXPECT_EQ(worker->Expect<wire::StageAck>(MessageType::kStageAck).checkpoint(), iteration);
  return hash;
}

TEST(CheckpointTest, AJobGoesOnFromItsLastCompleteCheckpoint) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  auto request = MakeSubmit(&client, "a");
  request.set_checkpoint_every_seconds(30);
  request.set_checkpoint_keep(2);
  const auto job = Submit(&client, request).job();
  const auto first = worker.Assigned();
  EXPECT_EQ(first.checkpoint_every_seconds(), 30);
  EXPECT_FALSE(first.has_resume());
  const std::string h10 = Checkpoint(&worker, &client, first.key(), 10, "ten");
  const std::string h20 = Checkpoint(&worker, &client, first.key(), 20, "twenty");
  const std::string h30 = Checkpoint(&worker, &client, first.key(), 30, "thirty");
  worker.Failed(first.key(), true, "power");
  const auto second = worker.Assigned();
  EXPECT_EQ(second.resume().iteration(), 30);
  ASSERT_EQ(second.resume().artifacts_size(), 1);
  EXPECT_EQ(second.resume().artifacts(0), h30);
  auto info = Show(&client, job);
  EXPECT_EQ(info.iterations_done(), 30);
  EXPECT_EQ(info.resumed_from(), 30);
  ASSERT_EQ(info.checkpoints_size(), 2);  // the last two are kept
  EXPECT_FALSE(std::filesystem::exists(state.path() + "/artifacts/" + h10));
  EXPECT_TRUE(std::filesystem::exists(state.path() + "/artifacts/" + h20));

  // The newest is damaged: the one before, no retry used up, and said so.
  wire::StageFailed failed;
  *failed.mutable_key() = second.key();
  failed.set_infrastructure(true);
  failed.set_error("the content doesn't match its hash");
  failed.set_damaged_artifact(h30);
  worker.Send(MessageType::kStageFailed, failed);
  const auto third = worker.Assigned();
  EXPECT_EQ(third.resume().iteration(), 20);
  EXPECT_EQ(third.resume().artifacts(0), h20);
  worker.Done(third.key(), kResult);
  info = Await(&client, job, "finished");
  EXPECT_EQ(info.checkpoints_size(), 0);
  coordinator.Stop();
  EXPECT_FALSE(std::filesystem::exists(state.path() + "/artifacts/" + h20));  // nobody needs it any more
  EXPECT_NE(ReadFile(state.path() + "/events.jsonl").find("checkpoint_damaged"), std::string::npos);
}

// Two equal jobs write equal checkpoints, and a content-addressed store holds them once.
TEST(CheckpointTest, AFileThatAnotherJobNeedsStays) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker a(coordinator.address(), "a"), b(coordinator.address(), "b");
  a.Hello();
  const auto first = Submit(&client, MakeSubmit(&client, "one")).job();
  const auto on_a = a.Assigned();
  b.Hello();
  const auto second = Submit(&client, MakeSubmit(&client, "two")).job();
  const auto on_b = b.Assigned();
  const std::string hash = Checkpoint(&a, &client, on_a.key(), 10, "ten");
  EXPECT_EQ(Checkpoint(&b, &client, on_b.key(), 10, "ten"), hash);
  a.Done(on_a.key(), kResult);
  Await(&client, first, "finished");
  Show(&client, second);  // a tick later
  EXPECT_TRUE(std::filesystem::exists(state.path() + "/artifacts/" + hash));
  b.Failed(on_b.key(), true, "power");
  EXPECT_EQ(a.Assigned().resume().iteration(), 10);
}

TEST(CheckpointTest, ADamagedFileOfNobodysUsesUpARetry) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  const auto job = Submit(&client, MakeSubmit(&client, "a")).job();  // retry_infra 2
  for (int attempt = 1; attempt <= 3; ++attempt) {
    wire::StageFailed failed;
    *failed.mutable_key() = worker.Assigned().key();
    failed.set_infrastructure(true);
    failed.set_damaged_artifact(kResult);
    worker.Send(MessageType::kStageFailed, failed);
  }
  EXPECT_EQ(Await(&client, job, "failed").exit_code(), 7);
}

TEST(CheckpointTest, PartsOfACheckpointThatNeverBecameWholeDontCount) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker a(coordinator.address(), "a", 1.5e6), b(coordinator.address(), "b", 1.5e6);
  a.Hello();
  b.Hello();
  auto request = MakeSubmit(&client, "two");
  (*request.mutable_labels())["parts"] = "2";
  const auto job = Submit(&client, request).job();
  auto on_a = a.Assigned(), on_b = b.Assigned();
  Checkpoint(&a, &client, on_a.key(), 10, "a10");
  Checkpoint(&b, &client, on_b.key(), 10, "b10");
  Checkpoint(&a, &client, on_a.key(), 20, "a20");  // b never does
  a.Failed(on_a.key(), true, "power");
  on_a = a.Assigned();
  EXPECT_EQ(on_a.resume().iteration(), 10);
  EXPECT_EQ(on_a.resume().artifacts_size(), 2);  // both parts: any partition can start from them
  EXPECT_EQ(Show(&client, job).iterations_done(), 10);
}

TEST(CheckpointTest, CheckpointsOutliveTheCoordinator) {
  TemporaryFolder state;
  std::string hash;
  std::int64_t job = 0;
  {
    TestCoordinator coordinator(state.path());
    worker::Client client(coordinator.address(), kPatience);
    ScriptedWorker worker(coordinator.address(), "w0");
    worker.Hello();
    job = Submit(&client, MakeSubmit(&client, "a")).job();
    hash = Checkpoint(&worker, &client, worker.Assigned().key(), 40, "forty");
    Await(&client, job, "starting");
  }
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  EXPECT_EQ(Show(&client, job).iterations_done(), 40);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  const auto assign = worker.Assigned();
  EXPECT_EQ(assign.resume().iteration(), 40);
  EXPECT_EQ(assign.resume().artifacts(0), hash);
}

TEST(CheckpointTest, AJobsOwnFailureIsRetriedAsOftenAsItSays) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker worker(coordinator.address(), "w0");
  worker.Hello();
  auto request = MakeSubmit(&client, "a");
  request.set_retry_job(1);
  const auto job = Submit(&client, request).job();
  const auto first = worker.Assigned();
  Checkpoint(&worker, &client, first.key(), 10, "ten");
  worker.Failed(first.key(), false, "loss is nan at iteration 12 (stage 0)");
  const auto second = worker.Assigned();
  EXPECT_EQ(second.resume().iteration(), 10);
  worker.Failed(second.key(), false, "loss is nan at iteration 12 (stage 0)");
  const auto info = Await(&client, job, "failed");
  EXPECT_NE(info.reason().find("loss is nan at iteration 12"), std::string::npos);
  EXPECT_EQ(info.job_failures(), 1);
}

// Places the waiting job on worker 0, then moves it to worker 1, then preempts it once and places it again.
class Mover : public Scheduler {
 public:
  std::string name() const override { return "mover"; }
  void Reset() override {}
  Action Decide(const ClusterState& state) override {
    if (!state.waiting().empty()) {
      const JobId id = state.waiting()[0];
      constexpr WorkerId w = 0;
      if (state.num_workers() < 2 || !state.CanPlace(id, std::vector<WorkerId>{w})) return Action::Wait();
      return Action::Place(id, {w});
    }
    if (state.running().empty()) return Action::Wait();
    const LiveJob& job = state.job(state.running()[0]);
    if (job.migrations == 0 && state.IterationsDone(job.id) > 0) return Action::Migrate(job.id, {1});
    if (job.migrations == 1 && job.preemptions == 0 && state.IterationsDone(job.id) > 60) return Action::Preempt(job.id);
    return Action::Wait();
  }
};

TEST(CheckpointTest, MigrationAndPreemptionWaitForACheckpointOfAllStages) {
  TemporaryFolder state;
  worker::WakeUp stop;
  std::promise<std::string> ready;
  auto address = ready.get_future();
  CoordinatorOptions options;
  options.listen = options.artifact_listen = "tcp://127.0.0.1:*";
  options.state_folder = state.path();
  options.make_scheduler = [] { return std::make_unique<Mover>(); };
  options.plan = StubPlan;
  options.stop_fd = stop.fd();
  options.on_ready = [&](const std::string& a) { ready.set_value(a); };
  std::thread thread([&] { RunCoordinator(options); });
  const std::string at = address.get();
  {
    worker::Client client(at, kPatience);
    ScriptedWorker a(at, "a"), b(at, "b");
    a.Hello();
    b.Hello();
    const auto job = Submit(&client, MakeSubmit(&client, "m")).job();
    const auto first = a.Assigned();
    a.Progress(first.key(), 5, 1);
    ScriptedWorker c(at, "c");
    c.Hello();  // an event, at which the scheduler is asked
    const auto take = a.Expect<wire::TakeCheckpoint>(MessageType::kTakeCheckpoint);
    EXPECT_TRUE(take.stop());
    EXPECT_EQ(take.key().job(), job);
    const std::string hash = Checkpoint(&a, &client, first.key(), 6, "six", true);
    const auto second = b.Assigned();
    EXPECT_EQ(second.key().attempt(), 2);
    EXPECT_EQ(second.resume().iteration(), 6);
    EXPECT_EQ(second.resume().artifacts(0), hash);
    b.Progress(second.key(), 70, 1);
    ScriptedWorker d(at, "d");
    d.Hello();
    EXPECT_TRUE(b.Expect<wire::TakeCheckpoint>(MessageType::kTakeCheckpoint).stop());
    Checkpoint(&b, &client, second.key(), 71, "seventy-one", true);
    const auto third = a.Assigned();
    EXPECT_EQ(third.resume().iteration(), 71);
    EXPECT_EQ(Show(&client, job).iterations_done(), 71);
    a.Done(third.key(), kResult);
    Await(&client, job, "finished");
  }
  stop.Set();
  thread.join();
  const std::string events = ReadFile(state.path() + "/events.jsonl");
  EXPECT_NE(events.find("migrated by mover"), std::string::npos) << events;
  EXPECT_NE(events.find("preempted by mover"), std::string::npos) << events;
}

TEST(ResourcesTest, NameWhatIsMissing) {
  wire::SubmitRequest submit;
  wire::Hello worker;
  worker.set_arch("x86_64");
  worker.set_bandwidth(1e6);
  EXPECT_FALSE(WhyNotSuited(submit, worker));
  submit.set_arch("aarch64");
  EXPECT_EQ(*WhyNotSuited(submit, worker), "needs aarch64, it is x86_64");
  submit.set_arch("any");
  submit.set_gpus(1);
  EXPECT_EQ(*WhyNotSuited(submit, worker), "needs 1 GPU(s), it has 0");
  submit.set_gpus(0);
  submit.set_min_link(2e6);
  EXPECT_NE(WhyNotSuited(submit, worker)->find("needs a link of"), std::string::npos);
}

TEST(ResourcesTest, PartsOnWorkersThatDontSuitMoveToTheFastestPlacementThatDoes) {
  const auto worker = [](const char* name, double flops) {
    return WorkerSpec{.name = name, .flops = flops, .memory_bytes = 10, .bandwidth = 1e9};
  };
  ClusterState state({worker("a", 1), worker("b", 2), worker("c", 4)});
  JobSpec job;
  job.subgraphs = {{.flop = 1, .memory_bytes = 4, .param_bytes = 0}, {.flop = 1, .memory_bytes = 4, .param_bytes = 0}};
  state.AddJob(job);
  const auto not_c = [](WorkerId w) { return w != 2; };
  EXPECT_EQ(*OnAllowedWorkers(state, 0, {0, 1}, not_c), (Placement{0, 1}));  // as chosen
  EXPECT_EQ(*OnAllowedWorkers(state, 0, {2, 2}, not_c), (Placement{1, 1}));
  EXPECT_FALSE(OnAllowedWorkers(state, 0, {2, 2}, [](WorkerId) { return false; }));
}

TEST(ResourcesTest, AJobThatNoWorkerSuitsWaitsWithTheReason) {
  TemporaryFolder state;
  TestCoordinator coordinator(state.path());
  worker::Client client(coordinator.address(), kPatience);
  ScriptedWorker small(coordinator.address(), "small");
  small.hello().set_arch("x86_64");
  small.Hello();
  auto request = MakeSubmit(&client, "arm");
  request.set_arch("aarch64");
  const auto job = Submit(&client, request).job();
  const auto info = Await(&client, job, "waiting");
  EXPECT_NE(info.reason().find("needs aarch64, it is x86_64"), std::string::npos) << info.reason();
  ScriptedWorker arm(coordinator.address(), "arm");
  arm.hello().set_arch("aarch64");
  arm.Hello();
  EXPECT_EQ(arm.Assigned().key().job(), job);
}

}  // namespace
}  // namespace weir::coordinator
