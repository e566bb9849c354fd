// The part of the decision loop that looks at the workers' real speed: predictions before a run, what a run teaches, calibration.
#include <algorithm>
#include <cmath>

#include "coordinator/decision_loop.h"
#include "coordinator/run_log.h"
#include "env/core/log.h"
#include "env/core/units.h"

namespace weir::coordinator {

using worker::MessageType;

std::vector<std::string> DecisionLoop::NamesOf(const Placement& placement) const {
  std::vector<std::string> names;
  for (WorkerId w : placement) names.push_back(workers_.Get(w).spec.worker());
  return names;
}

void DecisionLoop::RecordPlacement(Job* job, const Placement& placement) {
  wire::JobInfo& info = job->info();
  const auto id = static_cast<JobId>(info.job());
  const std::vector<std::string> names = NamesOf(placement);
  const double share = job->plan->spec.evaluation_share;
  const double factor = options_.corrections ? corrections_.Factor(job->plan->graph_fingerprint, names) : 1;
  state_.SetTimeFactor(id, (1 + share) * factor);
  job->placed_at = now_;
  job->modelled_seconds = 0;
  job->begun_at = static_cast<double>(info.iterations_done());
  info.set_correction(factor);
  info.set_evaluation_share(share);
  info.set_predicted_overhead_seconds(job->plan->spec.overhead_seconds);
  info.set_predicted_iteration_seconds(state_.job(id).iteration_time / (1 + share));
  info.set_predicted_finish(state_.PredictedFinish(id));
  log_.Append(now_, "place", PlaceFields(info, placement, names));
}

void DecisionLoop::LearnFrom(Job* job) {
  wire::JobInfo& info = job->info();
  if (!job->plan || job->placed_at < 0 || info.measured_iteration_seconds() <= 0) return;
  const double n = job->report_iterations, share = job->plan->spec.evaluation_share;
  if (n <= 0) return;
  const double iterations = static_cast<double>(info.iterations_total()) - job->begun_at;
  const double overhead = (now_ - job->placed_at) - info.measured_iteration_seconds() * iterations * (1 + share);
  info.set_measured_overhead_seconds(std::max(0.0, overhead));
  const std::string& model = job->plan->graph_fingerprint;
  corrections_.AddOverhead(model, overhead);
  std::vector<std::string> names(info.workers().begin(), info.workers().end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  corrections_.AddIteration(model, names, info.measured_iteration_seconds(), job->modelled_seconds / n);
  corrections_changed_ = true;
}

void DecisionLoop::CountIterations(Job* job, double iterations) {
  const LiveJob& live = state_.job(static_cast<JobId>(job->info().job()));
  if (live.running()) job->modelled_seconds += iterations * live.iteration_time / live.time_factor;
}

// ---- Calibration

void DecisionLoop::OnBench(const std::string& peer, const wire::BenchRequest& request) {
  wire::BenchReply reply;
  for (const std::string& name : request.workers()) {
    if (!workers_.ByName(name)) reply.add_refused(fmt::format("{}: there is no such worker", name));
  }
  for (WorkerEntry& worker : workers_.entries()) {
    const std::string& name = worker.spec.worker();
    const bool named = std::count(request.workers().begin(), request.workers().end(), name) > 0;
    if (!named && request.workers_size() > 0) continue;
    if (worker.state != WorkerEntry::State::kReady) {
      if (named || worker.connected()) reply.add_refused(fmt::format("{}: {}", name, StateName(worker.state)));
    } else if (!state_.residents(worker.id).empty()) {
      reply.add_refused(fmt::format("{}: jobs run there", name));
    } else {
      StartBench(&worker);
      reply.add_started(name);
    }
  }
  Send(peer, MessageType::kBenchReply, reply);
}

void DecisionLoop::StartBench(WorkerEntry* worker) {
  wire::Calibrate calibrate;
  calibrate.set_sequence(++bench_sequence_);
  worker->bench_sequence = bench_sequence_;
  worker->bench_until = now_ + kBenchPatience;
  state_.SetWorkerAvailable(worker->id, false);  // a job beside it would be disturbed, and measured with it
  changed_ = true;
  Send(worker->peer, MessageType::kCalibrate, calibrate);
}

void DecisionLoop::EndBench(WorkerEntry* worker) {
  worker->bench_until = -1;
  if (worker->state == WorkerEntry::State::kReady) state_.SetWorkerAvailable(worker->id, true);
  changed_ = true;
}

void DecisionLoop::OnCalibrated(WorkerEntry* worker, const wire::Calibrated& done) {
  worker->calibration = done.calibration();
  if (done.calibration().error().empty()) {
    WEIR_LOG(Info, "event=calibrated worker={} flops={}", worker->spec.worker(), FormatCount(done.calibration().flops()));
  } else {
    WEIR_LOG(Warning, "event=calibration_failed worker={} error=\"{}\"", worker->spec.worker(), done.calibration().error());
  }
  if (done.sequence() == worker->bench_sequence && worker->bench_until >= 0) EndBench(worker);
}

void DecisionLoop::WatchBenches() {
  for (WorkerEntry& worker : workers_.entries()) {
    if (worker.bench_until >= 0 && now_ > worker.bench_until) EndBench(&worker);
  }
}

// ---- Links

void DecisionLoop::ProbeLinks() {
  const auto may = [&](WorkerId w) {
    const WorkerEntry& worker = workers_.Get(w);
    return worker.state == WorkerEntry::State::kReady && worker.bench_until < 0 && !worker.spec.probe_address().empty() &&
           state_.residents(w).empty();
  };
  const auto probe = links_.Next(state_.num_workers(), now_, may);
  if (!probe) return;
  wire::ProbeLink message;
  message.set_peer(workers_.Get(probe->to).spec.worker());
  message.set_address(workers_.Get(probe->to).spec.probe_address());
  Send(workers_.Get(probe->from).peer, MessageType::kProbeLink, message);
}

void DecisionLoop::OnLinkReport(WorkerEntry* worker, const wire::LinkReport& report) {
  const WorkerEntry* peer = workers_.ByName(report.peer());
  if (!peer || peer->id == worker->id) return;
  if (!report.error().empty()) {
    WEIR_LOG(Warning, "event=link_probe_failed from={} to={} error=\"{}\"", worker->spec.worker(), report.peer(), report.error());
    return links_.Fail(worker->id, peer->id, now_);
  }
  links_.Add(worker->id, peer->id, report.bandwidth(), report.latency(), now_);
  const auto link = links_.Find(worker->id, peer->id);
  if (!link) return;
  state_.SetLinks(links_.Table());
  changed_ = true;
  log_.Append(
      now_, "link",
      {{"a", worker->spec.worker()}, {"b", peer->spec.worker()}, {"bandwidth", link->bandwidth}, {"latency", link->latency}});
}

void DecisionLoop::ForgetLinks(WorkerId worker) {
  links_.Forget(worker);
  state_.SetLinks(links_.Table());
}

void DecisionLoop::AddLinks(WorkerId worker, wire::WorkerInfo* info) const {
  for (const WorkerEntry& peer : workers_.entries()) {
    const auto link = peer.id == worker ? std::nullopt : links_.Find(worker, peer.id);
    if (!link) continue;
    wire::LinkReport* row = info->add_links();
    row->set_peer(peer.spec.worker());
    row->set_bandwidth(link->bandwidth);
    row->set_latency(link->latency);
  }
}

}  // namespace weir::coordinator
