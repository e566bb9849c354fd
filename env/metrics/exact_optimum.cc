#include "env/metrics/exact_optimum.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "env/metrics/bounds.h"
#include "env/sim/best_time.h"

namespace weir {
namespace {

class Search {
 public:
  Search(const std::vector<WorkerSpec>& workers, const Workload& jobs, const ModelOptions& options, long max_nodes)
      : jobs_(jobs), options_(options), max_nodes_(max_nodes), fastest_(workers) {
    for (WorkerSpec& worker : fastest_) {
      const GreatestSpeed speed = GreatestSpeedOf(worker, options);
      worker.flops = speed.one;
      capacity_ += speed.all;
    }
    const ClusterState empty(fastest_, options);
    for (const auto& job : jobs) {
      bool exact = false;
      double best = BestAloneTime(empty, *job, &exact);
      if (!exact) best = AloneTimeBound(fastest_, *job);
      const double m = job->micro_batches;
      const double size = job->total_flop() * (1 / (m * LargestAntichain(*job)) + (m - 1) / m) / capacity_;
      facts_[job->id] = {best, size, job.get()};
    }
  }

  ExactOptimum Run(Simulator start) {
    result_.lower_bound = Bound(start);
    if (start.Advance()) {
      Decide(start, 0);
    }
    result_.proven = result_.nodes <= max_nodes_;
    if (result_.proven) result_.lower_bound = least_;
    const double n = std::max<double>(1, static_cast<double>(jobs_.size()));
    result_.lower_bound /= n;
    result_.mean_jct = least_ / n;
    return std::move(result_);
  }

 private:
  struct Facts {
    double best = 0;  // T*
    double size = 0;  // seconds of the whole cluster an iteration
    const JobSpec* spec = nullptr;
  };

  // Least sum of JCT of every schedule that goes on from here.
  double Bound(const Simulator& simulator) const {
    const ClusterState& state = simulator.state();
    double alone = 0;
    std::vector<MachineJob> machine;
    for (const auto& job : jobs_) {
      const Facts& facts = facts_.at(job->id);
      double left = job->iterations, fastest = facts.best;
      SimTime release = job->arrival;
      if (state.HasJob(job->id)) {
        const LiveJob& live = state.job(job->id);
        left = state.RemainingIterations(job->id);
        // It never moves again: at best it has its workers to itself from now on.
        if (live.running()) fastest = IterationTimeAlone(*job, live.placement, fastest_, options_);
        release = state.now();
      } else if (job->arrival <= state.now() && started_) {
        continue;  // finished
      }
      alone += left * fastest;
      if (left > 0) machine.push_back({release, left * facts.size});
    }
    return simulator.job_seconds() + std::max(alone, SrptFlowTime(std::move(machine)));
  }

  // All placements of the job that are legal now, least own first.
  std::vector<Placement> Placements(const ClusterState& state, const JobSpec& job) const {
    std::vector<std::pair<double, Placement>> found;
    Placement placement(job.subgraphs.size() * job.replicas);
    auto place = [&](auto&& self, std::size_t i) -> void {
      if (i == placement.size()) {
        if (state.CanPlace(job.id, placement)) found.emplace_back(state.IterationTimeIfPlaced(job.id, placement), placement);
        return;
      }
      for (WorkerId w = 0; w < state.num_workers(); ++w) {
        if (state.free_residencies(w) == 0 || HasFreshTwin(state, placement, i, w)) continue;
        placement[i] = w;
        self(self, i + 1);
      }
    };
    place(place, 0);
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Placement> sorted;
    for (auto& [time, p] : found) sorted.push_back(std::move(p));
    return sorted;
  }

  // Of workers that are equal, empty and not used by the first `used` entries, the first stands for all.
  static bool HasFreshTwin(const ClusterState& state, const Placement& placement, std::size_t used, WorkerId w) {
    auto fresh = [&](WorkerId v) {
      return state.residents(v).empty() && state.available(v) &&
             std::find(placement.begin(), placement.begin() + static_cast<std::ptrdiff_t>(used), v) ==
                 placement.begin() + static_cast<std::ptrdiff_t>(used);
    };
    const auto has_links = [&](WorkerId v) { return state.options().links && state.options().links->Touches(v); };
    if (!fresh(w) || has_links(w)) return false;
    const WorkerSpec& a = state.worker(w);
    for (WorkerId v = 0; v < w; ++v) {
      const WorkerSpec& b = state.worker(v);
      if (fresh(v) && !has_links(v) && a.flops == b.flops && a.memory_bytes == b.memory_bytes && a.bandwidth == b.bandwidth &&
          a.latency == b.latency && a.corun_gain == b.corun_gain && a.max_residents == b.max_residents) {
        return true;
      }
    }
    return false;
  }

  // Decides about the waiting jobs from position `at` on, then lets time pass.
  void Decide(const Simulator& simulator, std::size_t at) {
    started_ = true;
    if (++result_.nodes > max_nodes_ || Bound(simulator) >= least_ * (1 - 1e-12)) return;
    if (simulator.Done()) {
      least_ = simulator.job_seconds();
      result_.actions = simulator.actions();
      return;
    }
    const ClusterState& state = simulator.state();
    if (at < state.waiting().size()) {
      const JobId id = state.waiting()[at];
      for (Placement& placement : Placements(state, *facts_.at(id).spec)) {
        Simulator next = simulator;
        next.Apply(Action::Place(id, std::move(placement)));
        Decide(next, at);  // the job has left the list
      }
      Decide(simulator, at + 1);
      return;
    }
    Simulator next = simulator;
    if (next.Advance()) Decide(next, 0);
  }

  const Workload& jobs_;
  const ModelOptions options_;
  const long max_nodes_;
  std::vector<WorkerSpec> fastest_;  // flops: the most that a worker gives one job
  double capacity_ = 0;
  std::unordered_map<JobId, Facts> facts_;
  bool started_ = false;
  double least_ = kNever;  // sum of JCT
  ExactOptimum result_;
};

}  // namespace

ExactOptimum FindExactOptimum(const std::vector<WorkerSpec>& workers, const Workload& jobs, const ModelOptions& options,
                              long max_nodes) {
  return Search(workers, jobs, options, max_nodes).Run(Simulator(workers, jobs, options));
}

}  // namespace weir
