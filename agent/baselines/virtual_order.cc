#include "agent/baselines/virtual_order.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace weir {

void VirtualOrderScheduler::Reset() {
  RuleScheduler::Reset();
  served_ = 0;
  jobs_.clear();
}

void VirtualOrderScheduler::Serve(double seconds) {
  while (seconds > 0) {
    double weights = 0, until = kNever;
    Job* shortest = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.left <= 0) continue;
      weights += job.weight;
      if (!shortest || job.left < shortest->left) shortest = &job;
    }
    if (!shortest) break;
    const bool shared = sharing_ == Sharing::kWeighted;
    if (shared) {
      for (const auto& [id, job] : jobs_) {
        if (job.left > 0) until = std::min(until, job.left * weights / (job.weight * rate_));
      }
    } else {
      until = shortest->left / rate_;
    }
    const double span = std::min(until, seconds);
    for (auto& [id, job] : jobs_) {
      if (job.left <= 0 || (!shared && &job != shortest)) continue;
      const double need = shared ? job.left * weights / (job.weight * rate_) : until;
      if (need <= span * (1 + 1e-12)) {
        job.left = 0;
        job.completed = served_ + span;
      } else {
        job.left -= shared ? span * rate_ * job.weight / weights : span * rate_;
      }
    }
    served_ += span;
    seconds -= span;
  }
  served_ += std::max(0.0, seconds);
}

std::vector<JobId> VirtualOrderScheduler::OrderOf(const ClusterState& state) {
  int workers = 0;
  for (WorkerId w = 0; w < state.num_workers(); ++w) workers += state.available(w);
  rate_ = std::max(1, workers);
  Serve(state.now() - served_);
  served_ = state.now();
  for (JobId id : state.waiting()) {
    if (jobs_.contains(id)) continue;
    const double size = std::min(1e18, state.RemainingIterations(id) * times_.Get(state, state.job(id)));
    jobs_[id] = {size, size, std::pow(size, exponent_), kNever};
  }
  std::erase_if(jobs_, [&](const auto& entry) { return entry.second.left <= 0 && !state.HasJob(entry.first); });
  // Completed ones in their order, then by what is left (per weight): the order in which the machine ends them without arrivals.
  std::vector<std::tuple<double, double, JobId>> keyed;
  for (JobId id : state.waiting()) {
    const Job& job = jobs_.at(id);
    keyed.emplace_back(job.completed, sharing_ == Sharing::kWeighted ? job.left / job.weight : job.left, id);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<JobId> order;
  for (const auto& [completed, left, id] : keyed) order.push_back(id);
  return order;
}

}  // namespace weir
