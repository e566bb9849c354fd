#include "agent/baselines/batch.h"

#include <algorithm>

#include "env/core/rng.h"
#include "env/mdp/candidates.h"

namespace weir {

std::string MinMinScheduler::name() const {
  return rule_ == Rule::kMinMin ? "min-min" : rule_ == Rule::kMaxMin ? "max-min" : "sufferage";
}

Action MinMinScheduler::Decide(const ClusterState& state) {
  Action best;
  if (!state.AnyFreeResidency()) return best;
  double greatest = -kNever;
  for (JobId id : state.waiting()) {
    double least = kNever, second = kNever;
    Candidate* chosen = nullptr;
    std::vector<Candidate> candidates = GenerateCandidates(state, id, true);
    for (Candidate& c : candidates) {
      if (c.own < least) {
        second = least;
        least = c.own;
        chosen = &c;
      } else {
        second = std::min(second, c.own);
      }
    }
    if (!chosen) continue;
    const double urgency = rule_ == Rule::kMinMin ? -least : rule_ == Rule::kMaxMin ? least : second - least;
    if (urgency > greatest) {
      greatest = urgency;
      best = Action::Place(id, std::move(chosen->placement));
    }
  }
  return best;
}

Action RandomScheduler::Decide(const ClusterState& state) {
  std::vector<Candidate> all;
  for (JobId id : state.waiting()) {
    for (Candidate& c : GenerateCandidates(state, id)) all.push_back(std::move(c));
  }
  if (all.empty()) return Action::Wait();
  Candidate& c = all[Rng(Mix64(seed_, draws_++)).Below(all.size())];
  return Action::Place(c.job, std::move(c.placement));
}

Action TetrisScheduler::Decide(const ClusterState& state) {
  Action best;
  if (!state.AnyFreeResidency()) return best;
  std::vector<double> left;
  double least = kNever;
  for (JobId id : state.waiting()) {
    left.push_back(state.RemainingIterations(id) * best_times_.Get(state, state.job(id)));
    least = std::min(least, left.back());
  }
  double greatest = -kNever;
  for (std::size_t j = 0; j < left.size(); ++j) {
    const JobId id = state.waiting()[j];
    const JobSpec& spec = *state.job(id).spec;
    for (Candidate& c : GenerateCandidates(state, id, true)) {
      double aligned = 0;
      for (std::size_t i = 0; i < c.placement.size(); ++i) {
        const WorkerId w = c.placement[i];
        const WorkerSpec& worker = state.worker(w);
        aligned += spec.subgraphs[i % spec.subgraphs.size()].memory_bytes / worker.memory_bytes *
                   (state.free_memory(w) / worker.memory_bytes);
        if (std::find(c.placement.begin(), c.placement.begin() + static_cast<std::ptrdiff_t>(i), w) !=
            c.placement.begin() + static_cast<std::ptrdiff_t>(i)) {
          continue;
        }
        const double slots = worker.max_residents;
        aligned += 1 / slots * (state.free_residencies(w) / slots);
      }
      const double score = aligned / c.workers_used + epsilon_ * least / left[j];
      if (score > greatest) {
        greatest = score;
        best = Action::Place(id, std::move(c.placement));
      }
    }
  }
  return best;
}

std::vector<int> LeastAssignment(const std::vector<std::vector<double>>& cost) {
  // Shortest augmenting paths with potentials (Jonker, Volgenant, Computing 38, 1987), O(rows^2 * columns). Index 0 is a dummy.
  const int rows = static_cast<int>(cost.size());
  if (rows == 0) return {};
  const int columns = static_cast<int>(cost[0].size());
  std::vector<double> u(rows + 1, 0.0), v(columns + 1, 0.0);
  std::vector<int> row_of(columns + 1, 0), came_from(columns + 1, 0);
  for (int i = 1; i <= rows; ++i) {
    row_of[0] = i;
    int at = 0;
    std::vector<double> least(columns + 1, kNever);
    std::vector<char> used(columns + 1, 0);
    do {
      used[at] = 1;
      const int row = row_of[at];
      int next = 0;
      double delta = kNever;
      for (int j = 1; j <= columns; ++j) {
        if (used[j]) continue;
        const double reduced = cost[row - 1][j - 1] - u[row] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          came_from[j] = at;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (int j = 0; j <= columns; ++j) {
        if (used[j]) {
          u[row_of[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      at = next;
    } while (row_of[at] != 0);
    for (; at != 0; at = came_from[at]) row_of[at] = row_of[came_from[at]];
  }
  std::vector<int> assigned(rows, -1);
  for (int j = 1; j <= columns; ++j) {
    if (row_of[j] > 0) assigned[row_of[j] - 1] = j - 1;
  }
  return assigned;
}

std::vector<Action> AssignmentScheduler::Match(const ClusterState& state) const {
  constexpr std::size_t kMostJobs = 64;
  constexpr double kImpossible = 1e18;
  std::vector<WorkerId> free;
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    if (state.free_residencies(w) > 0) free.push_back(w);
  }
  std::vector<JobId> jobs;
  std::vector<std::vector<double>> cost;
  std::vector<Action> actions;
  for (std::size_t i = 0; i < std::min(kMostJobs, state.waiting().size()); ++i) {
    const JobId id = state.waiting()[i];
    const LiveJob& job = state.job(id);
    const double memory = job.spec->total_memory_bytes();
    bool whole = false;
    for (WorkerId w = 0; w < state.num_workers(); ++w) {
      whole = whole || (state.available(w) && memory <= state.worker(w).memory_bytes * (1 + 1e-9));
    }
    const bool idle = state.running().empty();
    const double wait = idle ? kImpossible / 2 : std::min(kImpossible / 2, EstimateWait(state, id, {}, true).seconds);
    std::vector<Candidate> candidates = GenerateCandidates(state, id, true);
    if (!whole || job.spec->replicas > 1) {
      if (!actions.empty()) continue;  // one of these a round: the next sees it
      const auto best = std::min_element(candidates.begin(), candidates.end(),
                                         [](const Candidate& a, const Candidate& b) { return a.own < b.own; });
      if (best != candidates.end() && (idle || best->own <= wait)) actions.push_back(Action::Place(id, best->placement));
      continue;
    }
    std::vector<double> row(free.size(), kImpossible);
    for (const Candidate& c : candidates) {
      if (c.workers_used > 1) continue;
      row[std::lower_bound(free.begin(), free.end(), c.placement[0]) - free.begin()] = c.own;
    }
    jobs.push_back(id);
    cost.push_back(std::move(row));
    cost.back().push_back(wait);
  }
  if (!actions.empty()) return actions;
  // A column of its own for each job that stays unscheduled.
  for (std::size_t j = 0; j < cost.size(); ++j) {
    const double wait = cost[j].back();
    cost[j].pop_back();
    for (std::size_t i = 0; i < cost.size(); ++i) cost[j].push_back(i == j ? wait : 2 * kImpossible);
  }
  const std::vector<int> assigned = LeastAssignment(cost);
  for (std::size_t j = 0; j < assigned.size(); ++j) {
    const auto column = static_cast<std::size_t>(assigned[j]);
    if (column >= free.size() || cost[j][column] >= kImpossible) continue;
    actions.push_back(Action::Place(jobs[j], Placement(state.job(jobs[j]).spec->subgraphs.size(), free[column])));
  }
  std::reverse(actions.begin(), actions.end());
  return actions;
}

Action AssignmentScheduler::Decide(const ClusterState& state) {
  if (planned_.empty() && state.AnyFreeResidency() && !state.waiting().empty()) planned_ = Match(state);
  if (planned_.empty()) return Action::Wait();
  Action next = std::move(planned_.back());
  planned_.pop_back();
  return next;
}

}  // namespace weir
