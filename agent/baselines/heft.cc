#include "agent/baselines/heft.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace weir {
namespace {

class ListScheduler {
 public:
  ListScheduler(const ClusterState& state, JobId id)
      : state_(state), job_(state.job(id)), spec_(*job_.spec), k_(spec_.num_subgraphs()) {
    for (WorkerId w = 0; w < state.num_workers(); ++w) {
      if (state.free_residencies(w) == 0) continue;
      workers_.push_back(w);
      loads_.push_back(state.LoadWith(w, job_));
      room_.push_back(state.free_memory(w) + 1e-9 * state.worker(w).memory_bytes);
    }
    busy_.resize(workers_.size());
  }

  Placement Heft() {
    if (Hopeless()) return {};
    std::vector<double> rank(k_, 0.0);
    for (int v = k_ - 1; v >= 0; --v) {
      for (const ArcSpec& arc : spec_.arcs) {
        if (arc.from == v) rank[v] = std::max(rank[v], MeanCost(arc) + rank[arc.to]);
      }
      rank[v] += MeanTime(v);
    }
    // A subgraph ranks above its successors unless both times are 0: ties stay in topological order.
    std::vector<int> order(k_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank[a] > rank[b]; });
    Start();
    for (int v : order) {
      if (!Place(v, [](int, std::size_t) { return 0.0; })) return {};
    }
    return Result();
  }

  Placement Peft() {
    if (Hopeless()) return {};
    const std::size_t n = workers_.size();
    std::vector<double> table(k_ * n, 0.0);
    for (int v = k_ - 1; v >= 0; --v) {
      for (const ArcSpec& arc : spec_.arcs) {
        if (arc.from != v) continue;
        // min over x of (stay + mean c if w != x): of all x with c, or x = w without.
        double any = kNever;
        for (std::size_t x = 0; x < n; ++x) any = std::min(any, table[arc.to * n + x] + Time(arc.to, x));
        const double cost = MeanCost(arc);
        for (std::size_t w = 0; w < n; ++w) {
          const double least = std::min(any + cost, table[arc.to * n + w] + Time(arc.to, w));
          table[v * n + w] = std::max(table[v * n + w], least);
        }
      }
    }
    Start();
    std::vector<char> placed(k_, 0);
    for (int step = 0; step < k_; ++step) {
      int next = -1;
      double greatest = -1;
      for (int v = 0; v < k_; ++v) {
        bool ready = !placed[v];
        for (const ArcSpec& arc : spec_.arcs) ready = ready && (arc.to != v || placed[arc.from]);
        if (!ready) continue;
        const double mean = std::accumulate(table.begin() + v * n, table.begin() + (v + 1) * n, 0.0) / double(n);
        if (mean > greatest) {
          greatest = mean;
          next = v;
        }
      }
      if (!Place(next, [&](int v, std::size_t w) { return table[v * n + w]; })) return {};
      placed[next] = 1;
    }
    return Result();
  }

 private:
  bool Hopeless() const { return workers_.empty() || spec_.replicas > 1; }
  double Time(int v, std::size_t w) const {
    return spec_.subgraphs[v].flop / SpeedOf(state_.worker(workers_[w]), loads_[w], state_.options());
  }
  double MeanTime(int v) const {
    double sum = 0;
    for (std::size_t w = 0; w < workers_.size(); ++w) sum += Time(v, w);
    return sum / static_cast<double>(workers_.size());
  }
  double Cost(const ArcSpec& arc, std::size_t w, std::size_t x) const {
    if (w == x) return 0;
    const WorkerSpec &a = state_.worker(workers_[w]), &b = state_.worker(workers_[x]);
    return 2 * arc.bytes / std::min(a.bandwidth / loads_[w].cut_jobs, b.bandwidth / loads_[x].cut_jobs) +
           2 * (a.latency + b.latency);
  }
  // Over ordered pairs of different workers; with one worker there is nothing to send.
  double MeanCost(const ArcSpec& arc) const {
    const std::size_t n = workers_.size();
    if (n < 2) return 0;
    double sum = 0;
    for (std::size_t w = 0; w < n; ++w) {
      for (std::size_t x = 0; x < w; ++x) sum += Cost(arc, w, x);
    }
    return 2 * sum / static_cast<double>(n * (n - 1));
  }
  void Start() {
    at_.assign(k_, 0);
    finish_.assign(k_, -1.0);
  }
  template <typename Extra>
  bool Place(int v, Extra extra) {
    double least = kNever, begin = 0;
    std::size_t chosen = workers_.size();
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (spec_.subgraphs[v].memory_bytes > room_[w]) continue;
      double ready = 0;
      for (const ArcSpec& arc : spec_.arcs) {
        if (arc.to == v && finish_[arc.from] >= 0) ready = std::max(ready, finish_[arc.from] + Cost(arc, at_[arc.from], w));
      }
      const double time = Time(v, w), start = FirstGap(w, ready, time);
      if (start + time + extra(v, w) < least) {
        least = start + time + extra(v, w);
        begin = start;
        chosen = w;
      }
    }
    if (chosen == workers_.size()) return false;
    at_[v] = chosen;
    finish_[v] = begin + Time(v, chosen);
    room_[chosen] -= spec_.subgraphs[v].memory_bytes;
    auto& busy = busy_[chosen];
    busy.insert(std::upper_bound(busy.begin(), busy.end(), std::pair(begin, finish_[v])), {begin, finish_[v]});
    return true;
  }
  double FirstGap(std::size_t w, double ready, double length) const {
    double start = ready;
    for (const auto& [from, to] : busy_[w]) {
      if (start + length <= from) break;
      start = std::max(start, to);
    }
    return start;
  }
  Placement Result() const {
    Placement placement;
    for (std::size_t w : at_) placement.push_back(workers_[w]);
    return placement;
  }

  const ClusterState& state_;
  const LiveJob& job_;
  const JobSpec& spec_;
  int k_;
  std::vector<WorkerId> workers_;  // those with a free residency
  std::vector<WorkerLoad> loads_;  // parallel, with the job there
  std::vector<double> room_;
  std::vector<std::vector<std::pair<double, double>>> busy_;  // by worker: (from, to) of the job's subgraphs, ascending
  std::vector<std::size_t> at_;
  std::vector<double> finish_;
};

}  // namespace

Placement HeftPlacement(const ClusterState& state, JobId job) {
  return ListScheduler(state, job).Heft();
}
Placement PeftPlacement(const ClusterState& state, JobId job) {
  return ListScheduler(state, job).Peft();
}

}  // namespace weir
