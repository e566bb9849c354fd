// Stages and checkpoints of running jobs.
#include "coordinator/decision_loop.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "coordinator/resources.h"
#include "env/core/check.h"
#include "env/core/log.h"
#include "env/core/units.h"

namespace weir::coordinator {

using worker::MessageType;
using worker::SendResult;

namespace {

std::int64_t Wide(JobId id) {
  return id;
}

}  // namespace

void DecisionLoop::SendStop(WorkerEntry* worker, std::int64_t job, int attempt, const std::string& reason) {
  if (worker->peer.empty()) return;
  wire::Stop stop;
  stop.mutable_key()->set_job(job);
  stop.mutable_key()->set_attempt(attempt);
  stop.set_reason(reason);
  Send(worker->peer, MessageType::kStop, stop);
}

void DecisionLoop::StopStages(Job* job, const std::string& reason) {
  std::set<WorkerId> told;
  for (const Stage& stage : job->stages.stages) {
    if (!stage.done && told.insert(stage.worker).second)
      SendStop(&workers_.Get(stage.worker), job->info().job(), job->info().attempt(), reason);
  }
  job->stages = {};
  job->halt.reset();
}

void DecisionLoop::SendAssign(Job* job, int stage) {
  std::vector<std::string> bulk;
  for (const Stage& s : job->stages.stages) bulk.push_back(workers_.Get(s.worker).spec.bulk_address());
  Stage& s = job->stages.stages[stage];
  s.sent_at = now_;
  WorkerEntry& worker = workers_.Get(s.worker);
  if (worker.peer.empty()) return;
  wire::Assign assign =
      MakeAssign(job->stored.request, *job->plan, job->stages, stage, job->info().job(), job->info().attempt(), bulk);
  assign.set_checkpoint_every_seconds(job->stored.request.checkpoint_every_seconds());
  if (job->info().resumed_from() > 0) {
    for (const wire::CheckpointInfo& c : job->info().checkpoints()) {
      if (c.iteration() != job->info().resumed_from()) continue;
      assign.mutable_resume()->set_iteration(c.iteration());
      *assign.mutable_resume()->mutable_artifacts() = c.artifacts();
    }
  }
  Send(worker.peer, MessageType::kAssign, assign);
}

void DecisionLoop::Dispatch(Job* job, const Placement& placement) {
  wire::JobInfo& info = job->info();
  job->stages = MergeStages(job->plan->spec, placement);
  job->report_seconds = job->report_iterations = 0;
  job->has_result = false;
  job->checkpoints.Begin(static_cast<int>(job->stages.stages.size()));
  info.set_resumed_from(LastCheckpoint(*job));
  info.set_state("starting");
  info.set_reason("");
  if (info.start() < 0) info.set_start(now_);
  info.clear_workers();
  for (const Stage& stage : job->stages.stages) info.add_workers(workers_.Get(stage.worker).spec.worker());
  Touch(job);
  for (std::size_t s = 0; s < job->stages.stages.size(); ++s) SendAssign(job, static_cast<int>(s));
}

DecisionLoop::Job* DecisionLoop::Fenced(WorkerEntry* worker, const wire::StageKey& key) {
  Job* job = Find(key.job());
  const bool here = job && job->assigned() && job->info().attempt() == key.attempt() && key.stage() >= 0 &&
                    key.stage() < static_cast<int>(job->stages.stages.size()) &&
                    job->stages.stages[key.stage()].worker == worker->id;
  if (here) return job;
  SendStop(worker, key.job(), key.attempt(), "not the present attempt");
  return nullptr;
}

void DecisionLoop::OnProgress(WorkerEntry* worker, const wire::Progress& progress) {
  Job* job = Fenced(worker, progress.key());
  if (!job) return;
  wire::JobInfo& info = job->info();
  job->stages.stages[progress.key().stage()].acknowledged = true;
  if (info.state() == "starting") {
    info.set_state("running");
    Touch(job);
  }
  if (progress.epoch() > info.epoch()) {
    info.set_epoch(progress.epoch());
    info.set_eval_loss(progress.eval_loss());
    info.set_accuracy(progress.eval_accuracy());
  }
  const std::int64_t before = info.iterations_done();
  const std::int64_t iteration = std::clamp<std::int64_t>(progress.iteration(), 0, info.iterations_total());
  if (iteration <= before) return;
  if (std::isfinite(progress.iteration_seconds()) && progress.iteration_seconds() > 0) {
    job->report_iterations += static_cast<double>(iteration - before);
    CountIterations(job, static_cast<double>(iteration - before));
    job->report_seconds += progress.iteration_seconds() * static_cast<double>(iteration - before);
    info.set_measured_iteration_seconds(job->report_seconds / job->report_iterations);
  }
  info.set_iterations_done(iteration);
  info.set_loss(progress.loss());
  const auto id = static_cast<JobId>(info.job());
  if (state_.job(id).resume_at > state_.now()) state_.SetResumeAt(id, state_.now());
  state_.SetIterationsDone(id, static_cast<double>(iteration));
}

void DecisionLoop::OnStageDone(WorkerEntry* worker, const wire::StageDone& done) {
  wire::StageAck ack;
  *ack.mutable_key() = done.key();
  Send(worker->peer, MessageType::kStageAck, ack);
  Job* job = Fenced(worker, done.key());
  if (!job) return;
  Stage& stage = job->stages.stages[done.key().stage()];
  if (stage.done) return;
  stage.done = stage.acknowledged = true;
  wire::JobInfo& info = job->info();
  if (!done.result_artifact().empty()) {
    job->has_result = true;
    info.set_result_artifact(done.result_artifact());
    info.set_loss(done.final_loss());
    info.set_accuracy(done.accuracy());
    info.set_onnx_artifact(done.onnx_artifact());
    info.set_eval_loss(done.eval_loss());
    *info.mutable_epoch_losses() = done.epoch_losses();
    *info.mutable_epoch_accuracies() = done.epoch_accuracies();
    info.set_epoch(done.epoch_losses_size());
    Touch(job);
  }
  info.set_peak_memory_bytes(
      std::max({info.peak_memory_bytes(), done.peak_device_bytes() > 0 ? done.peak_device_bytes() : done.peak_memory_bytes()}));
  for (const Stage& s : job->stages.stages) {
    if (!s.done) return;
  }
  if (!job->has_result) return Requeue(job, "the stages ended without a result", true);
  info.set_iterations_done(info.iterations_total());
  End(job, "finished", "", ExitCode::kOk);
}

void DecisionLoop::OnStageFailed(WorkerEntry* worker, const wire::StageFailed& failed) {
  wire::StageAck ack;
  *ack.mutable_key() = failed.key();
  Send(worker->peer, MessageType::kStageAck, ack);
  Job* job = Fenced(worker, failed.key());
  if (!job) return;
  const std::string reason =
      fmt::format("{} on {}", failed.error().empty() ? "a stage failed" : failed.error().substr(0, 1000), worker->spec.worker());
  if (!failed.damaged_artifact().empty()) {
    const std::int64_t damaged = job->info().resumed_from();
    // A file that isn't this job's says nothing about its checkpoints: a failure like others, or it would be retried for ever.
    if (!DropCheckpoint(job, failed.damaged_artifact())) return Requeue(job, reason, true);
    return Requeue(job,
                   fmt::format("the checkpoint of iteration {} is damaged ({}): goes on from iteration {}", damaged, reason,
                               LastCheckpoint(*job)),
                   false);
  }
  if (failed.infrastructure()) return Requeue(job, reason, true);
  wire::JobInfo& info = job->info();
  if (info.job_failures() < job->stored.request.retry_job()) {
    info.set_job_failures(info.job_failures() + 1);
    return Requeue(job, fmt::format("{} (retry {} of {})", reason, info.job_failures(), job->stored.request.retry_job()), false);
  }
  End(job, "failed", reason, ExitCode::kJobFailed);
}

// ---- Checkpoints

std::int64_t DecisionLoop::LastCheckpoint(const Job& job) const {
  const auto& checkpoints = job.info().checkpoints();
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    const auto& files = it->artifacts();
    if (std::all_of(files.begin(), files.end(), [&](const std::string& h) { return !hooks_.artifact_path(h).empty(); }))
      return it->iteration();
  }
  return 0;
}

void DecisionLoop::GoBack(Job* job) {
  const std::int64_t iteration = LastCheckpoint(*job);
  job->info().set_iterations_done(iteration);
  if (job->in_state) state_.SetIterationsDone(static_cast<JobId>(job->info().job()), static_cast<double>(iteration));
}

void DecisionLoop::KeepNewest(Job* job, int count) {
  auto* checkpoints = job->info().mutable_checkpoints();
  const int gone = std::max(0, checkpoints->size() - count);
  if (gone == 0) return;
  for (int i = 0; i < gone; ++i)
    garbage_.insert(garbage_.end(), (*checkpoints)[i].artifacts().begin(), (*checkpoints)[i].artifacts().end());
  checkpoints->DeleteSubrange(0, gone);
  Touch(job);
}

std::vector<std::string> DecisionLoop::TakeGarbage() {
  std::vector<std::string> garbage = std::exchange(garbage_, {});
  if (garbage.empty()) return garbage;
  std::set<std::string> needed;
  for (const auto& [id, job] : jobs_) {
    for (const wire::CheckpointInfo& c : job.info().checkpoints()) needed.insert(c.artifacts().begin(), c.artifacts().end());
    const wire::SubmitRequest& request = job.stored.request;
    for (const std::string& hash : {request.model_artifact(), request.train().data().artifact(), request.train().data().labels(),
                                    job.info().result_artifact(), job.info().onnx_artifact()})
      needed.insert(hash);
  }
  garbage.erase(std::remove_if(garbage.begin(), garbage.end(), [&](const std::string& hash) { return needed.count(hash) > 0; }),
                garbage.end());
  return garbage;
}

bool DecisionLoop::DropCheckpoint(Job* job, const std::string& damaged_artifact) {
  bool any = false;
  auto* checkpoints = job->info().mutable_checkpoints();
  for (int i = checkpoints->size() - 1; i >= 0; --i) {
    const auto& files = (*checkpoints)[i].artifacts();
    if (std::find(files.begin(), files.end(), damaged_artifact) == files.end()) continue;
    log_.Append(now_, "checkpoint_damaged", {{"job", job->info().job()}, {"iteration", (*checkpoints)[i].iteration()}});
    for (const std::string& hash : files) garbage_.push_back(hash);
    checkpoints->DeleteSubrange(i, 1);
    any = true;
  }
  if (any) Touch(job);
  return any;
}

void DecisionLoop::OnStageCheckpoint(WorkerEntry* worker, const wire::StageCheckpoint& report) {
  wire::StageAck ack;
  *ack.mutable_key() = report.key();
  ack.set_checkpoint(report.iteration());
  Send(worker->peer, MessageType::kStageAck, ack);
  Job* job = Fenced(worker, report.key());
  if (!job) return;
  wire::JobInfo& info = job->info();
  job->stages.stages[report.key().stage()].acknowledged = true;
  if (auto complete = job->checkpoints.Add(report); complete && complete->iteration() <= info.iterations_total()) {
    complete->set_time(now_);
    *info.add_checkpoints() = std::move(*complete);
    KeepNewest(job, std::max(1, job->stored.request.checkpoint_keep() > 0 ? job->stored.request.checkpoint_keep() : 2));
    Touch(job);
    log_.Append(now_, "checkpoint",
                {{"job", info.job()},
                 {"iteration", report.iteration()},
                 {"bytes", info.checkpoints().rbegin()->bytes()},
                 {"seconds", report.seconds()}});
  }
  if (job->checkpoints.AllStopped()) FinishHalt(job);
}

void DecisionLoop::BeginHalt(Job* job, const std::string& reason, Placement target) {
  job->halt = Job::Halt{reason, std::move(target), now_, now_};
  WEIR_LOG(Info, "event=halt job={} reason=\"{}\"", job->info().job(), reason);
  SendTakeCheckpoint(job);
}

void DecisionLoop::SendTakeCheckpoint(Job* job) {
  job->halt->sent_at = now_;
  wire::TakeCheckpoint take;
  take.mutable_key()->set_job(job->info().job());
  take.mutable_key()->set_attempt(job->info().attempt());
  take.set_stop(true);
  // To every stage: the one that owns the output heeds it.
  for (std::size_t s = 0; s < job->stages.stages.size(); ++s) {
    take.mutable_key()->set_stage(static_cast<int>(s));
    const WorkerEntry& worker = workers_.Get(job->stages.stages[s].worker);
    if (!worker.peer.empty()) Send(worker.peer, MessageType::kTakeCheckpoint, take);
  }
}

void DecisionLoop::FinishHalt(Job* job) {
  wire::JobInfo& info = job->info();
  const auto id = static_cast<JobId>(info.job());
  const Job::Halt halt = job->halt ? *job->halt : Job::Halt{"its stages ended at a checkpoint", {}, now_, now_};
  for (Stage& stage : job->stages.stages) stage.done = true;  // nothing to stop
  StopStages(job, halt.reason);
  info.set_attempt(info.attempt() + 1);
  GoBack(job);
  info.clear_workers();
  info.set_state("waiting");
  info.set_reason(halt.reason);
  Touch(job);
  changed_ = true;
  const Action migrate = Action::Migrate(id, halt.target);
  if (!halt.target.empty() && !state_.WhyIllegal(migrate)) {
    log_.Append(now_, "preempt", {{"job", Wide(id)}, {"reason", halt.reason}, {"iterations", info.iterations_done()}});
    state_.Apply(migrate);
    RecordPlacement(job, halt.target);
    Dispatch(job, halt.target);
    return;
  }
  if (state_.job(id).running()) state_.Preempt(id);
  log_.Append(now_, "preempt", {{"job", Wide(id)}, {"reason", halt.reason}, {"iterations", info.iterations_done()}});
}

bool DecisionLoop::Allowed(const Job& job, WorkerId worker) const {
  return !WhyNotSuited(job.stored.request, workers_.Get(worker).spec);
}

std::string DecisionLoop::WhyNoneSuits(const wire::SubmitRequest& submit) const {
  std::string why;
  for (const WorkerEntry& worker : workers_.entries()) {
    if (!worker.connected()) continue;
    const auto reason = WhyNotSuited(submit, worker.spec);
    if (!reason) return "";
    why = fmt::format("no worker suits: {} {}", worker.spec.worker(), *reason);
  }
  return why;
}

}  // namespace weir::coordinator
