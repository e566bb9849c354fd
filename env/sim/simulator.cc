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

Simulator::Simulator(std::vector<WorkerSpec> workers, Workload jobs, ModelOptions options, std::vector<WorkerEvent> events)
    : Simulator(ClusterState(std::move(workers), std::move(options)), std::move(jobs), std::move(events)) {}

Simulator::Simulator(ClusterState state, Workload future, std::vector<WorkerEvent> events) : state_(std::move(state)) {
  if (!events.empty()) {
    CheckEvents(events, state_.num_workers(), "events");
    WEIR_CHECK_GE(events.front().time, state_.now()) << "a worker event lies in the past";
    events_ = std::make_shared<const std::vector<WorkerEvent>>(std::move(events));
  }
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
  SimTime next = state_.NextEventTime();
  if (next_arrival_ < arrivals_->size()) next = std::min(next, (*arrivals_)[next_arrival_]->arrival);
  if (events_ && next_event_ < events_->size() && !Done()) next = std::min(next, (*events_)[next_event_].time);
  return next;
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
    finished_.push_back(id);
    ++num_events_;
    if (log_) log_->Append(state_.now(), "finish", {{"job", std::int64_t{id}}, {"jct", record.jct()}});
  }
  return !completed.empty();
}

bool Simulator::HandleWorkerEvents() {
  if (!events_) return false;
  const std::size_t before = next_event_;
  for (; next_event_ < events_->size() && (*events_)[next_event_].time <= state_.now(); ++next_event_) {
    const WorkerEvent& event = (*events_)[next_event_];
    const char* what = "";
    switch (event.kind) {
      case WorkerEvent::Kind::kJoin:
        WEIR_CHECK_EQ(state_.AddWorker(event.spec), event.worker);
        what = "worker_joined";
        break;
      case WorkerEvent::Kind::kLost:
        for (JobId id : state_.RemoveWorker(event.worker)) Remember(id);
        what = "worker_lost";
        break;
      case WorkerEvent::Kind::kBack:
        state_.SetWorkerAvailable(event.worker, true);
        what = "worker_back";
        break;
      case WorkerEvent::Kind::kDrain:
        state_.SetWorkerAvailable(event.worker, false);
        what = "worker_drained";
        break;
      case WorkerEvent::Kind::kChange:
        state_.UpdateWorker(event.worker, event.spec);
        what = "worker_changed";
        break;
    }
    ++num_events_;
    if (log_) {
      log_->Append(state_.now(), what, {{"worker", std::int64_t{event.worker}}, {"name", state_.worker(event.worker).name}});
    }
  }
  return next_event_ != before;
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
  if (HandleWorkerEvents()) HandleCompletions();
  HandleArrivals();
  return true;
}

void Simulator::AdvanceTo(SimTime time) {
  while (NextEventTime() <= time && Advance()) {
  }
  MoveClock(time);
  HandleCompletions();
}

void Simulator::Remember(JobId id) {
  const LiveJob& job = state_.job(id);
  JobRecord& record = RecordOf(id);
  record.start = job.start;
  record.preemptions = job.preemptions;
  record.migrations = job.migrations;
  if (job.running()) record.workers = job.placement;
}

Simulator::Snapshot Simulator::Save() const {
  Snapshot snapshot;
  snapshot.state = state_;
  snapshot.next_arrival = next_arrival_;
  snapshot.next_event = next_event_;
  snapshot.num_finished = finished_.size();
  snapshot.num_actions = actions_.size();
  snapshot.num_events = num_events_;
  snapshot.job_seconds = job_seconds_;
  for (JobId id : state_.waiting()) {
    if (state_.job(id).start < 0) continue;
    const JobRecord& record = const_cast<Simulator*>(this)->RecordOf(id);
    snapshot.preempted.emplace_back(id, record.workers);
  }
  return snapshot;
}

void Simulator::Restore(const Snapshot& snapshot) {
  WEIR_CHECK(snapshot.num_finished <= finished_.size() && snapshot.next_arrival <= next_arrival_ &&
             snapshot.num_actions <= actions_.size())
      << "the snapshot isn't of this episode's past";
  for (std::size_t i = snapshot.num_finished; i < finished_.size(); ++i) RecordOf(finished_[i]).finish = -1;
  // Jobs that arrived since are as new; those that were live then are as the state says.
  for (std::size_t i = snapshot.next_arrival; i < next_arrival_; ++i) {
    JobRecord& record = RecordOf((*arrivals_)[i]->id);
    record = {record.id, record.arrival, -1, -1, {}, 0, 0};
  }
  finished_.resize(snapshot.num_finished);
  actions_.resize(snapshot.num_actions);
  state_ = snapshot.state;
  next_arrival_ = snapshot.next_arrival;
  next_event_ = snapshot.next_event;
  num_events_ = snapshot.num_events;
  job_seconds_ = snapshot.job_seconds;
  for (JobId id : state_.waiting()) {
    Remember(id);
    if (state_.job(id).start < 0) RecordOf(id).workers.clear();
  }
  for (JobId id : state_.running()) Remember(id);
  for (const auto& [id, workers] : snapshot.preempted) RecordOf(id).workers = workers;
}

void Simulator::Apply(const Action& action) {
  if (action.kind == Action::Kind::kWait) return;
  state_.Apply(action);
  Remember(action.job);
  if (keep_actions_) actions_.push_back({state_.now(), action});
  ++num_events_;
  if (log_) LogAction(action);
  HandleCompletions();
}

void Simulator::LogAction(const Action& action) {
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
