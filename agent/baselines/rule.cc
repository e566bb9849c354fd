#include "agent/baselines/rule.h"

#include <algorithm>
#include <cmath>

#include "agent/baselines/heft.h"

namespace weir {
namespace {

// Seconds of work left on each worker.
std::vector<double> WorkerLoads(const ClusterState& state) {
  std::vector<double> load(state.num_workers(), 0.0);
  for (JobId id : state.running()) {
    const LiveJob& job = state.job(id);
    const double left = state.RemainingIterations(id);
    for (std::size_t i = 0; i < job.placement.size(); ++i) {
      const WorkerId w = job.placement[i];
      load[w] += left * job.spec->subgraphs[i % job.spec->subgraphs.size()].flop / state.worker(w).flops;
    }
  }
  return load;
}

double Room(const ClusterState& state, WorkerId w) {
  return state.free_memory(w) + 1e-9 * state.worker(w).memory_bytes;
}

// Of the workers that qualify the least loaded, ties to the faster; -1: none.
template <typename Qualifies>
WorkerId LeastLoaded(const ClusterState& state, const std::vector<double>& load, Qualifies qualifies) {
  WorkerId best = -1;
  for (int w = 0; w < state.num_workers(); ++w) {
    if (!qualifies(w)) continue;
    if (best < 0 || load[w] < load[best] || (load[w] == load[best] && state.worker(w).flops > state.worker(best).flops)) best = w;
  }
  return best;
}

Placement Spread(const ClusterState& state, const LiveJob& job, std::vector<double> load) {
  const JobSpec& spec = *job.spec;
  if (spec.replicas > 1) return {};
  const double left = state.RemainingIterations(job.id);
  std::vector<double> used(state.num_workers(), 0.0);
  std::vector<char> mine(state.num_workers(), 0);
  Placement placement;
  for (const SubgraphSpec& subgraph : spec.subgraphs) {
    const WorkerId w = LeastLoaded(state, load, [&](WorkerId v) {
      return (mine[v] || state.free_residencies(v) > 0) && used[v] + subgraph.memory_bytes <= Room(state, v);
    });
    if (w < 0) return {};
    placement.push_back(w);
    mine[w] = 1;
    used[w] += subgraph.memory_bytes;
    load[w] += left * subgraph.flop / state.worker(w).flops;
  }
  return placement;
}

}  // namespace

Placement SpreadPlacement(const ClusterState& state, JobId job) {
  return Spread(state, state.job(job), WorkerLoads(state));
}

Placement PackPlacement(const ClusterState& state, JobId job) {
  const LiveJob& live = state.job(job);
  std::vector<double> load = WorkerLoads(state);
  const double memory = live.spec->total_memory_bytes();
  if (live.spec->replicas == 1) {
    const WorkerId w =
        LeastLoaded(state, load, [&](WorkerId v) { return state.free_residencies(v) > 0 && memory <= Room(state, v); });
    if (w >= 0) return Placement(live.spec->subgraphs.size(), w);
  }
  return Spread(state, live, std::move(load));
}

RuleOptions HandSetRule() {
  RuleOptions options;
  options.order = RuleOptions::Order::kBestTime;
  options.wide = false;
  options.projected = true;
  options.alpha = 1.4;
  options.kappa = 1.6;
  options.chi = 1.3;
  options.claim = 1.7;
  options.delta = 12;
  options.split = 0.1;
  options.beta = 0.02;
  options.press = 0.05;
  options.pmem = 0;
  options.aging = 0.05;
  return options;
}

RuleOptions TunedRule() {
  RuleOptions options = HandSetRule();
  options.alpha = 2.402;
  options.kappa = 1.668;
  options.chi = 1.349;
  options.claim = 1.354;
  options.delta = 22.83;
  options.split = 0.07248;
  options.beta = 0.02377;
  options.press = 0.02699;
  options.pmem = 0.1556;
  options.aging = 0.1391;
  return options;
}

void RuleScheduler::Reset() {
  in_pass_ = false;
}

void RuleScheduler::StartPass(const ClusterState& state) {
  in_pass_ = true;
  next_ = 0;
  reserved_.assign(state.num_workers(), 0.0);
  queue_ = OrderOf(state);
}

std::vector<JobId> RuleScheduler::OrderOf(const ClusterState& state) {
  std::vector<JobId> queue(state.waiting().begin(), state.waiting().end());
  if (options_.order == RuleOptions::Order::kArrival || queue.size() < 2) return queue;
  std::vector<std::pair<double, JobId>> keyed;
  keyed.reserve(queue.size());
  for (JobId id : queue) {
    const LiveJob& job = state.job(id);
    const double work = state.RemainingIterations(id) * job.spec->total_flop();
    double key = 0;
    switch (options_.order) {
      case RuleOptions::Order::kArrival:
        break;
      case RuleOptions::Order::kWork:
        key = work;
        break;
      case RuleOptions::Order::kLongestWork:
        key = -work;
        break;
      case RuleOptions::Order::kWorkMemory:
        key = work * job.spec->total_memory_bytes();
        break;
      case RuleOptions::Order::kWorkSubgraphs:
        key = work * job.spec->num_subgraphs();
        break;
      case RuleOptions::Order::kBestTime: {
        const double best = state.RemainingIterations(id) * best_times_.Get(state, job);
        key = std::log(best);
        if (options_.pmem != 0) key += options_.pmem * std::log(job.spec->total_memory_bytes());
        if (options_.aging != 0) key -= options_.aging * std::log1p((state.now() - job.arrival) / best);
        break;
      }
    }
    keyed.emplace_back(key, id);
  }
  // Ties stay in order of arrival.
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < keyed.size(); ++i) queue[i] = keyed[i].second;
  return queue;
}

Action RuleScheduler::Decide(const ClusterState& state) {
  if (!in_pass_) StartPass(state);
  while (next_ < queue_.size() && state.AnyFreeResidency()) {
    const JobId job = queue_[next_++];
    Placement placement = Choose(state, job);
    if (!placement.empty()) return Action::Place(job, std::move(placement));
    if (options_.strict) break;
  }
  in_pass_ = false;
  return Action::Wait();
}

Placement RuleScheduler::Choose(const ClusterState& state, JobId job) {
  Placement placement;
  switch (options_.choice) {
    case RuleOptions::Choice::kPrice:
      return ChooseByPrice(state, job);
    case RuleOptions::Choice::kSpread:
      placement = SpreadPlacement(state, job);
      break;
    case RuleOptions::Choice::kPack:
      placement = PackPlacement(state, job);
      break;
    case RuleOptions::Choice::kHeft:
      placement = HeftPlacement(state, job);
      break;
    case RuleOptions::Choice::kPeft:
      placement = PeftPlacement(state, job);
      break;
  }
  // On an empty cluster a job must not starve because spreading happens to fail.
  if (placement.empty() && state.running().empty()) return ChooseByPrice(state, job);
  return placement;
}

Placement RuleScheduler::ChooseByPrice(const ClusterState& state, JobId job) {
  std::vector<Candidate> candidates = GenerateCandidates(state, job, options_.wide);
  const double waiting_per_slot = static_cast<double>(state.waiting().size()) / std::max(1, state.total_slots());
  auto price = [&](const Candidate& c, double own, double delay) {
    const double s = c.workers_used;
    return own * (1 + options_.split * (s - 1) + (options_.beta + options_.press * waiting_per_slot) * s) +
           (options_.alpha > 0 ? options_.alpha * delay : 0);
  };
  struct Priced {
    double cost;
    std::size_t index;
  };
  std::vector<Priced> priced;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (options_.chi < kNever && c.own > options_.chi * LeastRemainingTime(state, c.placement)) continue;
    priced.push_back({price(c, c.own, options_.alpha > 0 ? InflictedDelay(state, c) : 0), i});
  }
  std::stable_sort(priced.begin(), priced.end(), [](const Priced& a, const Priced& b) { return a.cost < b.cost; });
  double cost = kNever, own = kNever;
  Candidate* chosen = nullptr;
  if (!priced.empty()) {
    chosen = &candidates[priced[0].index];
    cost = priced[0].cost;
    own = chosen->own;
    if (options_.projected) {
      constexpr std::size_t kRepriced = 4;
      cost = kNever;
      for (std::size_t i = 0; i < std::min(kRepriced, priced.size()); ++i) {
        Candidate& c = candidates[priced[i].index];
        const Projection projection = Project(state, c);
        const double again = price(c, projection.own, projection.delay);
        if (again < cost) {
          cost = again;
          own = projection.own;
          chosen = &c;
        }
      }
    }
  }
  if (chosen && (state.running().empty() || (options_.kappa == kNever && options_.delta == kNever))) return chosen->placement;
  if (!chosen && options_.claim == 0) return {};
  const WaitEstimate wait = EstimateWait(state, job, reserved_, options_.wide);
  const bool too_slow = chosen && options_.delta < kNever &&
                        own > options_.delta * state.RemainingIterations(job) * best_times_.Get(state, state.job(job));
  if (chosen && !(cost > options_.kappa * wait.seconds) && !too_slow) return chosen->placement;
  if (options_.claim > 0 && wait.worker >= 0) reserved_[wait.worker] = state.now() + options_.claim * wait.seconds;
  return {};
}

}  // namespace weir
