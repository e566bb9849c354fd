#include "coordinator/resources.h"

#include <algorithm>

#include "env/core/error.h"
#include "env/core/units.h"

namespace weir::coordinator {

std::optional<std::string> WhyNotSuited(const wire::SubmitRequest& submit, const wire::Hello& worker) {
  if (submit.gpus() > worker.gpus()) return fmt::format("needs {} GPU(s), it has {}", submit.gpus(), worker.gpus());
  if (!submit.arch().empty() && submit.arch() != "any" && submit.arch() != worker.arch())
    return fmt::format("needs {}, it is {}", submit.arch(), worker.arch().empty() ? "unknown" : worker.arch());
  if (submit.min_link() > worker.bandwidth())
    return fmt::format("needs a link of {}bit/s, it has {}bit/s", FormatCount(8 * submit.min_link()),
                       FormatCount(8 * worker.bandwidth()));
  return std::nullopt;
}

std::optional<Placement> OnAllowedWorkers(const ClusterState& state, JobId job, const Placement& placement,
                                          const std::function<bool(WorkerId)>& allowed) {
  if (std::all_of(placement.begin(), placement.end(), allowed)) return placement;
  const std::shared_ptr<const JobSpec> spec = state.job(job).spec;
  std::vector<WorkerId> candidates;
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    if (state.available(w) && allowed(w)) candidates.push_back(w);
  }
  std::optional<Placement> best;
  double best_time = kNever;
  const auto consider = [&](const Placement& tried) {
    if (!state.CanPlace(job, tried)) return;
    const double time = state.IterationTimeIfPlaced(job, tried);
    if (time < best_time) {
      best_time = time;
      best = tried;
    }
  };
  for (WorkerId w : candidates) consider(Placement(placement.size(), w));
  // Part by part: the first allowed worker with room, fastest first, beside what is taken already.
  std::sort(candidates.begin(), candidates.end(),
            [&](WorkerId a, WorkerId b) { return state.worker(a).flops > state.worker(b).flops; });
  std::vector<double> free(state.num_workers());
  for (WorkerId w : candidates) free[w] = state.free_residencies(w) > 0 ? state.free_memory(w) : 0;
  Placement spread = placement;
  for (std::size_t k = 0; k < spread.size(); ++k) {
    const double memory = spec->subgraphs[k % spec->subgraphs.size()].memory_bytes;
    WorkerId chosen = allowed(spread[k]) && free[spread[k]] >= memory ? spread[k] : -1;
    for (std::size_t c = 0; c < candidates.size() && chosen < 0; ++c) {
      if (free[candidates[c]] >= memory) chosen = candidates[c];
    }
    if (chosen < 0) return best;
    free[chosen] -= memory;
    spread[k] = chosen;
  }
  consider(spread);
  return best;
}

}  // namespace weir::coordinator
