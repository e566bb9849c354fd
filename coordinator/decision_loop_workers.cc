// Workers that join, fall silent, leave.
#include "coordinator/decision_loop.h"

#include <algorithm>

#include "coordinator/run_log.h"
#include "env/core/check.h"
#include "env/core/log.h"
#include "env/core/units.h"

namespace weir::coordinator {

using worker::MessageType;
using worker::SendResult;

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
    if (job.halt && now_ - job.halt->asked_at > options_.halt_after) {
      const std::string reason = fmt::format("{}: no checkpoint within {:g} s", job.halt->reason, options_.halt_after);
      Requeue(&job, reason, false);
    }
    if (job.halt && now_ - job.halt->sent_at >= options_.resend_after && !job.checkpoints.AnyStopped()) SendTakeCheckpoint(&job);
    for (std::size_t s = 0; s < job.stages.stages.size(); ++s) {
      const Stage& stage = job.stages.stages[s];
      if (!stage.acknowledged && now_ - stage.sent_at >= options_.resend_after) SendAssign(&job, static_cast<int>(s));
    }
  }
}

}  // namespace weir::coordinator
