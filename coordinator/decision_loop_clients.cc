// What clients ask, and which handler a frame goes to.
#include "coordinator/decision_loop.h"

#include <algorithm>
#include <limits>

#include "env/core/check.h"
#include "env/core/log.h"
#include "env/core/units.h"

namespace weir::coordinator {

using worker::MessageType;
using worker::SendResult;

namespace {

// What a list carries: without the parts only `show` prints.
wire::JobInfo Brief(const wire::JobInfo& info) {
  wire::JobInfo brief = info;
  brief.clear_job_yaml();
  brief.clear_subgraph_flop();
  brief.clear_subgraph_memory_bytes();
  brief.clear_subgraph_param_bytes();
  brief.clear_arc();
  brief.clear_warnings();
  brief.clear_checkpoints();
  brief.clear_epoch_losses();
  brief.clear_epoch_accuracies();
  return brief;
}

}  // namespace

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
    case MessageType::kStageCheckpoint:
      return from_worker(wire::StageCheckpoint(), [&](auto& m) { OnStageCheckpoint(worker, m); });
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
    case MessageType::kPlanQueryRequest:
      return with(wire::PlanQueryRequest(), [&](auto& m) { OnPlanQuery(peer, m); });
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
