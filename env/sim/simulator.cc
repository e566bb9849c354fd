#include "env/sim/simulator.h"

#include <algorithm>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir {

Workload MakeWorkload(std::vector<JobSpec> jobs) {
  Workload workload;
  workload.reserve(jobs.size());
  for (JobSpec& job : jobs) workload.push_back(std::make_shared<const JobSpec>(std::move(job)));
  return workload;
}

Simulator::Simulator(std::vector<WorkerSpec> workers, Workload jobs, ModelOptions options)
    : Simulator(ClusterState(std::move(workers), options), std::move(jobs)) {}

Simulator::Simulator(ClusterState state, Workload future) : state_(std::move(state)) {
  auto earlier = [](const auto& a, const auto& b) { return std::pair(a->arrival, a->id) < std::pair(b->arrival, b->id); };
  if (!std::is_sorted(future.begin(), future.end(), earlier)) std::sort(future.begin(), future.end(), earlier);
  WEIR_CHECK(future.empty() || future.front()->arrival >= state_.now()) << "an arrival lies in the past";
  records_.reserve(state_.num_jobs() + future.size());
  auto add_live = [&](JobId id) {
    const LiveJob& job = state_.job(id);
    records_.push_back({id, job.arrival, job.start, -1, job.placement, job.preemptions, job.migrations});
  };
  for (JobId id : state_.waiting()) add_live(id);
  for (JobId id : state_.running()) add_live(id);
  for (const auto& job : future) records_.push_back({job->id, job->arrival, -1, -1, {}, 0, 0});
  std::sort(records_.begin(), records_.end(), [](const JobRecord& a, const JobRecord& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < records_.size(); ++i) WEIR_CHECK_NE(records_[i - 1].id, records_[i].id);
  arrivals_ = std::make_shared<const Workload>(std::move(future));
}

JobRecord& Simulator::RecordOf(JobId id) {
  const std::size_t guess = static_cast<std::size_t>(id - records_.front().id);  // ids are mostly consecutive
  if (guess < records_.size() && records_[guess].id == id) return records_[guess];
  return *std::lower_bound(records_.begin(), records_.end(), id, [](const JobRecord& r, JobId wanted) { return r.id < wanted; });
}

SimTime Simulator::NextEventTime() const {
  const SimTime finish = state_.NextEventTime();
  return next_arrival_ < arrivals_->size() ? std::min(finish, (*arrivals_)[next_arrival_]->arrival) : finish;
}

void Simulator::MoveClock(SimTime time) {
  const SimTime before = state_.now();
  state_.AdvanceTo(time);
  job_seconds_ += state_.num_jobs() * (state_.now() - before);
}

bool Simulator::HandleCompletions() {
  const std::vector<JobId> completed = state_.CompletedJobs();
  for (JobId id : completed) {
    JobRecord& record = RecordOf(id);
    record.finish = state_.now();
    state_.Finish(id);
    ++finished_;
    ++num_events_;
    if (log_) log_->Append(state_.now(), "finish", {{"job", std::int64_t{id}}, {"jct", record.jct()}});
  }
  return !completed.empty();
}

void Simulator::HandleArrivals() {
  for (; next_arrival_ < arrivals_->size() && (*arrivals_)[next_arrival_]->arrival <= state_.now(); ++next_arrival_) {
    const std::shared_ptr<const JobSpec>& job = (*arrivals_)[next_arrival_];
    state_.AddJob(job);
    ++num_events_;
    if (log_) log_->Append(state_.now(), "arrival", {{"job", std::int64_t{job->id}}, {"name", job->name}});
  }
}

bool Simulator::Advance() {
  const SimTime next = NextEventTime();
  if (next == kNever) return false;
  MoveClock(next);
  HandleCompletions();
  HandleArrivals();
  return true;
}

void Simulator::AdvanceTo(SimTime time) {
  while (NextEventTime() <= time) Advance();
  MoveClock(time);
  HandleCompletions();
}

void Simulator::Apply(const Action& action) {
  if (action.kind == Action::Kind::kWait) return;
  state_.Apply(action);
  const LiveJob& job = state_.job(action.job);
  JobRecord& record = RecordOf(action.job);
  record.start = job.start;
  record.preemptions = job.preemptions;
  record.migrations = job.migrations;
  if (job.running()) record.workers = job.placement;
  if (keep_actions_) actions_.push_back({state_.now(), action});
  ++num_events_;
  if (!log_) return;
  const std::int64_t id = action.job;
  switch (action.kind) {
    case Action::Kind::kPlace:
      log_->Append(state_.now(), "place", {{"job", id}, {"workers", action.placement}});
      break;
    case Action::Kind::kMigrate:
      log_->Append(state_.now(), "migrate", {{"job", id}, {"workers", action.placement}});
      break;
    case Action::Kind::kPreempt:
      log_->Append(state_.now(), "preempt", {{"job", id}});
      break;
    case Action::Kind::kWait:
      break;
  }
}

void Replay(Simulator* simulator, const std::vector<TimedAction>& log, const std::string& source) {
  for (const TimedAction& entry : log) {
    const std::string where = entry.line > 0 ? fmt::format("{}:{}", source, entry.line) : source;
    if (entry.time < simulator->state().now()) throw Invalid("{}: time {:.17g} lies before the entry above", where, entry.time);
    simulator->AdvanceTo(entry.time);
    if (auto why = simulator->state().WhyIllegal(entry.action)) throw Invalid("{}: {}", where, *why);
    simulator->Apply(entry.action);
  }
  while (simulator->Advance()) {
  }
}

}  // namespace weir
