#include "coordinator/decision_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "coordinator/resources.h"
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
    GoBack(&job);
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

std::string DecisionLoop::MissingFile(const wire::SubmitRequest& request) const {
  const wire::DataSpec& data = request.train().data();
  for (const auto& [hash, what] :
       {std::pair(request.model_artifact(), "model"), std::pair(data.artifact(), "data"), std::pair(data.labels(), "labels")}) {
    const bool optional = std::string_view(what) == "labels" && data.format() != "idx";
    if (hash.empty() && optional) continue;
    if (hooks_.artifact_path(hash).empty()) return fmt::format("submit: the {} file (artifact '{}') wasn't uploaded", what, hash);
  }
  return "";
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
  if (const std::string missing = MissingFile(request); !missing.empty()) return refuse(missing);
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
  if (const auto query = queries_.find(token); query != queries_.end()) {
    const auto [peer, submit] = std::move(query->second);
    queries_.erase(query);
    if (plan) return AnswerQuery(peer, submit, std::move(*plan));
    wire::PlanQueryReply reply;
    reply.set_error(error);
    reply.set_exit_code(static_cast<int>(code));
    Send(peer, MessageType::kPlanQueryReply, reply);
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
  ReplanWaiting();  // the workers may have changed while it was planned
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
  GoBack(job);
  changed_ = true;
}

void DecisionLoop::End(Job* job, const std::string& state, const std::string& reason, ExitCode code) {
  wire::JobInfo& info = job->info();
  const auto id = static_cast<JobId>(info.job());
  StopStages(job, reason.empty() ? state : reason);
  if (state == "finished") LearnFrom(job);
  KeepNewest(job, 0);
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
  info.set_state("waiting");
  info.set_reason(reason);
  info.set_attempt(info.attempt() + 1);
  GoBack(job);
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

// ---- Decisions

void DecisionLoop::Decide(double now) {
  Advance(now);
  if (!changed_) return;
  changed_ = false;
  constexpr int kMostActions = 10000;
  bool any = false;
  for (const WorkerEntry& w : workers_.entries()) any |= state_.available(w.id);
  // A pass ends with the scheduler's wait, not earlier: it may keep what it worked out at the pass's beginning.
  any &= state_.num_jobs() > 0;
  bool open = any;
  for (int taken = 0; any && taken < kMostActions; ++taken) {
    const auto begin = std::chrono::steady_clock::now();
    Action action = scheduler_->Decide(state_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (action.kind == Action::Kind::kWait) {
      open = false;
      break;
    }
    if (const auto why = state_.WhyIllegal(action)) {
      WEIR_LOG(Error, "event=illegal_action scheduler={} reason=\"{}\"", scheduler_->name(), *why);
      break;
    }
    Job* job = Find(action.job);
    wire::JobInfo& info = job->info();
    if (action.kind != Action::Kind::kPlace) {
      if (job->halt) break;  // asked already: the pass ends until it has come to its checkpoint
      const bool migrates = action.kind == Action::Kind::kMigrate;
      if (migrates &&
          !std::all_of(action.placement.begin(), action.placement.end(), [&](WorkerId w) { return Allowed(*job, w); }))
        break;
      BeginHalt(job, fmt::format("{} by {}", migrates ? "migrated" : "preempted", scheduler_->name()),
                migrates ? action.placement : Placement());
      break;
    }
    const std::optional<Placement> allowed =
        OnAllowedWorkers(state_, action.job, action.placement, [&](WorkerId w) { return Allowed(*job, w); });
    if (!allowed) break;  // no suited worker is free
    action.placement = *allowed;
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

std::string DecisionLoop::WhyNever(const JobSpec& spec, const wire::SubmitRequest& submit) const {
  bool any = false, all_starting = true;
  double largest_worker = 0;
  for (const WorkerEntry& w : workers_.entries()) {
    any |= w.connected();
    all_starting &= !state_.available(w.id);
    if (state_.available(w.id)) largest_worker = std::max(largest_worker, w.spec.memory_bytes());
  }
  if (!any) return "no worker is connected";
  if (all_starting) return "no worker is ready";
  if (!state_.FitsEmptyCluster(spec)) {
    double largest = 0;
    for (const SubgraphSpec& s : spec.subgraphs) largest = std::max(largest, s.memory_bytes);
    return fmt::format("needs {} in {} part(s), the largest {}; the workers can't hold that (the largest has {})",
                       FormatBytes(spec.total_memory_bytes()), spec.num_subgraphs(), FormatBytes(largest),
                       FormatBytes(largest_worker));
  }
  return WhyNoneSuits(submit);
}

void DecisionLoop::UpdateReasons() {
  for (JobId id : state_.waiting()) {
    Job* job = Find(id);
    std::string reason = WhyNever(*state_.job(id).spec, job->stored.request);
    if (reason.empty()) reason = fmt::format("held by {}", scheduler_->name());
    if (job->info().reason() != reason) job->info().set_reason(reason);  // not worth a write to disk of its own
  }
}

}  // namespace weir::coordinator
