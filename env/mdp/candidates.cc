#include "env/mdp/candidates.h"

#include <algorithm>
#include <array>

#include "env/core/check.h"

namespace weir {
namespace {

constexpr double kMemorySlack = 1e-9;  // as ClusterState's

int CountDistinct(std::span<const WorkerId> placement) {
  int count = 0;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    bool first = true;
    for (std::size_t j = 0; j < i; ++j) first = first && placement[j] != placement[i];
    count += first;
  }
  return count;
}

// Generates the candidates of one job. Every count is taken as n+1, c+1, whatever the placement: only the job's own workers are
// read.
class Generator {
 public:
  Generator(const ClusterState& state, const LiveJob& job, bool wide)
      : state_(state),
        job_(job),
        spec_(*job.spec),
        k_(job.spec->num_subgraphs()),
        wide_(wide),
        left_(state.RemainingIterations(job.id)) {
    const int n = state.num_workers();
    loads_.resize(n);
    std::vector<std::pair<double, WorkerId>> order;
    for (int w = 0; w < n; ++w) {
      loads_[w] = state.LoadWith(w, job);
      if (state.free_residencies(w) > 0) order.emplace_back(-SpeedOf(state.worker(w), loads_[w], state.options()), w);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [speed, w] : order) {
      free_.push_back(w);
      room_.push_back(state.free_memory(w) + kMemorySlack * state.worker(w).memory_bytes);
    }
  }

  std::vector<Candidate> Run() {
    if (spec_.replicas > 1) {
      Replicas();
      return std::move(found_);
    }
    Whole();
    if (k_ >= 2) Pairs();
    if (k_ >= 3 && (wide_ || found_.empty())) Beam(found_.empty() ? free_.size() : 8);
    if (found_.empty() && state_.running().empty()) FirstFit();
    return std::move(found_);
  }

 private:
  double Time(std::span<const WorkerId> placement) const {
    return job_.time_factor * IterationTime(spec_, placement, state_.workers(), loads_, state_.options());
  }
  void Add(Placement placement, double time, int workers_used) {
    least_ = std::min(least_, time);
    const double stop = job_.needs_reload ? state_.StopSeconds(job_.id, placement) : 0;
    found_.push_back({job_.id, std::move(placement), time, left_ * time + stop, workers_used});
  }

  void Whole() {
    const double memory = spec_.total_memory_bytes(), work = WholeJobWork(spec_);
    for (std::size_t i = 0; i < free_.size(); ++i) {
      if (memory > room_[i]) continue;
      const WorkerId w = free_[i];
      Placement placement(k_, w);
      const double time = state_.options().physical
                              ? Time(placement)
                              : job_.time_factor * work / SpeedOf(state_.worker(w), loads_[w], state_.options());
      Add(std::move(placement), time, 1);
    }
  }

  void Pairs() {
    const std::size_t most = std::min<std::size_t>(free_.size(), wide_ ? 8 : 4);
    std::vector<double> before(k_ + 1, 0);  // memory of the first q
    for (int i = 0; i < k_; ++i) before[i + 1] = before[i] + spec_.subgraphs[i].memory_bytes;
    Placement placement(k_);
    const double m = spec_.micro_batches;
    const auto nic = [&](std::size_t f) { return state_.worker(free_[f]).bandwidth / loads_[free_[f]].cut_jobs; };
    for (int q = 1; q < k_; ++q) {
      // Communication alone bounds T from below: most pairs fall without being priced.
      double cut = 0, largest = 0;
      for (const ArcSpec& arc : spec_.arcs) {
        if (arc.from >= q || arc.to < q) continue;
        cut += arc.bytes;
        largest = std::max(largest, arc.bytes);
      }
      const double moved =
          (2 * largest + (m - 1) * (state_.options().physical ? 1 : 2) * cut) / m * job_.time_factor * (1 - 1e-9);
      for (std::size_t x = 0; x < most; ++x) {
        if (before[q] > room_[x]) continue;
        for (std::size_t y = 0; y < most; ++y) {
          if (x == y || before[k_] - before[q] > room_[y]) continue;
          if (moved >= 1.3 * least_ * std::min(nic(x), nic(y))) continue;
          std::fill(placement.begin(), placement.begin() + q, free_[x]);
          std::fill(placement.begin() + q, placement.end(), free_[y]);
          const double time = Time(placement);
          if (time < 1.3 * least_) Add(placement, time, 2);
        }
      }
    }
  }

  void Beam(std::size_t most) {
    most = std::min(most, free_.size());
    const std::size_t width = wide_ ? 12 : 4;
    // A state of depth i is i workers in a row of `rows`, k_ wide; `longer` holds (T, parent, worker) in the order of generation.
    struct Longer {
      double time;
      std::size_t parent, at;
    };
    std::vector<WorkerId> rows(width * k_), next_rows(width * k_), trial(k_);
    std::vector<double> times(1, 0.0);
    std::vector<Longer> longer;
    for (int i = 0; i < k_; ++i) {
      longer.clear();
      for (std::size_t parent = 0; parent < times.size(); ++parent) {
        std::copy_n(rows.begin() + parent * k_, i, trial.begin());
        for (std::size_t f = 0; f < most; ++f) {
          double need = spec_.subgraphs[i].memory_bytes;
          for (int j = 0; j < i; ++j) need += trial[j] == free_[f] ? spec_.subgraphs[j].memory_bytes : 0;
          if (need > room_[f]) continue;
          trial[i] = free_[f];
          longer.push_back({Time(std::span(trial).first(i + 1)), parent, f});
        }
      }
      std::stable_sort(longer.begin(), longer.end(), [](const Longer& a, const Longer& b) { return a.time < b.time; });
      if (longer.size() > width) longer.resize(width);
      times.resize(longer.size());
      for (std::size_t n = 0; n < longer.size(); ++n) {
        std::copy_n(rows.begin() + longer[n].parent * k_, i, next_rows.begin() + n * k_);
        next_rows[n * k_ + i] = free_[longer[n].at];
        times[n] = longer[n].time;
      }
      std::swap(rows, next_rows);
    }
    for (std::size_t n = 0; n < times.size(); ++n) {
      Placement placement(rows.begin() + n * k_, rows.begin() + (n + 1) * k_);
      const int used = CountDistinct(placement);
      Add(std::move(placement), times[n], used);
    }
  }

  void FirstFit() {
    Placement placement(k_);
    std::vector<double> room = room_;
    int effort = 100000;
    auto search = [&](auto&& self, int i) -> bool {
      if (i == k_) return true;
      for (std::size_t f = 0; f < free_.size(); ++f) {
        if (room[f] < spec_.subgraphs[i].memory_bytes) continue;
        if (--effort < 0) return false;
        const double before = room[f];
        room[f] -= spec_.subgraphs[i].memory_bytes;
        placement[i] = free_[f];
        if (self(self, i + 1)) return true;
        room[f] = before;
      }
      return false;
    };
    if (!search(search, 0)) return;
    const double time = Time(placement);
    const int used = CountDistinct(placement);
    Add(std::move(placement), time, used);
  }

  void Replicas() {
    Placement placement;
    int rows = 0;
    const double memory = spec_.total_memory_bytes();
    for (std::size_t f = 0; f < free_.size() && rows < spec_.replicas; ++f) {
      if (memory > room_[f]) continue;
      placement.insert(placement.end(), k_, free_[f]);
      ++rows;
    }
    if (rows < spec_.replicas) return;
    const double time = Time(placement);
    Add(std::move(placement), time, rows);
  }

  const ClusterState& state_;
  const LiveJob& job_;
  const JobSpec& spec_;
  int k_;
  bool wide_;
  double left_;
  std::vector<WorkerLoad> loads_;
  std::vector<WorkerId> free_;  // fastest speed(n+1) first
  std::vector<double> room_;    // free memory, parallel to free_
  double least_ = kNever;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> GenerateCandidates(const ClusterState& state, JobId job, bool wide) {
  return Generator(state, state.job(job), wide).Run();
}

// ---- Prices

namespace {

// The running jobs that share a worker with the placement, ascending.
void CollectNeighbours(const ClusterState& state, std::span<const WorkerId> placement, std::vector<JobId>* out) {
  for (WorkerId w : placement) {
    for (JobId id : state.residents(w)) {
      if (std::find(out->begin(), out->end(), id) == out->end()) out->push_back(id);
    }
  }
}

void AddLoads(const JobSpec& job, std::span<const WorkerId> placement, int count, std::vector<WorkerLoad>* loads) {
  for (std::size_t i = 0; i < placement.size(); ++i) {
    const WorkerId w = placement[i];
    bool first = true;
    for (std::size_t j = 0; j < i; ++j) first = first && placement[j] != w;
    if (!first) continue;
    (*loads)[w].residents += count;
    bool cut = job.replicas > 1;
    for (const ArcSpec& arc : job.arcs) cut = cut || (placement[arc.from] == w) != (placement[arc.to] == w);
    if (cut) (*loads)[w].cut_jobs += count;
  }
}

}  // namespace

double InflictedDelay(const ClusterState& state, const Candidate& candidate) {
  std::vector<JobId> neighbours;
  CollectNeighbours(state, candidate.placement, &neighbours);
  if (neighbours.empty()) return 0;
  std::vector<WorkerLoad> loads(state.loads().begin(), state.loads().end());
  const LiveJob& added = state.job(candidate.job);
  AddLoads(*added.spec, candidate.placement, 1, &loads);
  if (state.options().corun) {
    for (WorkerId w : candidate.placement) loads[w].gain_sum = state.PairGains(w, -1, &added);
  }
  double delay = 0;
  for (JobId id : neighbours) {
    const LiveJob& r = state.job(id);
    const double slower = r.time_factor * IterationTime(*r.spec, r.placement, state.workers(), loads, state.options());
    delay += std::min(state.RemainingIterations(id), candidate.own / slower) * (slower - r.iteration_time);
  }
  return delay;
}

namespace {

struct Runner {
  const JobSpec* spec;
  std::span<const WorkerId> placement;
  double left;   // iterations
  double still;  // seconds until it moves (again)
  double factor;
  double time;  // T
  bool candidate;
  int corun_class;
};

// Pair gains of w with these runners there. They are all who are.
double PairGainsOf(const ClusterState& state, WorkerId w, const std::vector<Runner>& runners) {
  double sum = 0;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (std::find(runners[i].placement.begin(), runners[i].placement.end(), w) == runners[i].placement.end()) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (std::find(runners[j].placement.begin(), runners[j].placement.end(), w) == runners[j].placement.end()) continue;
      sum += state.options().corun->Gain(runners[i].corun_class, runners[j].corun_class, state.worker(w).corun_gain);
    }
  }
  return sum;
}

// Runs all to their end; returns the sum of finishes (from now) of the others and, through `own`, the candidate's.
double RunToEnd(const ClusterState& state, std::vector<Runner> runners, std::vector<WorkerLoad> loads, double* own) {
  double now = 0, sum = 0;
  if (state.options().corun) {
    for (const Runner& r : runners) {
      for (WorkerId w : r.placement) loads[w].gain_sum = PairGainsOf(state, w, runners);
    }
  }
  auto refresh = [&](Runner& r) {
    r.time = r.factor * IterationTime(*r.spec, r.placement, state.workers(), loads, state.options());
  };
  for (Runner& r : runners) refresh(r);
  while (!runners.empty()) {
    std::size_t first = 0;
    double least = kNever;
    for (std::size_t i = 0; i < runners.size(); ++i) {
      const double finish = runners[i].still + runners[i].left * runners[i].time;
      if (finish < least) {
        least = finish;
        first = i;
      }
    }
    now += least;
    for (Runner& r : runners) {
      const double moving = least - r.still;
      r.still = std::max(0.0, -moving);
      if (moving > 0) r.left = std::max(0.0, r.left - moving / r.time);
    }
    const Runner gone = runners[first];
    runners.erase(runners.begin() + static_cast<std::ptrdiff_t>(first));
    (gone.candidate ? *own : sum) += now;
    AddLoads(*gone.spec, gone.placement, -1, &loads);
    if (state.options().corun) {
      for (WorkerId w : gone.placement) loads[w].gain_sum = PairGainsOf(state, w, runners);
    }
    for (Runner& r : runners) {
      bool touched = false;
      for (WorkerId w : r.placement)
        touched = touched || std::find(gone.placement.begin(), gone.placement.end(), w) != gone.placement.end();
      if (touched) refresh(r);
    }
  }
  return sum;
}

}  // namespace

Projection Project(const ClusterState& state, const Candidate& candidate) {
  Projection result{candidate.own, 0};
  std::vector<JobId> connected;
  CollectNeighbours(state, candidate.placement, &connected);
  if (connected.empty()) return result;
  for (std::size_t i = 0; i < connected.size(); ++i) CollectNeighbours(state, state.job(connected[i]).placement, &connected);
  std::vector<Runner> runners;
  for (JobId id : connected) {
    const LiveJob& r = state.job(id);
    runners.push_back({r.spec.get(), r.placement, state.RemainingIterations(id), std::max(0.0, r.resume_at - state.now()),
                       r.time_factor, 0, false, r.corun_class});
  }
  std::vector<WorkerLoad> loads(state.loads().begin(), state.loads().end());
  double none = 0;
  const double without = RunToEnd(state, runners, loads, &none);
  const LiveJob& job = state.job(candidate.job);
  AddLoads(*job.spec, candidate.placement, 1, &loads);
  const double left = state.RemainingIterations(candidate.job);
  runners.push_back({job.spec.get(), candidate.placement, left, std::max(0.0, candidate.own - left * candidate.iteration_time),
                     job.time_factor, 0, true, job.corun_class});
  result.own = 0;
  const double with = RunToEnd(state, std::move(runners), std::move(loads), &result.own);
  result.delay = std::max(0.0, with - without);
  return result;
}

MoveProjection ProjectMove(const ClusterState& state, JobId id, std::span<const WorkerId> target) {
  const LiveJob& job = state.job(id);
  std::vector<JobId> connected;
  CollectNeighbours(state, job.placement, &connected);
  CollectNeighbours(state, target, &connected);
  for (std::size_t i = 0; i < connected.size(); ++i) CollectNeighbours(state, state.job(connected[i]).placement, &connected);
  std::vector<Runner> runners;
  std::size_t own = 0;
  for (JobId other : connected) {
    const LiveJob& r = state.job(other);
    if (other == id) own = runners.size();
    runners.push_back({r.spec.get(), r.placement, state.RemainingIterations(other), std::max(0.0, r.resume_at - state.now()),
                       r.time_factor, 0, false, r.corun_class});
  }
  std::vector<WorkerLoad> loads(state.loads().begin(), state.loads().end());
  MoveProjection projection;
  double none = 0;
  projection.before = RunToEnd(state, runners, loads, &none);
  AddLoads(*job.spec, job.placement, -1, &loads);
  AddLoads(*job.spec, target, 1, &loads);
  runners[own].placement = target;
  runners[own].still = state.StopSeconds(id, target);
  runners[own].candidate = true;
  projection.after = RunToEnd(state, std::move(runners), std::move(loads), &projection.finish);
  projection.after += projection.finish;
  return projection;
}

WaitEstimate EstimateWait(const ClusterState& state, JobId id, std::span<const SimTime> reserved, bool wide) {
  constexpr int kDepartures = 6;
  const LiveJob& job = state.job(id);
  const JobSpec& spec = *job.spec;
  const double left = state.RemainingIterations(id), memory = spec.total_memory_bytes(),
               work = job.time_factor * WholeJobWork(spec);
  WaitEstimate best;
  bool holds = false;  // some busy worker could hold the job whole
  struct Departure {
    SimTime finish;
    double bytes;
    JobId id;
    bool operator<(const Departure& other) const { return std::pair(finish, bytes) < std::pair(other.finish, other.bytes); }
  };
  std::vector<Departure> departures;
  for (int w = 0; w < state.num_workers() && spec.replicas == 1; ++w) {
    if (state.residents(w).empty() || !state.available(w)) continue;
    const double slack = kMemorySlack * state.worker(w).memory_bytes;
    if (memory > state.worker(w).memory_bytes + slack) continue;
    holds = true;
    departures.clear();
    for (JobId r : state.residents(w)) {
      const LiveJob& resident = state.job(r);
      double bytes = 0;
      for (std::size_t i = 0; i < resident.placement.size(); ++i) {
        if (resident.placement[i] == w) bytes += resident.spec->subgraphs[i % resident.spec->subgraphs.size()].memory_bytes;
      }
      departures.push_back({state.PredictedFinish(r), bytes, r});
    }
    std::sort(departures.begin(), departures.end());
    double free = state.free_memory(w);
    int n = state.loads()[w].residents;
    for (std::size_t i = 0; i < departures.size(); ++i) {
      free += departures[i].bytes;
      --n;
      if (memory > free + slack) continue;
      const SimTime finish = departures[i].finish, until = reserved.empty() ? finish : std::max(finish, reserved[w]);
      double speed = SpeedOf(state.worker(w), n + 1);
      if (state.options().corun && n > 0) {  // beside those that are still there then
        WorkerLoad load{n + 1, 0, 0};
        for (std::size_t a = i + 1; a <= departures.size(); ++a) {
          const int one = a < departures.size() ? state.job(departures[a].id).corun_class : job.corun_class;
          for (std::size_t b = i + 1; b < a; ++b) {
            load.gain_sum +=
                state.options().corun->Gain(one, state.job(departures[b].id).corun_class, state.worker(w).corun_gain);
          }
        }
        speed = SpeedOf(state.worker(w), load, state.options());
      }
      const double seconds = until - state.now() + left * work / speed;
      if (seconds < best.seconds) best = {seconds, w};
    }
  }
  if (holds) return best;
  ClusterState later = state;
  for (int i = 0; i < kDepartures && !later.running().empty(); ++i) {
    const SimTime finish = later.NextEventTime();
    later.AdvanceTo(finish);
    for (JobId gone : later.CompletedJobs()) later.Finish(gone);
    for (const Candidate& candidate : GenerateCandidates(later, id, wide)) {
      best.seconds = std::min(best.seconds, finish - state.now() + candidate.own);
    }
  }
  return best;
}

double LeastRemainingTime(const ClusterState& state, std::span<const WorkerId> placement) {
  double least = kNever;
  for (WorkerId w : placement) {
    for (JobId id : state.residents(w)) least = std::min(least, state.RemainingTime(id));
  }
  return least;
}

}  // namespace weir
