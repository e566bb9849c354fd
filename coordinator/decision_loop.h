// What the coordinator knows and decides: jobs, workers, the cluster state on the real clock, the scheduler. No socket, no disk,
// no thread, no clock: messages and times come in through methods, messages go out through hooks, so every failure can be
// scripted.
//
// A job: waiting -> starting (assigned) -> running (first report) -> finished | failed | cancelled.
// An attempt is one gang of stages. What carries another attempt is dropped and its sender told to stop. A worker that is lost,
// an executor that dies or a stage that fails by no fault of the job ends the attempt: the job waits again with attempt + 1 and
// goes on from its last complete checkpoint, on whatever workers and in whatever parts; without one from the start. Preemption
// and migration: the stage that owns the output is asked for a checkpoint at which all stages end; the action takes effect once
// they have. If they don't within `halt_after`, the attempt ends as if a worker had been lost.
#ifndef WEIR_COORDINATOR_DECISION_LOOP_H_
#define WEIR_COORDINATOR_DECISION_LOOP_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/checkpoint_book.h"
#include "coordinator/corrections.h"
#include "coordinator/dispatch.h"
#include "coordinator/job_store.h"
#include "coordinator/link_book.h"
#include "coordinator/planning.h"
#include "coordinator/worker_table.h"
#include "env/core/error.h"
#include "env/core/event_log.h"
#include "env/mdp/scheduler.h"
#include "env/sim/cluster_state.h"
#include "worker/protocol/channel.h"
#include "worker/protocol/frame.h"

namespace weir::coordinator {

struct LoopOptions {
  ModelOptions model;
  double suspect_after = 4;
  double lost_after = 60;
  double resend_after = 2;  // an Assign without acknowledgement, a TakeCheckpoint without StageCheckpoint
  double halt_after = 60;   // patience with a checkpoint at which a job is to end
  bool corrections = true;  // predictions are multiplied with what earlier runs of (model, device) taught
  std::string policy_hash;
  std::string artifact_address;
  std::string version;
};

struct LoopHooks {
  // To a worker or client at once. kGone: the connection is closed.
  std::function<worker::SendResult(const std::string& peer, const std::string& frame)> send;
  // To a client, once everything that changed so far is on disk. `new_job` >= 0: the reply acknowledges that job.
  std::function<void(const std::string& peer, const std::string& frame, JobId new_job)> reply_after_commit;
  // Starts planning; the result comes back through OnPlanned with the same token.
  std::function<void(const std::string& token, PlanRequest request)> plan;
  // "" where the store lacks it.
  std::function<std::string(const std::string& hash)> artifact_path;
  // Runs `work`, which doesn't throw, beside the loop, then `finish` in it.
  std::function<void(std::function<void()> work, std::function<void()> finish)> background;
  // Another scheduler like the one that decides, for questions; called beside the loop.
  std::function<std::unique_ptr<Scheduler>()> make_scheduler;
};

class DecisionLoop {
 public:
  DecisionLoop(LoopOptions options, LoopHooks hooks, std::unique_ptr<Scheduler> scheduler, EventLog log, double now);

  // Takes over what the store holds; unfinished jobs wait again with attempt + 1. Call before anything else.
  void Restore(std::vector<StoredJob> jobs);

  // A frame from `peer`. Unknown types get an ErrorReply.
  void OnFrame(const std::string& peer, const worker::Frame& frame, double now);
  void OnPlanned(const std::string& token, std::optional<JobPlan> plan, ExitCode code, const std::string& error, double now);
  // Silence of workers, repeats of what wasn't acknowledged.
  void OnTick(double now);
  // Asks the scheduler until it waits, where something happened since the last time.
  void Decide(double now);

  // Jobs that changed since the last call, for the store. Valid until the next other call.
  std::vector<const StoredJob*> TakeDirty();
  // They couldn't be saved: they stay dirty.
  void GiveBackDirty(const std::vector<const StoredJob*>& jobs);
  // Files that no job needs any more: to be deleted once what was dirty is on disk. Equal jobs have equal checkpoints, hence
  // files.
  std::vector<std::string> TakeGarbage();
  // A job that couldn't be made durable and was never acknowledged.
  void Forget(JobId id);

  // What runs have taught so far; Set before anything else, Take where it changed since the last time.
  void SetCorrections(Corrections corrections) { corrections_ = std::move(corrections); }
  std::optional<Corrections> TakeCorrections() {
    if (!std::exchange(corrections_changed_, false)) return std::nullopt;
    return corrections_;
  }

  bool shutdown_requested() const { return shutdown_; }
  const ClusterState& state() const { return state_; }

 private:
  struct Job {
    StoredJob stored;
    std::optional<JobPlan> plan;
    bool planning = false;
    bool in_state = false;      // known to state_
    StagePlan stages;           // of the present attempt; empty while it waits
    double report_seconds = 0;  // for the measured iteration time
    double report_iterations = 0;
    bool has_result = false;
    CheckpointBook checkpoints;
    struct Halt {
      std::string reason;
      Placement target;  // of a migration; empty: a preemption
      double asked_at = 0, sent_at = 0;
    };
    std::optional<Halt> halt;     // it is to end at its next checkpoint
    double placed_at = -1;        // of the present attempt
    double begun_at = 0;          // iterations that it started from
    double modelled_seconds = 0;  // of the reported iterations, without corrections

    wire::JobInfo& info() { return stored.info; }
    const wire::JobInfo& info() const { return stored.info; }
    bool ended() const;
    bool assigned() const { return !stages.stages.empty(); }
  };
  struct PendingSubmit {
    wire::SubmitRequest request;
    std::vector<std::string> peers;
  };

  void OnHello(const std::string& peer, const wire::Hello& hello);
  void OnHeartbeat(const std::string& peer, const wire::Heartbeat& beat);
  void OnBye(WorkerEntry* worker, const std::string& reason);
  void OnProgress(WorkerEntry* worker, const wire::Progress& progress);
  void OnStageDone(WorkerEntry* worker, const wire::StageDone& done);
  void OnStageFailed(WorkerEntry* worker, const wire::StageFailed& failed);
  void OnStageCheckpoint(WorkerEntry* worker, const wire::StageCheckpoint& report);
  void OnSubmit(const std::string& peer, wire::SubmitRequest request);
  // Why a file of the job isn't in the store; empty where all are.
  std::string MissingFile(const wire::SubmitRequest& request) const;
  void OnPlanQuery(const std::string& peer, const wire::PlanQueryRequest& request);
  void OnCancel(const std::string& peer, const wire::CancelRequest& request);
  void OnList(const std::string& peer, const wire::ListRequest& request);
  void OnShow(const std::string& peer, const wire::ShowRequest& request);

  // The job and stage that `key` means now, if `worker` runs it; otherwise null, and the worker is told to stop it.
  Job* Fenced(WorkerEntry* worker, const wire::StageKey& key);
  void SendStop(WorkerEntry* worker, std::int64_t job, int attempt, const std::string& reason);
  void SendAssign(Job* job, int stage);
  void Dispatch(Job* job, const Placement& placement);
  void StopStages(Job* job, const std::string& reason);
  // Asks the job to end at its next checkpoint, for a preemption or migration.
  void BeginHalt(Job* job, const std::string& reason, Placement target);
  void SendTakeCheckpoint(Job* job);
  // All stages have ended at a checkpoint.
  void FinishHalt(Job* job);
  void KeepNewest(Job* job, int count);                                // of its checkpoints
  bool DropCheckpoint(Job* job, const std::string& damaged_artifact);  // false: it has none with this file
  // Iterations of the last complete checkpoint whose files are there; 0: none.
  std::int64_t LastCheckpoint(const Job& job) const;
  // Sets what waits to what the last checkpoint holds.
  void GoBack(Job* job);
  // Why no connected worker suits the job; empty where some do.
  std::string WhyNoneSuits(const wire::SubmitRequest& submit) const;
  // Why the job can't run on the workers that there are, however free they were; empty where it can.
  std::string WhyNever(const JobSpec& spec, const wire::SubmitRequest& submit) const;
  bool Allowed(const Job& job, WorkerId worker) const;
  // Ends the attempt. `counts`: against retry_infra.
  void Requeue(Job* job, const std::string& reason, bool counts);
  void End(Job* job, const std::string& state, const std::string& reason, ExitCode code);
  void Admit(Job* job);  // into state_, where its plan fits
  void RequestPlan(Job* job);
  void ReplanWaiting();
  void LoseWorker(WorkerEntry* worker, WorkerEntry::State state, const std::string& reason, bool counts);
  void UpdateReasons();
  PlanRequest MakePlanRequest(const wire::SubmitRequest& submit) const;
  // decision_loop_queries.cc: the planned job of a question that came from `peer`.
  void AnswerQuery(const std::string& peer, const wire::SubmitRequest& submit, JobPlan plan);
  Job* Find(std::int64_t id);
  // cluster_view.cc
  static constexpr double kBenchPatience = 180;
  std::vector<std::string> NamesOf(const Placement& placement) const;
  void RecordPlacement(Job* job, const Placement& placement);  // predictions, and the log's `place`; after it is in state_
  void CountIterations(Job* job, double iterations);           // reported just now
  void LearnFrom(Job* job);                                    // it finished now
  void OnBench(const std::string& peer, const wire::BenchRequest& request);
  void OnCalibrated(WorkerEntry* worker, const wire::Calibrated& done);
  void StartBench(WorkerEntry* worker);
  void EndBench(WorkerEntry* worker);
  void WatchBenches();
  void ProbeLinks();  // starts the next measurement of a link, where one is due and disturbs nobody
  void OnLinkReport(WorkerEntry* worker, const wire::LinkReport& report);
  void ForgetLinks(WorkerId worker);
  void AddLinks(WorkerId worker, wire::WorkerInfo* info) const;
  void Touch(Job* job) { dirty_.insert(static_cast<JobId>(job->info().job())); }
  void Advance(double now);
  template <typename Message>
  worker::SendResult Send(const std::string& peer, worker::MessageType type, const Message& message) {
    return hooks_.send(peer, worker::Encode(type, message));
  }

  LoopOptions options_;
  LoopHooks hooks_;
  std::unique_ptr<Scheduler> scheduler_;
  EventLog log_;
  ClusterState state_;
  WorkerTable workers_;
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_request_;
  std::map<std::string, PendingSubmit> pending_;                                // by request id, while they are planned
  std::map<std::string, std::pair<std::string, wire::SubmitRequest>> queries_;  // by token, while they are planned: who asked
  std::uint64_t query_sequence_ = 0;
  std::set<JobId> dirty_;
  std::vector<std::string> garbage_;
  JobId next_id_ = 1;
  double now_ = 0;
  Corrections corrections_;
  LinkBook links_;
  bool corrections_changed_ = false;
  std::uint64_t bench_sequence_ = 0;
  bool changed_ = true;  // something happened that a scheduler should see
  bool shutdown_ = false;
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_DECISION_LOOP_H_
