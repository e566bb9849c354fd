#include "agent/baselines/preempting.h"

#include <algorithm>
#include <optional>

namespace weir {
namespace {

int DistinctWorkers(const Placement& placement) {
  Placement sorted = placement;
  std::sort(sorted.begin(), sorted.end());
  return static_cast<int>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
}

bool Contains(const Placement& placement, WorkerId w) {
  return std::find(placement.begin(), placement.end(), w) != placement.end();
}

double MemoryOn(const LiveJob& job, WorkerId w) {
  double bytes = 0;
  for (std::size_t i = 0; i < job.placement.size(); ++i) {
    if (job.placement[i] == w) bytes += job.spec->subgraphs[i % job.spec->subgraphs.size()].memory_bytes;
  }
  return bytes;
}

// Reload of a running job over the slowest NIC that it has now: where it will start again isn't known.
double ReloadSeconds(const ClusterState& state, const LiveJob& job) {
  double slowest = kNever;
  for (WorkerId w : job.placement) slowest = std::min(slowest, state.worker(w).bandwidth);
  return job.spec->total_memory_bytes() * job.spec->replicas / slowest + state.options().restart_seconds;
}

std::optional<Placement> LeastOwn(const ClusterState& state, JobId id) {
  std::vector<Candidate> candidates = GenerateCandidates(state, id, true);
  if (candidates.empty()) return std::nullopt;
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const Candidate& a, const Candidate& b) { return a.own < b.own; });
  return std::move(best->placement);
}

// Cheap and necessary for PlacementWithout: the memory that is free once r is gone holds the job's largest subgraph, and all of
// it.
bool CouldHelp(const ClusterState& state, const LiveJob& r, const JobSpec& job) {
  double largest = 0, all = 0, need = 0;
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    const double freed = MemoryOn(r, w);
    if (!state.available(w) || (state.free_residencies(w) == 0 && freed == 0 && !Contains(r.placement, w))) continue;
    const double room = state.free_memory(w) + freed + 1e-9 * state.worker(w).memory_bytes;
    largest = std::max(largest, room);
    all += room;
  }
  for (const SubgraphSpec& s : job.subgraphs) need = std::max(need, s.memory_bytes);
  return need <= largest && job.total_memory_bytes() * job.replicas <= all;
}

// Where the job could start at once were `r` preempted.
std::optional<Placement> PlacementWithout(const ClusterState& state, JobId r, JobId job) {
  ClusterState without = state;
  without.Preempt(r);
  return LeastOwn(without, job);
}

}  // namespace

PreemptingRuleOptions TunedPreemptingRule() {
  PreemptingRuleOptions options{HandSetRule(), {}};
  options.rule.alpha = 2.813;
  options.rule.kappa = 2.152;
  options.rule.chi = 57.41;
  options.rule.claim = 0.9004;
  options.rule.delta = 31.58;
  options.rule.split = 0.1335;
  options.rule.beta = 0.002178;
  options.rule.press = 0.01383;
  options.rule.pmem = -0.02441;
  options.rule.aging = 0.4906;
  options.preempt.phi = 0.542;
  options.preempt.mu = 0.8636;
  options.preempt.eta = 0.5133;
  return options;
}

void PreemptingRule::Reset() {
  base_.Reset();
  phase_ = Phase::kPass;
  taken_ = 0;
  planned_.clear();
}

void PreemptingRule::PlanPreemption(const ClusterState& state) {
  double greatest = 0;
  std::vector<JobId> waiting = base_.OrderOf(state);
  waiting.resize(std::min<std::size_t>(waiting.size(), options_.first_waiting));
  for (JobId id : waiting) {
    const LiveJob& job = state.job(id);
    const JobSpec& spec = *job.spec;
    if (spec.replicas > 1) continue;
    const double left = state.RemainingIterations(id), memory = spec.total_memory_bytes();
    const double work = state.options().physical ? std::max(WholeJobWork(spec), spec.total_flop()) : WholeJobWork(spec);
    double wait = -1;  // W, found only where it is needed
    for (JobId r : state.running()) {
      const LiveJob& running = state.job(r);
      const double reload = ReloadSeconds(state, running), remaining = state.RemainingTime(r);
      for (std::size_t i = 0; i < running.placement.size(); ++i) {
        const WorkerId x = running.placement[i];
        if (std::find(running.placement.begin(), running.placement.begin() + static_cast<std::ptrdiff_t>(i), x) !=
            running.placement.begin() + static_cast<std::ptrdiff_t>(i)) {
          continue;
        }
        const WorkerSpec& worker = state.worker(x);
        if (!state.available(x) || memory > state.free_memory(x) + MemoryOn(running, x) + 1e-9 * worker.memory_bytes) continue;
        if (state.loads()[x].residents > worker.max_residents) continue;
        // j takes the place of r: as many residents as now.
        const WorkerLoad load{state.loads()[x].residents, 0, state.PairGains(x, r, &job)};
        double d = left * job.time_factor * work / SpeedOf(worker, load, state.options());
        if (job.needs_reload) d += memory / worker.bandwidth + state.options().restart_seconds;
        if (d > remaining) continue;
        if (wait < 0) wait = std::min(1e18, EstimateWait(state, id, {}, base_.options().wide).seconds);
        const double gain = wait - d - options_.phi * (d + reload);
        if (gain <= greatest) continue;
        greatest = gain;
        planned_ = {Action::Place(id, Placement(spec.subgraphs.size(), x)), Action::Preempt(r)};
      }
    }
  }
}

Action PreemptingRule::BestMove(const ClusterState& state) const {
  double greatest = 0;
  Action best;
  for (JobId id : state.running()) {
    const LiveJob& job = state.job(id);
    const double remaining = state.RemainingTime(id);
    if (remaining < options_.least_left || job.spec->replicas > 1) continue;
    const double left = state.RemainingIterations(id);
    Placement target(job.placement.size());
    for (WorkerId w = 0; w < state.num_workers(); ++w) {
      std::fill(target.begin(), target.end(), w);
      if (job.placement == target || state.free_residencies(w) == 0) continue;
      if (job.spec->total_memory_bytes() > state.free_memory(w) + MemoryOn(job, w) + 1e-9 * state.worker(w).memory_bytes)
        continue;
      const double stop = state.StopSeconds(id, target);
      if (stop + left * state.IterationTimeIfPlaced(id, target) >= options_.finish_below * remaining) continue;
      if (state.WhyIllegal(Action::Migrate(id, target))) continue;
      const MoveProjection move = ProjectMove(state, id, target);
      const double gain = move.before - move.after - options_.mu * stop - options_.eta * move.finish;
      if (gain <= greatest) continue;
      greatest = gain;
      best = Action::Migrate(id, target);
    }
  }
  return best;
}

Action PreemptingRule::Decide(const ClusterState& state) {
  if (!planned_.empty()) {
    Action next = std::move(planned_.back());
    planned_.pop_back();
    return next;
  }
  if (phase_ == Phase::kPass) {
    Action next = base_.Decide(state);
    if (next.kind != Action::Kind::kWait) return next;
    phase_ = Phase::kPreempt;
    taken_ = 0;
  }
  if (phase_ == Phase::kPreempt) {
    if (taken_++ < options_.preempts) PlanPreemption(state);
    if (!planned_.empty()) return Decide(state);
    phase_ = Phase::kMove;
    taken_ = 0;
  }
  if (taken_++ < options_.moves) {
    Action move = BestMove(state);
    if (move.kind != Action::Kind::kWait) return move;
  }
  phase_ = Phase::kPass;
  return Action::Wait();
}

Action SrptScheduler::Decide(const ClusterState& state) {
  if (!planned_.empty()) {
    Action next = std::move(planned_.back());
    planned_.pop_back();
    return next;
  }
  const auto remaining = [&](JobId id) { return state.RemainingIterations(id) * best_times_.Get(state, state.job(id)); };
  std::vector<std::pair<double, JobId>> waiting, running;
  for (JobId id : state.waiting()) waiting.emplace_back(remaining(id), id);
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (state.AnyFreeResidency()) {
    for (const auto& [r, id] : waiting) {
      if (auto placement = LeastOwn(state, id)) return Action::Place(id, std::move(*placement));
    }
  }
  // What waits now fits nowhere.
  for (JobId id : state.running()) running.emplace_back(-remaining(id), id);
  std::sort(running.begin(), running.end());
  constexpr std::size_t kLookedAt = 3;
  waiting.resize(std::min(kLookedAt, waiting.size()));
  for (const auto& [least, id] : waiting) {
    for (const auto& [negative, r] : running) {
      const LiveJob& job = state.job(r);
      if (-negative <= least) break;
      if (-negative <= least + ReloadSeconds(state, job) || !CouldHelp(state, job, *state.job(id).spec)) continue;
      if (auto placement = PlacementWithout(state, r, id)) {
        planned_ = {Action::Place(id, std::move(*placement))};
        return Action::Preempt(r);
      }
    }
  }
  return Action::Wait();
}

void LasScheduler::Reset() {
  accounted_ = 0;
  area_.clear();
  width_.clear();
  planned_.clear();
}

void LasScheduler::Account(const ClusterState& state) {
  const double elapsed = state.now() - accounted_;
  accounted_ = state.now();
  if (elapsed <= 0) return;
  for (const auto& [id, workers] : width_) {
    if (!state.HasJob(id)) continue;
    const auto at =
        std::lower_bound(area_.begin(), area_.end(), id, [](const auto& a, JobId wanted) { return a.first < wanted; });
    if (at != area_.end() && at->first == id) {
      at->second += workers * elapsed;
    } else {
      area_.insert(at, {id, workers * elapsed});
    }
  }
  std::erase_if(area_, [&](const auto& entry) { return !state.HasJob(entry.first); });
}

double LasScheduler::Attained(const ClusterState& state, JobId id) const {
  if (!by_area_) return state.RunSeconds(id);
  const auto at = std::lower_bound(area_.begin(), area_.end(), id, [](const auto& a, JobId wanted) { return a.first < wanted; });
  return at != area_.end() && at->first == id ? at->second : 0;
}

Action LasScheduler::Decide(const ClusterState& state) {
  if (by_area_) Account(state);
  Action next;
  if (!planned_.empty()) {
    next = std::move(planned_.back());
    planned_.pop_back();
    return next;
  }
  for (const bool first : {true, false}) {
    for (JobId id : state.waiting()) {
      if ((Attained(state, id) <= threshold_) != first || !state.AnyFreeResidency()) continue;
      if (auto placement = LeastOwn(state, id)) return Action::Place(id, std::move(*placement));
    }
    if (!first) break;
    std::vector<std::pair<double, JobId>> victims;
    for (JobId r : state.running()) {
      if (Attained(state, r) > threshold_) victims.emplace_back(-Attained(state, r), r);
    }
    std::sort(victims.begin(), victims.end());
    for (JobId id : state.waiting()) {
      if (Attained(state, id) > threshold_) continue;
      for (const auto& [attained, r] : victims) {
        if (!CouldHelp(state, state.job(r), *state.job(id).spec)) continue;
        if (auto placement = PlacementWithout(state, r, id)) {
          planned_ = {Action::Place(id, std::move(*placement))};
          return Action::Preempt(r);
        }
      }
    }
  }
  if (by_area_) {
    width_.clear();
    for (JobId id : state.running()) width_.emplace_back(id, DistinctWorkers(state.job(id).placement));
  }
  return Action::Wait();
}

}  // namespace weir
