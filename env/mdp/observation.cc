#include "env/mdp/observation.h"

#include <algorithm>
#include <cmath>

#include "env/core/check.h"

namespace weir {
namespace {

float L(double x) {
  return static_cast<float>(std::clamp(std::log(std::max(x, 1e-3)), -8.0, 16.0));
}
float F(double x) {
  return static_cast<float>(x);
}

// A row of features that is filled by name.
template <typename Feature>
class Row {
 public:
  Row(std::vector<float>* out, int columns) : out_(out), at_(out->size()) { out->resize(at_ + columns, 0.0f); }
  float& operator[](Feature feature) { return (*out_)[at_ + static_cast<std::size_t>(feature)]; }

 private:
  std::vector<float>* out_;
  std::size_t at_;
};

struct JobView {
  JobId id = -1;
  const LiveJob* job = nullptr;
  double size = 0;  // N* = iterations left * T*
  double best = 0;  // T*
  double rank = 0;
  bool running = false;
  WaitEstimate wait;
  std::vector<Candidate> candidates;
};

double MemoryAt(const JobSpec& spec, std::span<const WorkerId> placement, WorkerId w) {
  double bytes = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (placement[i] == w) bytes += spec.subgraphs[i % spec.subgraphs.size()].memory_bytes;
  }
  return bytes;
}

std::vector<WorkerId> Distinct(std::span<const WorkerId> placement) {
  std::vector<WorkerId> workers(placement.begin(), placement.end());
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

// What is the same for all rows of one observation.
struct Context {
  const ClusterState& state;
  double mean_size = 1;  // N* over live jobs
  double mean_flops = 1, mean_memory = 1, mean_bandwidth = 1;
  double slots = 1;
  int available = 0;
  std::vector<SimTime> reserved{};  // of all waiting jobs
  std::vector<JobId> reserver{};    // who reserved it last
  std::vector<int> claims{};
};

void FillGlobal(const Context& c, Observation* out) {
  const ClusterState& state = c.state;
  Row<GlobalFeature> row(&out->global_features, kGlobalFeatures);
  double used = 0, total = 0, residents = 0;
  int free_workers = 0;
  for (int w = 0; w < state.num_workers(); ++w) {
    residents += state.loads()[w].residents;
    if (!state.available(w)) continue;
    free_workers += state.free_residencies(w) > 0;
    used += state.worker(w).memory_bytes - state.free_memory(w);
    total += state.worker(w).memory_bytes;
  }
  using G = GlobalFeature;
  row[G::kWaitingPerSlot] = F(static_cast<double>(state.waiting().size()) / c.slots);
  row[G::kRunningPerSlot] = F(residents / c.slots);
  row[G::kFreeWorkers] = F(static_cast<double>(free_workers) / std::max(1, c.available));
  row[G::kOfferedLoad] = F(state.offered_load());
  row[G::kLogGap] = L(state.mean_gap() / c.mean_size);
  row[G::kFreeMemory] = F(total > 0 ? 1 - used / total : 0);
  const SimTime next = state.NextEventTime();
  row[G::kLogNextFinish] = next == kNever ? 0.0f : L((next - state.now()) / c.mean_size);
  row[G::kSlots] = F(std::log(c.slots));
}

void FillWorkers(const Context& c, Observation* out) {
  const ClusterState& state = c.state;
  using W = WorkerFeature;
  for (int w = 0; w < state.num_workers(); ++w) {
    Row<W> row(&out->worker_features, kWorkerFeatures);
    const WorkerSpec& spec = state.worker(w);
    const WorkerLoad& load = state.loads()[w];
    row[W::kResidents] = F(static_cast<double>(load.residents) / spec.max_residents);
    row[W::kFreeMemory] = F(state.free_memory(w) / spec.memory_bytes);
    row[W::kMemory] = F(std::log(spec.memory_bytes / c.mean_memory));
    row[W::kSpeed] = F(std::log(spec.flops / c.mean_flops));
    row[W::kNextSpeed] = F(std::log(SpeedOf(spec, load.residents + 1) / c.mean_flops));
    row[W::kGamma] = F(spec.corun_gain);
    row[W::kBandwidth] = F(std::log(spec.bandwidth / c.mean_bandwidth));
    row[W::kCutJobs] = F(static_cast<double>(load.cut_jobs) / spec.max_residents);
    double least = kNever, most = -1;
    for (JobId id : state.residents(w)) {
      least = std::min(least, state.RemainingTime(id));
      most = std::max(most, state.RemainingTime(id));
    }
    if (most >= 0) {
      row[W::kFirstRemaining] = L(least / c.mean_size);
      row[W::kLastRemaining] = L(most / c.mean_size);
    }
    if (c.reserved[w] > state.now()) row[W::kReserved] = L(1 + (c.reserved[w] - state.now()) / c.mean_size);
    row[W::kClaims] = F(static_cast<double>(c.claims[w]) / spec.max_residents);
    row[W::kAvailable] = state.available(w) ? 1.0f : 0.0f;
  }
}

void FillJob(const Context& c, const JobView& view, Observation* out) {
  const ClusterState& state = c.state;
  const JobSpec& spec = *view.job->spec;
  using J = JobFeature;
  Row<J> row(&out->job_features, kJobFeatures);
  row[J::kLogSize] = L(view.size / c.mean_size);
  row[J::kLogSizeAbsolute] = L(view.size) / 10;
  row[J::kMemory] = L(spec.total_memory_bytes() / c.mean_memory);
  row[J::kLogAge] = F(std::log1p((state.now() - view.job->arrival) / std::max(view.size, 1e-3)));
  row[J::kSubgraphs] = F(std::log(spec.num_subgraphs()));
  row[J::kMicroBatches] = F(std::log(spec.micro_batches));
  row[J::kReplicas] = F(std::log(spec.replicas));
  for (int w = 0; w < state.num_workers(); ++w) {
    if (state.available(w) && spec.total_memory_bytes() <= state.worker(w).memory_bytes * (1 + 1e-9)) row[J::kFitsWhole] = 1;
  }
  row[J::kFitsNow] = view.candidates.empty() ? 0.0f : 1.0f;
  if (view.wait.seconds < kNever) row[J::kLogWait] = L(view.wait.seconds / std::max(view.size, 1e-3));
  row[J::kWaitsForWorker] = view.wait.worker >= 0 ? 1.0f : 0.0f;
  double bytes = 0;
  for (const ArcSpec& arc : spec.arcs) bytes += arc.bytes;
  row[J::kCutBytes] = L(bytes / (c.mean_bandwidth * view.best));
  row[J::kPreempted] = view.job->preemptions > 0 ? 1.0f : 0.0f;
  row[J::kDone] = F(state.IterationsDone(view.id) / state.job(view.id).iterations);
  row[J::kRank] = F(view.rank);
  row[J::kRunning] = view.running ? 1.0f : 0.0f;
}

// Appends one action with its features. `candidate` null: wait or preempt.
void AddAction(const Context& c, Action action, const JobView* view, int job_row, const Candidate* candidate, double advantage,
               bool legal, Observation* out) {
  const ClusterState& state = c.state;
  using A = CandidateFeature;
  Row<A> row(&out->action_features, kCandidateFeatures);
  Observation::Price price;
  std::vector<WorkerId> workers;
  switch (action.kind) {
    case Action::Kind::kWait:
      row[A::kIsWait] = 1;
      break;
    case Action::Kind::kPlace:
      row[A::kIsPlace] = 1;
      break;
    case Action::Kind::kMigrate:
      row[A::kIsMigrate] = 1;
      break;
    case Action::Kind::kPreempt:
      row[A::kIsPreempt] = 1;
      break;
  }
  if (view) {
    const double size = std::max(view->size, 1e-3);
    row[A::kJobRank] = F(view->rank);
    row[A::kLogAge] = F(std::log1p((state.now() - view->job->arrival) / size));
    row[A::kLogSize] = L(size / c.mean_size);
    row[A::kReplicas] = F(std::log(view->job->spec->replicas));
    price.best = view->size;
    price.wait = view->wait.seconds;
    workers =
        Distinct(candidate ? std::span<const WorkerId>(candidate->placement) : std::span<const WorkerId>(view->job->placement));
  }
  if (action.kind == Action::Kind::kPreempt) row[A::kFreed] = F(static_cast<double>(workers.size()) / c.slots);
  if (candidate) {
    const JobSpec& spec = *view->job->spec;
    const double own = std::max(candidate->own, 1e-3);
    const double size = std::max(view->size, 1e-3);
    price.own = candidate->own;
    row[A::kStretch] = F(std::clamp(std::log(own / size), -8.0, 16.0));
    row[A::kLogOwn] = L(own / c.mean_size);
    if (action.kind == Action::Kind::kPlace) {
      price.delay = InflictedDelay(state, *candidate);
      price.least_remaining = LeastRemainingTime(state, candidate->placement);
    }
    if (price.wait < kNever) {
      row[A::kLogWaitOverOwn] = L(price.wait / own);
      row[A::kHasWait] = 1;
      row[A::kCostOverWait] = L((own + price.delay) / std::max(price.wait, 1e-3));
    }
    row[A::kDelay] = F(std::log1p(std::max(0.0, price.delay) / own));
    if (price.least_remaining < kNever) {
      row[A::kOwnOverResident] = L(own / std::max(price.least_remaining, 1e-3));
      row[A::kShares] = 1;
    }
    row[A::kWorkersUsed] = F(std::log(static_cast<double>(workers.size())));
    double memory_left = 1, slots_left = 1, until = 0, fastest = 0, gamma = 0, shared = 0, compute = 0;
    for (WorkerId w : workers) {
      const WorkerSpec& worker = state.worker(w);
      const bool here =
          view->running && std::find(view->job->placement.begin(), view->job->placement.end(), w) != view->job->placement.end();
      const int n = state.loads()[w].residents + (here ? 0 : 1);
      const double freed = here ? MemoryAt(spec, view->job->placement, w) : 0;
      memory_left =
          std::min(memory_left, (state.free_memory(w) + freed - MemoryAt(spec, candidate->placement, w)) / worker.memory_bytes);
      slots_left = std::min(slots_left, static_cast<double>(worker.max_residents - n) / worker.max_residents);
      if (c.reserver[w] != view->id) until = std::max(until, c.reserved[w]);
      fastest = std::max(fastest, worker.flops);
      if (n > 1) {
        gamma += worker.corun_gain;
        ++shared;
      }
      double flop = 0;
      for (std::size_t i = 0; i < candidate->placement.size(); ++i) {
        if (candidate->placement[i] == w) flop += spec.subgraphs[i % spec.subgraphs.size()].flop / spec.replicas;
      }
      compute += flop / SpeedOf(worker, n);
    }
    // Share of the iteration that isn't computing; where branches overlap it may come out below 0.
    row[A::kCutShare] = F(workers.size() > 1 ? std::clamp(1 - compute / candidate->iteration_time, 0.0, 1.0) : 0.0);
    row[A::kMemoryLeft] = F(memory_left);
    row[A::kSlotsLeft] = F(slots_left);
    if (until > state.now()) row[A::kReservedUntil] = L(1 + (until - state.now()) / size);
    int faster = 0;
    for (int w = 0; w < state.num_workers(); ++w) faster += state.available(w) && state.worker(w).flops > fastest;
    row[A::kSpeedRank] = F(static_cast<double>(faster) / std::max(1, c.available));
    row[A::kAdvantage] = F(advantage);
    const double stop = state.StopSeconds(view->id, candidate->placement);
    row[A::kStop] = F(std::log1p(stop / own));
    row[A::kGamma] = F(shared > 0 ? gamma / shared : 0);
  }
  out->actions.push_back(std::move(action));
  out->mask.push_back(legal ? 1 : 0);
  out->action_job.push_back(job_row);
  out->action_workers.insert(out->action_workers.end(), workers.begin(), workers.end());
  out->action_worker_begin.push_back(static_cast<int>(out->action_workers.size()));
  out->prices.push_back(price);
}

double Stretch(const JobView& view, const Candidate& candidate) {
  return std::log(std::max(candidate.own, 1e-3) / std::max(view.size, 1e-3));
}

}  // namespace

void Observer::Observe(const ClusterState& state, Observation* out) {
  *out = Observation{};
  out->action_worker_begin.push_back(0);
  Context c{state};
  const int n = state.num_workers();
  double flops = 0, memory = 0, bandwidth = 0;
  for (int w = 0; w < n; ++w) {
    if (!state.available(w)) continue;
    ++c.available;
    flops += state.worker(w).flops;
    memory += state.worker(w).memory_bytes;
    bandwidth += state.worker(w).bandwidth;
  }
  if (c.available > 0) {
    c.mean_flops = flops / c.available;
    c.mean_memory = memory / c.available;
    c.mean_bandwidth = bandwidth / c.available;
  }
  c.slots = std::max(1, state.total_slots());
  c.reserved.assign(n, 0.0);
  c.reserver.assign(n, -1);
  c.claims.assign(n, 0);

  // Jobs: the waiting ones by N*, the first max_jobs of them; then the running ones.
  std::vector<JobView> views;
  double total_size = 0;
  auto view_of = [&](JobId id, bool running) {
    JobView view;
    view.id = id;
    view.job = &state.job(id);
    view.running = running;
    view.best = best_times_.Get(state, *view.job);
    if (view.best == kNever) view.best = WholeJobWork(*view.job->spec) / c.mean_flops;  // fits nowhere at present
    view.size = state.RemainingIterations(id) * view.best;
    total_size += view.size;
    return view;
  };
  for (JobId id : state.waiting()) views.push_back(view_of(id, false));
  std::stable_sort(views.begin(), views.end(), [](const JobView& a, const JobView& b) { return a.size < b.size; });
  const double waiting = static_cast<double>(views.size());
  for (std::size_t i = 0; i < views.size(); ++i) views[i].rank = static_cast<double>(i) / waiting;
  if (views.size() > static_cast<std::size_t>(options_.max_jobs)) views.resize(options_.max_jobs);
  const std::size_t num_waiting = views.size();
  for (JobId id : state.running()) views.push_back(view_of(id, true));
  const int live = state.num_jobs();
  c.mean_size = live > 0 ? std::max(total_size / live, 1e-3) : 1;

  // Candidates and wait estimates. As in the rule's pass, a job that had better wait reserves the worker it waits for, and later
  // jobs (in the size order) see that.
  for (std::size_t i = 0; i < num_waiting; ++i) {
    JobView& view = views[i];
    view.candidates = GenerateCandidates(state, view.id);
    if (state.running().empty()) continue;
    view.wait = EstimateWait(state, view.id, c.reserved);
    double cheapest = kNever;
    for (const Candidate& candidate : view.candidates) cheapest = std::min(cheapest, candidate.own);
    if (view.wait.worker >= 0 && cheapest > view.wait.seconds) {
      c.reserved[view.wait.worker] = state.now() + view.wait.seconds;
      c.reserver[view.wait.worker] = view.id;
      ++c.claims[view.wait.worker];
    }
  }

  // The actions: wait, then the candidates of least stretch.
  struct Entry {
    double stretch;
    std::size_t view, candidate;
  };
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < num_waiting; ++i) {
    for (std::size_t k = 0; k < views[i].candidates.size(); ++k)
      entries.push_back({Stretch(views[i], views[i].candidates[k]), i, k});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.stretch < b.stretch; });
  if (entries.size() > static_cast<std::size_t>(options_.max_candidates)) entries.resize(options_.max_candidates);
  const bool must_place = state.running().empty() && !entries.empty();
  AddAction(c, Action::Wait(), nullptr, -1, nullptr, 0, !must_place, out);
  for (const Entry& entry : entries) {
    const JobView& view = views[entry.view];
    const Candidate& candidate = view.candidates[entry.candidate];
    // Comparative advantage: against the least stretch of another job on the same workers.
    double other = kNever;
    const std::vector<WorkerId> workers = Distinct(candidate.placement);
    for (const Entry& rival : entries) {
      if (rival.view == entry.view || rival.stretch >= other) continue;
      if (Distinct(views[rival.view].candidates[rival.candidate].placement) == workers) other = rival.stretch;
    }
    AddAction(c, Action::Place(view.id, candidate.placement), &view, static_cast<int>(entry.view), &candidate,
              other < kNever ? entry.stretch - other : 0, true, out);
  }
  for (std::size_t i = num_waiting; i < views.size(); ++i) {
    const JobView& view = views[i];
    if (options_.preempt) AddAction(c, Action::Preempt(view.id), &view, static_cast<int>(i), nullptr, 0, true, out);
    for (int w = 0; w < n && options_.migrate && view.job->spec->replicas == 1; ++w) {
      Candidate move{view.id, Placement(view.job->spec->subgraphs.size(), w), 0, 0, 1};
      if (move.placement == view.job->placement || !state.CanPlace(view.id, move.placement)) continue;
      move.iteration_time = state.IterationTimeIfPlaced(view.id, move.placement);
      move.own = state.RemainingIterations(view.id) * move.iteration_time + state.StopSeconds(view.id, move.placement);
      if (move.own >= state.RemainingTime(view.id)) continue;  // never worth it
      Action action = Action::Migrate(view.id, move.placement);
      AddAction(c, std::move(action), &view, static_cast<int>(i), &move, 0, true, out);
    }
  }
  for (const JobView& view : views) {
    out->job_ids.push_back(view.id);
    FillJob(c, view, out);
  }
  FillWorkers(c, out);
  FillGlobal(c, out);
}

namespace {
std::vector<std::string> Checked(std::vector<std::string> names, int count) {
  WEIR_CHECK_EQ(static_cast<int>(names.size()), count);
  return names;
}
}  // namespace

const std::vector<std::string>& GlobalFeatureNames() {
  static const std::vector<std::string> names = Checked({"waiting_per_slot", "running_per_slot", "free_workers", "offered_load",
                                                         "log_gap", "free_memory", "log_next_finish", "slots"},
                                                        kGlobalFeatures);
  return names;
}
const std::vector<std::string>& WorkerFeatureNames() {
  static const std::vector<std::string> names =
      Checked({"residents", "free_memory", "memory", "speed", "next_speed", "gamma", "bandwidth", "cut_jobs", "first_remaining",
               "last_remaining", "reserved", "claims", "available"},
              kWorkerFeatures);
  return names;
}
const std::vector<std::string>& JobFeatureNames() {
  static const std::vector<std::string> names =
      Checked({"log_size", "log_size_absolute", "memory", "log_age", "subgraphs", "micro_batches", "replicas", "fits_whole",
               "fits_now", "log_wait", "waits_for_worker", "cut_bytes", "preempted", "done", "rank", "running"},
              kJobFeatures);
  return names;
}
const std::vector<std::string>& CandidateFeatureNames() {
  static const std::vector<std::string> names = Checked(
      {"is_wait",     "is_place",   "is_migrate",     "is_preempt",        "stretch",   "log_own",      "log_wait_over_own",
       "has_wait",    "delay",      "cost_over_wait", "own_over_resident", "shares",    "workers_used", "cut_share",
       "memory_left", "slots_left", "reserved_until", "speed_rank",        "advantage", "job_rank",     "log_age",
       "log_size",    "stop",       "gamma",          "replicas",          "freed"},
      kCandidateFeatures);
  return names;
}

}  // namespace weir
