#include "coordinator/decision_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "coordinator/run_log.h"
#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/log.h"
#include "env/core/units.h"

namespace weir::coordinator {
namespace {

using worker::MessageType;
using worker::SendResult;

std::int64_t Wide(JobId id) {
  return id;
}

// What a list carries: without the parts only `show` prints.
wire::JobInfo Brief(const wire::JobInfo& info) {
  wire::JobInfo brief = info;
  brief.clear_job_yaml();
  brief.clear_subgraph_flop();
  brief.clear_subgraph_memory_bytes();
  brief.clear_subgraph_param_bytes();
  brief.clear_arc();
  brief.clear_warnings();
  return brief;
}

}  // namespace

bool DecisionLoop::Job::ended() const {
  const std::string& state = info().state();
  return state == "finished" || state == "failed" || state == "cancelled";
}

DecisionLoop::DecisionLoop(LoopOptions options, LoopHooks hooks, std::unique_ptr<Scheduler> scheduler, EventLog log, double now)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      scheduler_(std::move(scheduler)),
      log_(std::move(log)),
      state_({}, options_.model, now),
      now_(now) {
  scheduler_->Reset();
  log_.Append(now_, "coordinator_start", StartFields(options_.model, scheduler_->name()));
}

void DecisionLoop::Advance(double now) {
  now_ = std::max(now_, now);
  state_.AdvanceTo(std::max(now_, state_.now()));
}

DecisionLoop::Job* DecisionLoop::Find(std::int64_t id) {
  if (id < 0 || id > std::numeric_limits<JobId>::max()) return nullptr;
  const auto found = jobs_.find(static_cast<JobId>(id));
  return found == jobs_.end() ? nullptr : &found->second;
}

// ---- Jobs in and out

void DecisionLoop::Restore(std::vector<StoredJob> jobs) {
  for (StoredJob& stored : jobs) {
    const auto id = static_cast<JobId>(stored.info.job());
    next_id_ = std::max(next_id_, id + 1);
    by_request_[stored.request.request_id()] = id;
    Job& job = jobs_[id];
    job.stored = std::move(stored);
    if (job.ended()) continue;
    wire::JobInfo& info = job.info();
    const bool ran = info.state() != "waiting";
    info.set_state("waiting");
    info.set_reason("the coordinator started again");
    info.set_attempt(info.attempt() + 1);
    info.set_iterations_done(0);
    info.clear_workers();
    Touch(&job);
    if (ran) log_.Append(now_, "preempt", {{"job", Wide(id)}, {"reason", std::string("coordinator restarted")}});
    RequestPlan(&job);
  }
}

PlanRequest DecisionLoop::MakePlanRequest(const wire::SubmitRequest& submit) const {
  PlanRequest request;
  request.submit = submit;
  request.model_path = hooks_.artifact_path(submit.model_artifact());
  request.data_path = hooks_.artifact_path(submit.train().data().artifact());
  if (!submit.train().data().labels().empty()) request.labels_path = hooks_.artifact_path(submit.train().data().labels());
  std::vector<double> memory;
  for (const WorkerEntry& w : workers_.entries()) {
    if (w.connected()) memory.push_back(w.spec.memory_bytes());
  }
  if (!memory.empty()) {
    std::sort(memory.begin(), memory.end());
    request.median_memory = memory[(memory.size() - 1) / 2];
    request.largest_memory = memory.back();
  }
  return request;
}

void DecisionLoop::RequestPlan(Job* job) {
  job->planning = true;
  hooks_.plan(fmt::format("job {}", job->info().job()), MakePlanRequest(job->stored.request));
}

void DecisionLoop::ReplanWaiting() {
  const PlanRequest now = MakePlanRequest({});
  for (auto& [id, job] : jobs_) {
    if (job.ended() || job.assigned() || job.planning || !job.plan) continue;
    if (job.plan->median_memory == now.median_memory && job.plan->largest_memory == now.largest_memory) continue;
    bool worth = !job.plan->fits() || job.plan->spec.subgraphs.size() > 1;
    for (const SubgraphSpec& s : job.plan->spec.subgraphs) worth |= s.memory_bytes > now.median_memory;
    if (worth) RequestPlan(&job);
  }
}

void DecisionLoop::OnSubmit(const std::string& peer, wire::SubmitRequest request) {
  const auto refuse = [&](const std::string& error) {
    wire::SubmitReply reply;
    reply.set_error(error);
    reply.set_exit_code(static_cast<int>(ExitCode::kInvalid));
    Send(peer, MessageType::kSubmitReply, reply);
  };
  if (request.request_id().empty()) return refuse("submit: request_id must be given");
  if (const auto known = by_request_.find(request.request_id()); known != by_request_.end()) {
    wire::SubmitReply reply;
    reply.set_job(known->second);
    *reply.mutable_warnings() = jobs_[known->second].info().warnings();
    hooks_.reply_after_commit(peer, worker::Encode(MessageType::kSubmitReply, reply), -1);
    return;
  }
  if (const auto pending = pending_.find(request.request_id()); pending != pending_.end()) {
    pending->second.peers.push_back(peer);
    return;
  }
  const wire::DataSpec& data = request.train().data();
  for (const auto& [hash, what] :
       {std::pair(request.model_artifact(), "model"), std::pair(data.artifact(), "data"), std::pair(data.labels(), "labels")}) {
    const bool optional = std::string_view(what) == "labels" && data.format() != "idx";
    if (hash.empty() && optional) continue;
    if (hooks_.artifact_path(hash).empty())
      return refuse(fmt::format("submit: the {} file (artifact '{}') wasn't uploaded", what, hash));
  }
  const std::string id = request.request_id();
  PlanRequest plan = MakePlanRequest(request);
  pending_[id] = {std::move(request), {peer}};
  hooks_.plan("submit " + id, std::move(plan));
}

void DecisionLoop::OnPlanned(const std::string& token, std::optional<JobPlan> plan, ExitCode code, const std::string& error,
                             double now) {
  Advance(now);
  if (token.rfind("job ", 0) == 0) {
    Job* job = Find(std::stoll(token.substr(4)));
    if (!job) return;
    job->planning = false;
    if (job->ended() || job->assigned()) return;
    if (!plan) return End(job, "failed", error, code);
    if (job->in_state) state_.Cancel(static_cast<JobId>(job->info().job()));
    job->in_state = false;
    job->plan = std::move(plan);
    Admit(job);
    return;
  }
  const auto found = pending_.find(token.substr(token.find(' ') + 1));
  if (found == pending_.end()) return;
  PendingSubmit pending = std::move(found->second);
  pending_.erase(found);
  wire::SubmitReply reply;
  if (!plan) {
    reply.set_error(error);
    reply.set_exit_code(static_cast<int>(code));
    for (const std::string& peer : pending.peers) Send(peer, MessageType::kSubmitReply, reply);
    return;
  }
  const JobId id = next_id_++;
  by_request_[pending.request.request_id()] = id;
  Job& job = jobs_[id];
  wire::JobInfo& info = job.info();
  info.set_job(id);
  info.set_name(pending.request.name());
  info.set_model(pending.request.model_name());
  info.set_format(pending.request.model_format());
  info.set_state("waiting");
  info.set_arrival(now_);
  info.set_start(-1);
  info.set_finish(-1);
  info.set_attempt(1);
  info.set_loss(std::numeric_limits<double>::quiet_NaN());
  info.set_accuracy(-1);
  info.set_job_yaml(pending.request.job_yaml());
  info.set_micro_batches(pending.request.train().micro_batches());
  job.stored.request = std::move(pending.request);
  job.plan = std::move(plan);
  log_.Append(now_, "submit", {{"job", Wide(id)}, {"name", info.name()}, {"model", info.model()}});
  log_.Append(now_, "arrival", {{"job", Wide(id)}, {"name", info.name()}});
  WEIR_LOG(Info, "event=submit job={} name={} parts={}", id, info.name(), job.plan->spec.subgraphs.size());
  Admit(&job);
  UpdateReasons();
  reply.set_job(id);
  *reply.mutable_warnings() = info.warnings();
  if (!job.plan->fits() || (state_.num_workers() > 0 && !state_.FitsEmptyCluster(job.plan->spec)))
    reply.add_warnings(info.reason());
  for (const std::string& peer : pending.peers)
    hooks_.reply_after_commit(peer, worker::Encode(MessageType::kSubmitReply, reply), id);
}

void DecisionLoop::Admit(Job* job) {
  wire::JobInfo& info = job->info();
  JobPlan& plan = *job->plan;
  const auto id = static_cast<JobId>(info.job());
  plan.spec.id = id;
  plan.spec.name = info.name();
  plan.spec.arrival = info.arrival();
  info.set_parts(plan.spec.num_subgraphs());
  info.set_iterations_total(static_cast<std::int64_t>(plan.spec.iterations));
  info.set_cut_bytes(plan.cut_bytes);
  info.clear_subgraph_flop();
  info.clear_subgraph_memory_bytes();
  info.clear_subgraph_param_bytes();
  info.clear_arc();
  for (const SubgraphSpec& s : plan.spec.subgraphs) {
    info.add_subgraph_flop(s.flop);
    info.add_subgraph_memory_bytes(s.memory_bytes);
    info.add_subgraph_param_bytes(s.param_bytes);
  }
  for (const ArcSpec& a : plan.spec.arcs) {
    info.add_arc(a.from);
    info.add_arc(a.to);
    info.add_arc(a.bytes);
  }
  info.clear_warnings();
  for (const std::string& warning : plan.warnings) info.add_warnings(warning);
  Touch(job);
  if (!plan.fits()) {
    info.set_reason(plan.why_not);
    return;
  }
  plan.spec.overhead_seconds = corrections_.Overhead(plan.graph_fingerprint);
  info.set_graph_fingerprint(plan.graph_fingerprint);
  CheckSpec(plan.spec, fmt::format("job {}", id));
  log_.Append(now_, "plan", PlanFields(plan.spec, info.model()));
  state_.AddJob(plan.spec);
  job->in_state = true;
  changed_ = true;
}

void DecisionLoop::End(Job* job, const std::string& state, const std::string& reason, ExitCode code) {
  wire::JobInfo& info = job->info();
  const auto id = static_cast<JobId>(info.job());
  StopStages(job, reason.empty() ? state : reason);
  if (state == "finished") LearnFrom(job);
  if (job->in_state) state_.Finish(id);
  job->in_state = false;
  job->plan.reset();
  info.set_state(state);
  info.set_reason(reason);
  info.set_finish(now_);
  info.set_exit_code(static_cast<int>(code));
  Touch(job);
  changed_ = true;
  if (state == "finished") {
    log_.Append(now_, "finish", FinishFields(info));
  } else {
    log_.Append(now_, state == "failed" ? "fail" : "cancel",
                {{"job", Wide(id)}, {"reason", reason}, {"iterations", info.iterations_done()}});
  }
  WEIR_LOG(Info, "event={} job={} name={} reason=\"{}\"", state, id, info.name(), reason);
}

void DecisionLoop::Requeue(Job* job, const std::string& reason, bool counts) {
  wire::JobInfo& info = job->info();
  const auto id = static_cast<JobId>(info.job());
  if (counts && ++job->stored.infra_failures > std::max(0, job->stored.request.retry_infra())) {
    return End(job, "failed", fmt::format("{} (attempt {}, no retries left)", reason, info.attempt()), ExitCode::kInfrastructure);
  }
  StopStages(job, reason);
  if (job->in_state && state_.job(id).running()) state_.Preempt(id);
  if (job->in_state) state_.SetIterationsDone(id, 0);  // no checkpoint: from the start
  info.set_state("waiting");
  info.set_reason(reason);
  info.set_attempt(info.attempt() + 1);
  info.set_iterations_done(0);
  info.clear_workers();
  Touch(job);
  changed_ = true;
  log_.Append(now_, "preempt", {{"job", Wide(id)}, {"reason", reason}, {"iterations", info.iterations_done()}});
  WEIR_LOG(Warning, "event=requeue job={} attempt={} reason=\"{}\"", id, info.attempt(), reason);
}

void DecisionLoop::Forget(JobId id) {
  Job* job = Find(id);
  if (!job) return;
  StopStages(job, "the job couldn't be saved");
  if (job->in_state) state_.Cancel(id);
  by_request_.erase(job->stored.request.request_id());
  dirty_.erase(id);
  jobs_.erase(id);
}

std::vector<const StoredJob*> DecisionLoop::TakeDirty() {
  std::vector<const StoredJob*> jobs;
  for (JobId id : dirty_) {
    if (Job* job = Find(id)) jobs.push_back(&job->stored);
  }
  dirty_.clear();
  return jobs;
}

void DecisionLoop::GiveBackDirty(const std::vector<const StoredJob*>& jobs) {
  for (const StoredJob* job : jobs) dirty_.insert(static_cast<JobId>(job->info.job()));
}

// ---- Stages

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
}

void DecisionLoop::SendAssign(Job* job, int stage) {
  std::vector<std::string> bulk;
  for (const Stage& s : job->stages.stages) bulk.push_back(workers_.Get(s.worker).spec.bulk_address());
  Stage& s = job->stages.stages[stage];
  s.sent_at = now_;
  WorkerEntry& worker = workers_.Get(s.worker);
  if (worker.peer.empty()) return;
  Send(worker.peer, MessageType::kAssign,
       MakeAssign(job->stored.request, *job->plan, job->stages, stage, job->info().job(), job->info().attempt(), bulk));
}

void DecisionLoop::Dispatch(Job* job, const Placement& placement) {
  wire::JobInfo& info = job->info();
  job->stages = MergeStages(job->plan->spec, placement);
  job->report_seconds = job->report_iterations = 0;
  job->has_result = false;
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
    Touch(job);
  }
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
  if (failed.infrastructure()) return Requeue(job, reason, true);
  End(job, "failed", reason, ExitCode::kJobFailed);
}

// ---- Workers

void DecisionLoop::LoseWorker(WorkerEntry* worker, WorkerEntry::State state, const std::string& reason, bool counts) {
  worker->state = state;
  // Requeue stops what still runs elsewhere, and sends a Stop here too: it may only be cut off.
  const std::vector<JobId> jobs(state_.residents(worker->id).begin(), state_.residents(worker->id).end());
  for (JobId id : jobs) Requeue(Find(id), reason, counts);
  state_.RemoveWorker(worker->id);
  workers_.SetPeer(worker, "");
  changed_ = true;
  log_.Append(now_, "worker_lost", {{"worker", std::int64_t{worker->id}}, {"name", worker->spec.worker()}, {"reason", reason}});
  WEIR_LOG(Warning, "event=worker_lost worker={} reason=\"{}\"", worker->spec.worker(), reason);
  ReplanWaiting();
}

void DecisionLoop::OnHello(const std::string& peer, const wire::Hello& hello) {
  wire::HelloAck ack;
  ack.set_worker_id(-1);
  ack.set_heartbeat_seconds(1);
  ack.set_artifact_address(options_.artifact_address);
  WorkerSpec spec;
  try {
    spec = ToWorkerSpec(hello);
  } catch (const Error& e) {
    ack.set_refused(e.what());
    Send(peer, MessageType::kHelloAck, ack);
    return;
  }
  WorkerEntry* worker = workers_.ByName(hello.worker());
  if (worker && worker->connected() && worker->spec.incarnation() != hello.incarnation()) {
    // Another process under this name. If the old one's connection is closed, or it is silent, it has gone.
    const bool alive = worker->state != WorkerEntry::State::kSuspected &&
                       Send(worker->peer, MessageType::kHeartbeatAck, wire::HeartbeatAck()) != SendResult::kGone;
    if (alive) {
      ack.set_refused(fmt::format("a worker named '{}' is connected already: give this one another --name", hello.worker()));
      Send(peer, MessageType::kHelloAck, ack);
      return;
    }
    LoseWorker(worker, WorkerEntry::State::kLost, fmt::format("worker {} started anew", hello.worker()), true);
    ForgetLinks(worker->id);
  }
  const bool returns = worker && !worker->connected();
  if (!worker) {
    worker = &workers_.Add(hello);
    WEIR_CHECK_EQ(state_.AddWorker(spec), worker->id);
  }
  const bool joins = returns || worker->peer.empty();
  worker->spec = hello;
  worker->last_seen = now_;
  workers_.SetPeer(worker, peer);
  worker->state = hello.bulk_address().empty() ? WorkerEntry::State::kStarting : WorkerEntry::State::kReady;
  state_.UpdateWorker(worker->id, spec);
  state_.SetWorkerAvailable(worker->id, worker->state == WorkerEntry::State::kReady);
  changed_ = true;
  if (joins) {
    log_.Append(now_, "worker_join", WorkerFields(spec, worker->id));
    WEIR_LOG(Info, "event=worker_join worker={} flops={} memory={} emulated={}", spec.name, FormatCount(spec.flops),
             FormatBytes(spec.memory_bytes), hello.emulated());
    ReplanWaiting();
  }
  if (!joins) log_.Append(now_, "worker_change", WorkerFields(spec, worker->id));
  if (hello.has_calibration()) worker->calibration = hello.calibration();
  if (worker->bench_until >= 0) state_.SetWorkerAvailable(worker->id, false);
  ack.set_worker_id(worker->id);
  Send(peer, MessageType::kHelloAck, ack);
  for (const wire::StageKey& key : hello.running()) Fenced(worker, key);  // stops what is no longer wanted
}

void DecisionLoop::OnHeartbeat(const std::string& peer, const wire::Heartbeat& beat) {
  wire::HeartbeatAck ack;
  ack.set_sequence(beat.sequence());
  WorkerEntry* worker = workers_.ByPeer(peer);
  if (worker && beat.has_telemetry()) worker->telemetry = beat.telemetry();
  ack.set_unknown(worker == nullptr);
  Send(peer, MessageType::kHeartbeatAck, ack);
}

void DecisionLoop::OnBye(WorkerEntry* worker, const std::string& reason) {
  LoseWorker(worker, WorkerEntry::State::kGone,
             fmt::format("worker {} left{}{}", worker->spec.worker(), reason.empty() ? "" : ": ", reason), false);
}

void DecisionLoop::OnTick(double now) {
  Advance(now);
  WatchBenches();
  ProbeLinks();
  for (WorkerEntry& worker : workers_.entries()) {
    if (!worker.connected()) continue;
    const double silent = now_ - worker.last_seen;
    if (silent > options_.suspect_after && worker.state != WorkerEntry::State::kSuspected) {
      worker.state = WorkerEntry::State::kSuspected;
      state_.SetWorkerAvailable(worker.id, false);
      changed_ = true;
      WEIR_LOG(Warning, "event=worker_suspected worker={} silent={:.1f}s", worker.spec.worker(), silent);
    }
    if (worker.state != WorkerEntry::State::kSuspected) continue;
    const std::string reason = fmt::format("worker {} was silent for {:.1f} s", worker.spec.worker(), silent);
    const std::vector<JobId> jobs(state_.residents(worker.id).begin(), state_.residents(worker.id).end());
    for (JobId id : jobs) {
      Job* job = Find(id);
      const double patience = job->stored.request.lost_after_seconds();
      if (silent > (patience > 0 ? patience : options_.lost_after)) Requeue(job, reason, true);
    }
    if (silent > options_.lost_after && state_.residents(worker.id).empty())
      LoseWorker(&worker, WorkerEntry::State::kLost, reason, true);
  }
  for (auto& [id, job] : jobs_) {
    for (std::size_t s = 0; s < job.stages.stages.size(); ++s) {
      const Stage& stage = job.stages.stages[s];
      if (!stage.acknowledged && now_ - stage.sent_at >= options_.resend_after) SendAssign(&job, static_cast<int>(s));
    }
  }
}

// ---- Decisions

void DecisionLoop::Decide(double now) {
  Advance(now);
  if (!changed_) return;
  changed_ = false;
  constexpr int kMostActions = 10000;
  bool any = false;
  for (const WorkerEntry& w : workers_.entries()) any |= state_.available(w.id);
  // A pass ends with the scheduler's wait, not earlier: it may keep what it worked out at the pass's beginning.
  any &= !state_.waiting().empty();
  bool open = any;
  for (int taken = 0; any && taken < kMostActions; ++taken) {
    const auto begin = std::chrono::steady_clock::now();
    const Action action = scheduler_->Decide(state_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (action.kind == Action::Kind::kWait) {
      open = false;
      break;
    }
    if (const auto why = state_.WhyIllegal(action)) {
      WEIR_LOG(Error, "event=illegal_action scheduler={} reason=\"{}\"", scheduler_->name(), *why);
      break;
    }
    if (action.kind != Action::Kind::kPlace) {  // would throw away all progress as long as there are no checkpoints
      WEIR_LOG(Warning, "event=action_refused scheduler={} reason=\"preemption and migration need checkpoints\"",
               scheduler_->name());
      break;
    }
    Job* job = Find(action.job);
    wire::JobInfo& info = job->info();
    info.set_scheduler(scheduler_->name());
    info.set_policy_hash(options_.policy_hash);
    info.set_decision_seconds(seconds);
    state_.Apply(action);
    RecordPlacement(job, action.placement);
    WEIR_LOG(Info, "event=place job={} scheduler={} decision={:.2f}ms predicted_iteration={:.2f}ms", action.job,
             scheduler_->name(), 1e3 * seconds, 1e3 * info.predicted_iteration_seconds());
    Dispatch(job, action.placement);
  }
  if (open) scheduler_->Reset();
  UpdateReasons();
}

void DecisionLoop::UpdateReasons() {
  bool any = false, all_starting = true;
  for (const WorkerEntry& w : workers_.entries()) {
    any |= w.connected();
    all_starting &= !state_.available(w.id);
  }
  for (JobId id : state_.waiting()) {
    Job* job = Find(id);
    std::string reason;
    if (!any) {
      reason = "no worker is connected";
    } else if (all_starting) {
      reason = "no worker is ready";
    } else if (!state_.FitsEmptyCluster(*state_.job(id).spec)) {
      double largest = 0, memory = 0;
      for (const SubgraphSpec& s : state_.job(id).spec->subgraphs) largest = std::max(largest, s.memory_bytes);
      for (const WorkerEntry& w : workers_.entries()) {
        if (state_.available(w.id)) memory = std::max(memory, w.spec.memory_bytes());
      }
      reason = fmt::format("needs {} in {} part(s), the largest {}; the workers can't hold that (the largest has {})",
                           FormatBytes(state_.job(id).spec->total_memory_bytes()), state_.job(id).spec->num_subgraphs(),
                           FormatBytes(largest), FormatBytes(memory));
    } else {
      reason = fmt::format("held by {}", scheduler_->name());
    }
    if (job->info().reason() != reason) job->info().set_reason(reason);  // not worth a write to disk of its own
  }
}

// ---- Clients

void DecisionLoop::OnCancel(const std::string& peer, const wire::CancelRequest& request) {
  wire::CancelReply reply;
  Job* job = Find(request.job());
  if (!job) {
    reply.set_error(fmt::format("there is no job {}", request.job()));
  } else {
    if (!job->ended()) End(job, "cancelled", "cancelled by the user", ExitCode::kJobFailed);
    reply.set_state(job->info().state());
    if (job->info().state() != "cancelled")
      reply.set_error(fmt::format("job {} has {} already", request.job(), job->info().state()));
  }
  hooks_.reply_after_commit(peer, worker::Encode(MessageType::kCancelReply, reply), -1);
}

void DecisionLoop::OnList(const std::string& peer, const wire::ListRequest& request) {
  wire::ListReply reply;
  std::size_t bytes = 0;
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {  // newest first, as far as a frame goes
    if (!request.state().empty() && it->second.info().state() != request.state()) continue;
    wire::JobInfo brief = Brief(it->second.info());
    bytes += brief.ByteSizeLong() + 8;
    if (bytes > worker::kMaxBodyBytes / 2) break;
    *reply.add_jobs() = std::move(brief);
  }
  std::reverse(reply.mutable_jobs()->begin(), reply.mutable_jobs()->end());
  for (const WorkerEntry& worker : workers_.entries()) {
    wire::WorkerInfo* info = reply.add_workers();
    info->set_worker_id(worker.id);
    info->set_name(worker.spec.worker());
    info->set_state(std::string(StateName(worker.state)));
    *info->mutable_spec() = worker.spec;
    *info->mutable_telemetry() = worker.telemetry;
    *info->mutable_calibration() = worker.calibration;
    info->set_benching(worker.bench_until >= 0);
    AddLinks(worker.id, info);
    for (JobId id : state_.residents(worker.id)) info->add_jobs(id);
    info->set_seen_seconds_ago(now_ - worker.last_seen);
  }
  reply.set_now(now_);
  reply.set_scheduler(scheduler_->name());
  reply.set_policy_hash(options_.policy_hash);
  Send(peer, MessageType::kListReply, reply);
}

void DecisionLoop::OnShow(const std::string& peer, const wire::ShowRequest& request) {
  wire::ShowReply reply;
  if (Job* job = Find(request.job())) {
    *reply.mutable_job() = job->info();
  } else {
    reply.set_error(fmt::format("there is no job {}", request.job()));
  }
  Send(peer, MessageType::kShowReply, reply);
}

// ---- Frames

void DecisionLoop::OnFrame(const std::string& peer, const worker::Frame& frame, double now) {
  Advance(now);
  WorkerEntry* worker = workers_.ByPeer(peer);
  if (worker) {
    worker->last_seen = now_;
    if (worker->state == WorkerEntry::State::kSuspected) {
      worker->state = worker->spec.bulk_address().empty() ? WorkerEntry::State::kStarting : WorkerEntry::State::kReady;
      state_.SetWorkerAvailable(worker->id, worker->state == WorkerEntry::State::kReady && worker->bench_until < 0);
      changed_ = true;
    }
  }
  const auto error = [&](const std::string& what) {
    wire::ErrorReply reply;
    reply.set_error(what);
    reply.set_exit_code(static_cast<int>(ExitCode::kInvalid));
    Send(peer, MessageType::kErrorReply, reply);
  };
  // Parses into `message`, then runs `handle`.
  const auto with = [&](auto message, auto handle) {
    if (!message.ParseFromString(frame.body))
      return error(fmt::format("message {}: its body can't be read", static_cast<int>(frame.type)));
    handle(message);
  };
  const auto from_worker = [&](auto message, auto handle) {
    if (!worker) {  // its Hello was lost, or it was given up: it will say Hello again
      wire::HeartbeatAck ack;
      ack.set_unknown(true);
      Send(peer, MessageType::kHeartbeatAck, ack);
      return;
    }
    with(std::move(message), handle);
  };
  switch (frame.type) {
    case MessageType::kHello:
      return with(wire::Hello(), [&](auto& m) { OnHello(peer, m); });
    case MessageType::kHeartbeat:
      return with(wire::Heartbeat(), [&](auto& m) { OnHeartbeat(peer, m); });
    case MessageType::kBye:
      return from_worker(wire::Bye(), [&](auto& m) { OnBye(worker, m.reason()); });
    case MessageType::kAssignAck:
      return from_worker(wire::AssignAck(), [&](auto& m) {
        if (Job* job = Fenced(worker, m.key())) job->stages.stages[m.key().stage()].acknowledged = true;
      });
    case MessageType::kProgress:
      return from_worker(wire::Progress(), [&](auto& m) { OnProgress(worker, m); });
    case MessageType::kStageDone:
      return from_worker(wire::StageDone(), [&](auto& m) { OnStageDone(worker, m); });
    case MessageType::kStageFailed:
      return from_worker(wire::StageFailed(), [&](auto& m) { OnStageFailed(worker, m); });
    case MessageType::kCalibrated:
      return from_worker(wire::Calibrated(), [&](auto& m) { OnCalibrated(worker, m); });
    case MessageType::kLinkReport:
      return from_worker(wire::LinkReport(), [&](auto& m) { OnLinkReport(worker, m); });
    case MessageType::kBenchRequest:
      return with(wire::BenchRequest(), [&](auto& m) { OnBench(peer, m); });
    case MessageType::kSubmitRequest:
      return with(wire::SubmitRequest(), [&](auto& m) { OnSubmit(peer, std::move(m)); });
    case MessageType::kListRequest:
      return with(wire::ListRequest(), [&](auto& m) { OnList(peer, m); });
    case MessageType::kShowRequest:
      return with(wire::ShowRequest(), [&](auto& m) { OnShow(peer, m); });
    case MessageType::kCancelRequest:
      return with(wire::CancelRequest(), [&](auto& m) { OnCancel(peer, m); });
    case MessageType::kInfoRequest: {
      wire::InfoReply reply;
      reply.set_version(options_.version);
      reply.set_artifact_address(options_.artifact_address);
      reply.set_scheduler(scheduler_->name());
      reply.set_policy_hash(options_.policy_hash);
      Send(peer, MessageType::kInfoReply, reply);
      return;
    }
    case MessageType::kShutdownRequest: {
      wire::ShutdownReply reply;
      shutdown_ = worker::IsLoopback(options_.artifact_address);
      if (!shutdown_) reply.set_error("only a coordinator on loopback can be shut down by a message");
      hooks_.reply_after_commit(peer, worker::Encode(MessageType::kShutdownReply, reply), -1);
      return;
    }
    default:
      return error(fmt::format("the coordinator takes no message of type {}", static_cast<int>(frame.type)));
  }
}

}  // namespace weir::coordinator
