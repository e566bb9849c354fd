#include "env/sim/cluster_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/rng.h"

namespace weir {
namespace {

constexpr double kMemorySlack = 1e-9;  // relative; sums of memory are not associative
constexpr double kAverageOver = 20;    // arrivals

void InsertSorted(std::vector<JobId>* ids, JobId id) {
  ids->insert(std::lower_bound(ids->begin(), ids->end(), id), id);
}
void EraseValue(std::vector<JobId>* ids, JobId id) {
  ids->erase(std::find(ids->begin(), ids->end(), id));
}

// True at the first place in `placement` where its worker appears.
bool FirstUse(std::span<const WorkerId> placement, std::size_t i) {
  for (std::size_t j = 0; j < i; ++j) {
    if (placement[j] == placement[i]) return false;
  }
  return true;
}

bool Contains(std::span<const WorkerId> placement, WorkerId w) {
  return std::find(placement.begin(), placement.end(), w) != placement.end();
}

// Whether the job loads the NIC of w: a cut arc there, or replicas that exchange gradients.
bool CutsAt(const JobSpec& job, std::span<const WorkerId> placement, WorkerId w) {
  if (job.replicas > 1) return Contains(placement, w);
  for (const ArcSpec& arc : job.arcs) {
    if ((placement[arc.from] == w) != (placement[arc.to] == w)) return true;
  }
  return false;
}

double MemoryAt(const JobSpec& job, std::span<const WorkerId> placement, WorkerId w) {
  double bytes = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (placement[i] == w) bytes += job.subgraphs[i % job.subgraphs.size()].memory_bytes;
  }
  return bytes;
}

double Tolerance(SimTime time) {
  return std::max(1e-9, 1e-9 * std::abs(time));
}

}  // namespace

ClusterState::ClusterState(std::vector<WorkerSpec> workers, ModelOptions options, SimTime now)
    : options_(std::move(options)), now_(now) {
  HashOptions();
  for (WorkerSpec& worker : workers) AddWorker(std::move(worker));
}

void ClusterState::HashOptions() {
  options_hash_ = Mix64(options_.physical ? 1 : 0, options_.links ? options_.links->hash() : 0);
}

void ClusterState::SetLinks(std::shared_ptr<const LinkTable> links) {
  options_.links = std::move(links);
  HashOptions();
  for (WorkerId w = 0; w < num_workers(); ++w) RefreshRates(std::array{w});
}

std::uint64_t ShapeHash(const JobSpec& spec) {
  std::uint64_t hash = Mix64(static_cast<std::uint64_t>(spec.micro_batches), static_cast<std::uint64_t>(spec.replicas));
  auto add = [&](double value) { hash = (std::rotl(hash, 23) ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ull; };
  for (const SubgraphSpec& s : spec.subgraphs) {
    add(s.flop);
    add(s.memory_bytes);
    if (spec.replicas > 1) add(s.param_bytes);
  }
  for (const ArcSpec& a : spec.arcs) {
    add(a.from * 4096.0 + a.to);
    add(a.bytes);
  }
  return Mix64(hash);
}

std::uint64_t ClusterState::WorkerHash(WorkerId w) const {
  const WorkerSpec& s = workers_[w];
  std::uint64_t hash = Mix64(static_cast<std::uint64_t>(w));
  for (double value :
       {s.flops, s.memory_bytes, s.bandwidth, s.latency, s.corun_gain, double(s.max_residents), double(available_[w])}) {
    hash = Mix64(hash, std::bit_cast<std::uint64_t>(value));
  }
  return hash;
}

void ClusterState::Recount(WorkerId w) {
  const int free = free_residencies(w);
  free_slots_on_workers_ += free - counted_free_[w];
  counted_free_[w] = free;
  if (options_.corun) loads_[w].gain_sum = PairGains(w, -1, nullptr);
}

double ClusterState::PairGains(WorkerId w, JobId without, const LiveJob* added) const {
  if (!options_.corun) return 0;
  const double otherwise = workers_[w].corun_gain;
  double sum = 0;
  const std::vector<JobId>& here = residents_[w];
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i] == without) continue;
    const int a = job(here[i]).corun_class;
    for (std::size_t j = 0; j < i; ++j) {
      if (here[j] != without) sum += options_.corun->Gain(a, job(here[j]).corun_class, otherwise);
    }
    if (added) sum += options_.corun->Gain(a, added->corun_class, otherwise);
  }
  return sum;
}

WorkerLoad ClusterState::LoadWith(WorkerId w, const LiveJob& added) const {
  return {loads_[w].residents + 1, loads_[w].cut_jobs + 1, options_.corun ? PairGains(w, added.id, &added) : 0};
}

// ---- Clock

void ClusterState::AdvanceTo(SimTime time) {
  WEIR_CHECK_GE(time, now_ - Tolerance(now_));
  now_ = std::max(now_, time);
}

SimTime ClusterState::NextEventTime() const {
  const SimTime next = finishes_.least();
  return next == kNever ? next : std::max(next, now_);
}

std::vector<JobId> ClusterState::CompletedJobs() const {
  std::vector<std::pair<SimTime, JobId>> completed;
  const SimTime limit = now_ + Tolerance(now_);
  finishes_.ForEachUpTo(limit, [&](SimTime finish, int slot) { completed.emplace_back(finish, slots_[slot].id); });
  std::vector<JobId> ids;
  if (completed.empty()) return ids;
  std::sort(completed.begin(), completed.end());
  ids.reserve(completed.size());
  for (const auto& [finish, id] : completed) ids.push_back(id);
  return ids;
}

// ---- Workers

double ClusterState::free_memory(WorkerId w) const {
  return workers_[w].memory_bytes - used_memory_[w];
}

int ClusterState::free_residencies(WorkerId w) const {
  return available_[w] ? std::max(0, workers_[w].max_residents - loads_[w].residents) : 0;
}

double ClusterState::total_flops() const {
  double sum = 0;
  for (int w = 0; w < num_workers(); ++w) sum += available_[w] ? workers_[w].flops : 0;
  return sum;
}

int ClusterState::total_slots() const {
  int sum = 0;
  for (int w = 0; w < num_workers(); ++w) sum += available_[w] ? workers_[w].max_residents : 0;
  return sum;
}

WorkerId ClusterState::AddWorker(WorkerSpec spec) {
  workers_.push_back(std::move(spec));
  loads_.push_back({});
  used_memory_.push_back(0);
  available_.push_back(1);
  residents_.emplace_back();
  counted_free_.push_back(0);
  const WorkerId w = num_workers() - 1;
  cluster_hash_ += WorkerHash(w);
  Recount(w);
  return w;
}

void ClusterState::SetWorkerAvailable(WorkerId w, bool available) {
  cluster_hash_ -= WorkerHash(w);
  available_[w] = available;
  cluster_hash_ += WorkerHash(w);
  Recount(w);
}

std::vector<JobId> ClusterState::RemoveWorker(WorkerId w) {
  const std::vector<JobId> lost = residents_[w];
  for (JobId id : lost) Preempt(id);
  SetWorkerAvailable(w, false);
  return lost;
}

void ClusterState::UpdateWorker(WorkerId w, WorkerSpec spec) {
  cluster_hash_ -= WorkerHash(w);
  workers_[w] = std::move(spec);
  cluster_hash_ += WorkerHash(w);
  Recount(w);
  const WorkerId changed[] = {w};
  RefreshRates(changed);
}

// ---- Jobs

int ClusterState::SlotOf(JobId id) const {
  return index_.Find(id);
}

const LiveJob& ClusterState::job(JobId id) const {
  const int slot = SlotOf(id);
  WEIR_CHECK_GE(slot, 0) << "job" << id;
  return slots_[slot];
}

LiveJob& ClusterState::Get(JobId id) {
  return const_cast<LiveJob&>(job(id));
}

void ClusterState::AddJob(JobSpec spec) {
  AddJob(std::make_shared<const JobSpec>(std::move(spec)));
}

void ClusterState::AddJob(std::shared_ptr<const JobSpec> spec) {
  const JobId id = spec->id;
  WEIR_CHECK(!HasJob(id)) << "job" << id << "is already here";
  int slot = static_cast<int>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  LiveJob& job = slots_[slot];
  job = LiveJob{};
  job.id = id;
  job.arrival = spec->arrival;
  job.since = now_;
  job.shape = ShapeHash(*spec);
  job.time_factor = (1 + spec->evaluation_share) * spec->correction;
  job.iterations = spec->iterations;
  if (options_.corun && !spec->job_class.empty()) job.corun_class = options_.corun->Find(spec->job_class);
  job.spec = std::move(spec);
  index_.Insert(id, slot);
  auto before = [&](JobId a, JobId b) { return std::pair(this->job(a).arrival, a) < std::pair(this->job(b).arrival, b); };
  if (waiting_.empty() || before(waiting_.back(), id)) {
    waiting_.push_back(id);
  } else {
    waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), id, before), id);
  }
  const bool estimated = job.spec->estimated_iterations > 0;
  num_estimated_ += estimated;
  const double work = (estimated ? job.spec->estimated_iterations : job.spec->iterations) * job.spec->total_flop();
  const double weight = 1 / kAverageOver;
  mean_work_ = last_arrival_ < 0 ? work : mean_work_ + weight * (work - mean_work_);
  if (last_arrival_ >= 0) {
    const double gap = std::max(0.0, now_ - last_arrival_);
    mean_gap_ = mean_gap_ == 0 ? gap : mean_gap_ + weight * (gap - mean_gap_);
  }
  last_arrival_ = std::max(now_, 0.0);
}

double ClusterState::offered_load() const {
  const double capacity = mean_gap_ * total_flops();
  return capacity > 0 ? mean_work_ / capacity : 0;
}

double ClusterState::IterationsDone(JobId id) const {
  return DoneOf(job(id));
}

double ClusterState::DoneOf(const LiveJob& job) const {
  if (!job.running()) return job.done;
  const double seconds = now_ - std::max(job.since, job.resume_at);
  return seconds > 0 ? std::min(job.iterations, job.done + seconds / job.iteration_time) : job.done;
}

double ClusterState::RemainingIterations(JobId id) const {
  const LiveJob& job = this->job(id);
  return std::max(0.0, job.iterations - DoneOf(job));
}

SimTime ClusterState::PredictedFinish(JobId id) const {
  const int slot = SlotOf(id);
  return slot >= 0 && finishes_.Contains(slot) ? std::max(now_, finishes_.Get(slot)) : kNever;
}

ClusterState ClusterState::WithEstimates() const {
  ClusterState seen = *this;
  for (const std::vector<JobId>* ids : {&waiting_, &running_}) {
    for (JobId id : *ids) {
      LiveJob& job = seen.Get(id);
      const double estimate = job.spec->estimated_iterations;
      if (estimate <= 0) continue;
      const double done = IterationsDone(id);
      job.iterations = done < estimate ? estimate : done + kOverrunShare * estimate;
      if (job.running()) seen.UpdateFinish(job);
    }
  }
  return seen;
}

double ClusterState::RunSeconds(JobId id) const {
  const LiveJob& job = this->job(id);
  return job.run_seconds + (job.running() ? now_ - job.since : 0);
}

std::optional<std::string> ClusterState::WhyNotPlaceable(JobId id, std::span<const WorkerId> placement) const {
  const int slot = SlotOf(id);
  if (slot < 0) return fmt::format("job {} is not here", id);
  const LiveJob& job = slots_[slot];
  const JobSpec& spec = *job.spec;
  const std::size_t k = spec.subgraphs.size();
  if (placement.size() != k * spec.replicas) {
    return fmt::format("job {} needs {} workers (one per subgraph and replica), got {}", id, k * spec.replicas, placement.size());
  }
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const WorkerId w = placement[i];
    if (w < 0 || w >= num_workers()) return fmt::format("there is no worker {}", w);
    for (std::size_t j = 0; j < i / k * k; ++j) {
      if (placement[j] == w) return fmt::format("worker {} is used by two replicas", w);
    }
    if (!FirstUse(placement, i)) continue;
    const bool here = job.running() && Contains(job.placement, w);
    if (!available_[w] && !here) return fmt::format("worker {} takes no jobs", w);
    if (!here && loads_[w].residents >= workers_[w].max_residents) {
      return fmt::format("worker {} has no free residency ({} of {} in use)", w, loads_[w].residents, workers_[w].max_residents);
    }
    const double need = MemoryAt(spec, placement, w);
    const double free = free_memory(w) + (here ? MemoryAt(spec, job.placement, w) : 0);
    if (need > free + kMemorySlack * workers_[w].memory_bytes) {
      return fmt::format("worker {} lacks memory: {:.17g} bytes needed, {:.17g} free", w, need, free);
    }
  }
  return std::nullopt;
}

bool ClusterState::CanPlace(JobId id, std::span<const WorkerId> placement) const {
  const int slot = SlotOf(id);
  if (slot < 0 || slots_[slot].running() || slots_[slot].spec->replicas > 1) return !WhyNotPlaceable(id, placement);
  const JobSpec& spec = *slots_[slot].spec;  // the frequent case, without text
  if (placement.size() != spec.subgraphs.size()) return false;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const WorkerId w = placement[i];
    if (w < 0 || w >= num_workers()) return false;
    if (!FirstUse(placement, i)) continue;
    if (free_residencies(w) < 1) return false;
    if (MemoryAt(spec, placement, w) > free_memory(w) + kMemorySlack * workers_[w].memory_bytes) return false;
  }
  return true;
}

bool ClusterState::FitsEmptyCluster(const JobSpec& spec) const {
  // First-fit decreasing over the largest memories; a subgraph is never divided. Where it fails, a bounded exact search decides.
  std::vector<double> room, need;
  for (int w = 0; w < num_workers(); ++w) {
    if (available_[w]) room.push_back(workers_[w].memory_bytes * (1 + kMemorySlack));
  }
  if (spec.replicas > static_cast<int>(room.size())) return false;
  for (int r = 0; r < spec.replicas; ++r) {
    for (const SubgraphSpec& s : spec.subgraphs) need.push_back(s.memory_bytes);
  }
  std::sort(room.rbegin(), room.rend());
  std::sort(need.rbegin(), need.rend());
  int effort = 100000;
  auto search = [&](auto&& self, std::size_t i) -> bool {
    if (i == need.size()) return true;
    double tried = -1;
    for (double& r : room) {
      if (r < need[i] || r == tried) continue;
      if (--effort < 0) return false;
      tried = r;
      r -= need[i];
      if (self(self, i + 1)) return true;
      r = tried;
    }
    return false;
  };
  if (spec.replicas == 1) return search(search, 0);
  // Rows are disjoint: enough to hold a whole replica on each of R workers, or any split of the workers; the former is what
  // GenerateCandidates offers.
  double whole = spec.total_memory_bytes();
  return room[spec.replicas - 1] >= whole;
}

void ClusterState::Settle(LiveJob* job) {
  if (job->running()) {
    job->done = DoneOf(*job);
    job->run_seconds += now_ - job->since;
  }
  job->since = now_;
}

void ClusterState::UpdateFinish(const LiveJob& job) {
  finishes_.Set(static_cast<int>(&job - slots_.data()),
                std::max(job.since, job.resume_at) + std::max(0.0, job.iterations - job.done) * job.iteration_time);
}

void ClusterState::RefreshRates(std::span<const WorkerId> workers) {
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!FirstUse(workers, i)) continue;
    for (JobId id : residents_[workers[i]]) {
      LiveJob& job = Get(id);
      bool seen = false;  // through an earlier worker of the list
      for (std::size_t j = 0; j < i && !seen; ++j) seen = Contains(job.placement, workers[j]);
      if (seen) continue;
      const double time = job.time_factor * IterationTime(*job.spec, job.placement, workers_, loads_, options_);
      if (time == job.iteration_time) continue;
      Settle(&job);
      job.iteration_time = time;
      UpdateFinish(job);
    }
  }
}

void ClusterState::Occupy(LiveJob* job, Placement placement) {
  const JobSpec& spec = *job->spec;
  job->placement = std::move(placement);
  job->since = now_;
  job->iteration_time = 0;
  for (std::size_t i = 0; i < job->placement.size(); ++i) {
    if (!FirstUse(job->placement, i)) continue;
    const WorkerId w = job->placement[i];
    InsertSorted(&residents_[w], job->id);
    ++loads_[w].residents;
    used_memory_[w] += MemoryAt(spec, job->placement, w);
    if (CutsAt(spec, job->placement, w)) ++loads_[w].cut_jobs;
    Recount(w);
  }
  InsertSorted(&running_, job->id);
  RefreshRates(job->placement);
}

void ClusterState::Vacate(LiveJob* job) {
  Settle(job);
  const Placement placement = std::move(job->placement);
  job->placement.clear();
  job->iteration_time = 0;
  job->resume_at = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (!FirstUse(placement, i)) continue;
    const WorkerId w = placement[i];
    EraseValue(&residents_[w], job->id);
    --loads_[w].residents;
    used_memory_[w] -= MemoryAt(*job->spec, placement, w);
    if (residents_[w].empty()) used_memory_[w] = 0;  // no drift of rounding
    if (CutsAt(*job->spec, placement, w)) --loads_[w].cut_jobs;
    Recount(w);
  }
  running_.erase(std::lower_bound(running_.begin(), running_.end(), job->id));
  finishes_.Erase(static_cast<int>(job - slots_.data()));
  RefreshRates(placement);
}

double ClusterState::StopSeconds(JobId id, std::span<const WorkerId> placement) const {
  const LiveJob& job = this->job(id);
  double bytes = 0, slowest = kNever;
  if (!job.running()) {
    if (!job.needs_reload) return 0;
    bytes = job.spec->total_memory_bytes() * job.spec->replicas;
  } else {
    for (std::size_t i = 0; i < placement.size(); ++i) {
      if (placement[i] != job.placement[i]) bytes += job.spec->subgraphs[i % job.spec->subgraphs.size()].memory_bytes;
    }
    if (bytes == 0 && std::equal(placement.begin(), placement.end(), job.placement.begin(), job.placement.end())) return 0;
  }
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (job.running() && placement[i] == job.placement[i]) continue;
    slowest = std::min(slowest, workers_[placement[i]].bandwidth);
    if (job.running()) slowest = std::min(slowest, workers_[job.placement[i]].bandwidth);
  }
  return bytes / slowest + options_.restart_seconds;
}

void ClusterState::Place(JobId id, Placement placement) {
  LiveJob& job = Get(id);
  WEIR_CHECK(!job.running() && CanPlace(id, placement))
      << "place job" << id << WhyNotPlaceable(id, placement).value_or("it runs");
  const double stop = StopSeconds(id, placement);
  EraseValue(&waiting_, id);
  job.resume_at = now_ + stop + job.spec->overhead_seconds;
  job.needs_reload = false;
  if (job.start < 0) job.start = now_;
  Occupy(&job, std::move(placement));
}

void ClusterState::Preempt(JobId id) {
  LiveJob& job = Get(id);
  WEIR_CHECK(job.running()) << "job" << id;
  Vacate(&job);
  job.needs_reload = true;
  ++job.preemptions;
  auto before = [&](JobId a, JobId b) { return std::pair(this->job(a).arrival, a) < std::pair(this->job(b).arrival, b); };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), id, before), id);
}

void ClusterState::Migrate(JobId id, Placement placement) {
  LiveJob& job = Get(id);
  WEIR_CHECK(job.running() && job.placement != placement && CanPlace(id, placement))
      << "migrate job" << id << WhyNotPlaceable(id, placement).value_or("it waits, or sits there already");
  const double stop = StopSeconds(id, placement);
  Vacate(&job);
  job.resume_at = now_ + stop + job.spec->overhead_seconds;
  ++job.migrations;
  Occupy(&job, std::move(placement));
}

void ClusterState::Finish(JobId id) {
  const int slot = SlotOf(id);
  WEIR_CHECK_GE(slot, 0) << "job" << id;
  LiveJob& job = slots_[slot];
  if (job.running()) {
    Vacate(&job);
  } else {
    EraseValue(&waiting_, id);
  }
  num_estimated_ -= job.spec->estimated_iterations > 0;
  index_.Erase(id);
  job.spec.reset();
  free_slots_.push_back(slot);
}

void ClusterState::SetIterationsDone(JobId id, double iterations) {
  LiveJob& job = Get(id);
  Settle(&job);
  job.done = std::clamp(iterations, 0.0, job.iterations);
  if (job.running()) UpdateFinish(job);
}

void ClusterState::SetTimeFactor(JobId id, double factor) {
  WEIR_CHECK_GT(factor, 0.0);
  LiveJob& job = Get(id);
  Settle(&job);
  job.iteration_time *= factor / job.time_factor;
  job.time_factor = factor;
  if (job.running()) UpdateFinish(job);
}

void ClusterState::SetResumeAt(JobId id, SimTime time) {
  LiveJob& job = Get(id);
  Settle(&job);
  job.resume_at = time;
  if (job.running()) UpdateFinish(job);
}

void ClusterState::Apply(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kWait:
      return;
    case Action::Kind::kPlace:
      return Place(action.job, action.placement);
    case Action::Kind::kPreempt:
      return Preempt(action.job);
    case Action::Kind::kMigrate:
      return Migrate(action.job, action.placement);
  }
}

std::optional<std::string> ClusterState::WhyIllegal(const Action& action) const {
  if (action.kind == Action::Kind::kWait) return std::nullopt;
  const int slot = SlotOf(action.job);
  if (slot < 0) return fmt::format("job {} is not here (it hasn't arrived, or has finished)", action.job);
  const LiveJob& job = slots_[slot];
  if (action.kind == Action::Kind::kPlace) {
    if (job.running()) return fmt::format("job {} is placed already", action.job);
    return WhyNotPlaceable(action.job, action.placement);
  }
  if (!job.running()) return fmt::format("job {} isn't placed", action.job);
  if (action.kind == Action::Kind::kPreempt) return std::nullopt;
  if (job.placement == action.placement) return fmt::format("job {} sits there already", action.job);
  return WhyNotPlaceable(action.job, action.placement);
}

// ---- Predictions

namespace {

// loads with some workers changed, without allocation on small clusters.
class ScratchLoads {
 public:
  explicit ScratchLoads(std::span<const WorkerLoad> loads) : size_(loads.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    data_ = size_ > few_.size() ? many_.data() : few_.data();
    std::copy(loads.begin(), loads.end(), data_);
  }
  void Add(const JobSpec& job, std::span<const WorkerId> placement, int count) {
    for (std::size_t i = 0; i < placement.size(); ++i) {
      if (!FirstUse(placement, i)) continue;
      data_[placement[i]].residents += count;
      if (CutsAt(job, placement, placement[i])) data_[placement[i]].cut_jobs += count;
    }
  }
  void SetGains(WorkerId w, double sum) { data_[w].gain_sum = sum; }
  std::span<const WorkerLoad> get() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::array<WorkerLoad, 64> few_;
  std::vector<WorkerLoad> many_;
  WorkerLoad* data_;
};

}  // namespace

double ClusterState::IterationTimeIfPlaced(JobId id, std::span<const WorkerId> placement) const {
  const LiveJob& job = this->job(id);
  ScratchLoads loads(loads_);
  if (job.running()) loads.Add(*job.spec, job.placement, -1);
  loads.Add(*job.spec, placement, 1);
  if (options_.corun) {
    for (WorkerId w : placement) loads.SetGains(w, PairGains(w, id, &job));
  }
  return job.time_factor * IterationTime(*job.spec, placement, workers_, loads.get(), options_);
}

double ClusterState::IterationTimeBeside(JobId id, const JobSpec& other, std::span<const WorkerId> other_placement) const {
  const LiveJob& job = this->job(id);
  ScratchLoads loads(loads_);
  loads.Add(other, other_placement, 1);
  if (options_.corun) {
    LiveJob added;
    added.corun_class = options_.corun->Find(other.job_class);
    for (WorkerId w : other_placement) loads.SetGains(w, PairGains(w, -1, &added));
  }
  return job.time_factor * IterationTime(*job.spec, job.placement, workers_, loads.get(), options_);
}

}  // namespace weir
