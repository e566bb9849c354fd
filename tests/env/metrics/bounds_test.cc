#include "env/metrics/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "env/core/rng.h"
#include "env/mdp/candidates.h"
#include "env/metrics/exact_optimum.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

JobSpec Job(JobId id, SimTime arrival, double iterations, std::vector<SubgraphSpec> subgraphs, std::vector<ArcSpec> arcs = {},
            int micro_batches = 1) {
  JobSpec job;
  job.id = id;
  job.arrival = arrival;
  job.iterations = iterations;
  job.micro_batches = micro_batches;
  job.subgraphs = std::move(subgraphs);
  job.arcs = std::move(arcs);
  return job;
}

TEST(BoundsTest, SrptByHand) {
  // 0: 0-1, at 1 the short job (2) overtakes the long one (3 left): 1-3; then 3-6. Sum 6 + 2.
  EXPECT_DOUBLE_EQ(SrptFlowTime({{0, 4}, {1, 2}}), 6 + 2);
  EXPECT_DOUBLE_EQ(SrptFlowTime({{5, 1}}), 1);
  EXPECT_DOUBLE_EQ(SrptFlowTime({}), 0);
}

TEST(BoundsTest, MeanBusyTimeByHand) {
  // Shortest original size first: 0-1 long, 1-3 short, 3-6 long. Long: (0.5*1 + 4.5*3)/4 = 3.5; short: 2 - 1 = 1.
  EXPECT_DOUBLE_EQ(LeastMeanBusyTime({{0, 4}, {1, 2}}), 3.5 + 1);
}

// Slices of time on one machine, every order of them: neither rule can be beaten.
TEST(BoundsTest, NoOrderOfUnitSlicesBeatsTheMachine) {
  Rng rng(4);
  for (int round = 0; round < 40; ++round) {
    std::vector<MachineJob> jobs;
    for (int j = 0; j < 3; ++j) jobs.push_back({double(rng.Below(4)), 1.0 + double(rng.Below(3))});
    double least_flow = kNever, least_busy = kNever;
    std::vector<double> left{jobs[0].size, jobs[1].size, jobs[2].size};
    std::function<void(double, double, double)> serve = [&](double now, double flow, double busy) {
      if (left[0] + left[1] + left[2] == 0) {
        least_flow = std::min(least_flow, flow);
        least_busy = std::min(least_busy, busy);
        return;
      }
      bool any = false;
      for (int j = 0; j < 3; ++j) {
        if (left[j] == 0 || jobs[j].arrival > now) continue;
        any = true;
        --left[j];
        serve(now + 1, flow + (left[j] == 0 ? now + 1 - jobs[j].arrival : 0),
              busy + (now + 0.5 - jobs[j].arrival) / jobs[j].size);
        ++left[j];
      }
      if (!any) serve(now + 1, flow, busy);
    };
    serve(0, 0, 0);
    EXPECT_NEAR(SrptFlowTime(jobs), least_flow, 1e-9);
    EXPECT_NEAR(LeastMeanBusyTime(jobs), least_busy, 1e-9);
  }
}

TEST(BoundsTest, LargestAntichainMatchesBruteForce) {
  EXPECT_EQ(LargestAntichain(Job(0, 0, 1, {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}}, {{0, 1, 1}, {1, 2, 1}})), 1);
  Rng rng(9);
  for (int round = 0; round < 200; ++round) {
    const int k = 1 + static_cast<int>(rng.Below(6));
    JobSpec job = Job(0, 0, 1, std::vector<SubgraphSpec>(k, {1, 1, 0}));
    std::vector<std::vector<char>> reach(k, std::vector<char>(k, 0));
    for (int u = 0; u < k; ++u) {
      for (int v = u + 1; v < k; ++v) {
        if (rng.Uniform() < 0.4) {
          job.arcs.push_back({u, v, 1});
          reach[u][v] = 1;
        }
      }
    }
    for (int m = 0; m < k; ++m) {
      for (int u = 0; u < k; ++u) {
        for (int v = 0; v < k; ++v) reach[u][v] = reach[u][v] || (reach[u][m] && reach[m][v]);
      }
    }
    int most = 0;
    for (int set = 1; set < 1 << k; ++set) {
      bool free = true;
      for (int u = 0; u < k; ++u) {
        for (int v = 0; v < k; ++v) free = free && !((set >> u & 1) && (set >> v & 1) && reach[u][v]);
      }
      if (free) most = std::max(most, __builtin_popcount(set));
    }
    ASSERT_EQ(LargestAntichain(job), most);
  }
}

TEST(BoundsTest, AreReachedByOneJobAndByAQueueOfEqualJobs) {
  const std::vector<WorkerSpec> workers = {{"w", 2, 1, 1, 0, 0, 1}};
  const JctBounds one = LowerBounds(workers, MakeWorkload({Job(0, 3, 10, {{4, 1, 0}})}));
  EXPECT_DOUBLE_EQ(one.best, 20);
  EXPECT_DOUBLE_EQ(one.alone, 20);
  EXPECT_DOUBLE_EQ(one.size_first, 20);  // mean busy time 10 after the arrival, and half of 20
  const JctBounds queue = LowerBounds(workers, MakeWorkload({Job(0, 0, 10, {{4, 1, 0}}), Job(1, 0, 10, {{4, 1, 0}})}));
  EXPECT_DOUBLE_EQ(queue.srpt, (20 + 40) / 2.0);
  EXPECT_EQ(queue.name, "srpt");
}

TEST(BoundsTest, JobsThatFitNowhereAreLeftOut) {
  const JctBounds bounds =
      LowerBounds({{"w", 2, 1, 1, 0, 0, 1}}, MakeWorkload({Job(0, 0, 1, {{4, 2, 0}}), Job(1, 0, 1, {{4, 1, 0}})}));
  EXPECT_EQ(bounds.unplaceable, 1);
  EXPECT_EQ(bounds.jobs, 1);
  EXPECT_DOUBLE_EQ(bounds.best, 2);
}

TEST(BoundsTest, SharingThatSpeedsAJobUpDoesNotBreakTheBound) {
  // gamma 8: two jobs on the worker get 2.5 times its speed each; the bound counts with that.
  const std::vector<WorkerSpec> workers = {{"w", 1, 2, 1, 0, 8, 2}};
  const Workload jobs = MakeWorkload({Job(0, 0, 10, {{1, 1, 0}}), Job(1, 0, 10, {{1, 1, 0}})});
  Simulator simulator(workers, jobs);
  simulator.Advance();
  simulator.Apply(Action::Place(0, {0}));
  simulator.Apply(Action::Place(1, {0}));
  while (simulator.Advance()) {
  }
  EXPECT_DOUBLE_EQ(simulator.records()[0].jct(), 4);
  EXPECT_LE(LowerBounds(workers, jobs).best, 4 * (1 + 1e-12));
}

// Random legal schedules with preemption and migration on random episodes: none lies below a bound.
TEST(BoundsTest, NoRandomScheduleLiesBelow) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Rng rng(seed);
    const Episode episode = testing::StudyEpisodes(seed % 2 ? "small" : "edge8-tight", 1.5, 15)(seed);
    const JctBounds bounds = LowerBounds(episode.workers, episode.jobs);
    ASSERT_EQ(bounds.unplaceable, 0);
    EXPECT_DOUBLE_EQ(bounds.best, std::max({bounds.alone, bounds.srpt, bounds.size_first}));
    for (int round = 0; round < 4; ++round) {
      Simulator simulator(episode.workers, episode.jobs);
      while (simulator.Advance()) {
        for (int tries = 0; tries < 4; ++tries) {
          const ClusterState& state = simulator.state();
          if (!state.running().empty() && rng.Uniform() < 0.05) {
            simulator.Apply(Action::Preempt(state.running()[rng.Below(state.running().size())]));
          } else if (!state.waiting().empty()) {
            const JobId id = state.waiting()[rng.Below(state.waiting().size())];
            const std::vector<Candidate> c = GenerateCandidates(state, id);
            if (!c.empty()) simulator.Apply(Action::Place(id, c[rng.Below(c.size())].placement));
          }
        }
        if (simulator.NextEventTime() == kNever && !simulator.Done()) {
          const JobId id = simulator.state().waiting().front();
          simulator.Apply(Action::Place(id, GenerateCandidates(simulator.state(), id).front().placement));
        }
      }
      ASSERT_TRUE(simulator.Done());
      EXPECT_GE(simulator.job_seconds() / 15, bounds.best * (1 - 1e-9)) << "seed " << seed;
    }
  }
}

// ---- The exact optimum against a brute force that shares no code with the simulator: its own fluid clock, its own iteration
// time, every subset of the waiting jobs at every event, every placement, no bound.
class BruteForce {
 public:
  BruteForce(std::vector<WorkerSpec> workers, std::vector<JobSpec> jobs) : workers_(std::move(workers)), jobs_(std::move(jobs)) {}
  double MeanJct() {
    State state;
    state.left.reserve(jobs_.size());
    for (const JobSpec& job : jobs_) state.left.push_back(job.iterations);
    state.where.resize(jobs_.size());
    state.finish.assign(jobs_.size(), -1.0);
    Choose(state, 0);
    return best_ / static_cast<double>(jobs_.size());
  }

 private:
  struct State {
    double now = 0;
    std::vector<double> left;
    std::vector<std::vector<int>> where;
    std::vector<double> finish;
  };

  std::set<int> WorkersOf(const std::vector<int>& p) const { return {p.begin(), p.end()}; }
  bool Cuts(const JobSpec& job, const std::vector<int>& p, int w) const {
    for (const ArcSpec& a : job.arcs) {
      if (p[a.from] != p[a.to] && (p[a.from] == w || p[a.to] == w)) return true;
    }
    return false;
  }
  double Time(const State& s, std::size_t j) const {
    const JobSpec& job = jobs_[j];
    std::vector<int> n(workers_.size(), 0), c(workers_.size(), 0);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      for (int w : WorkersOf(s.where[i])) {
        ++n[w];
        c[w] += Cuts(jobs_[i], s.where[i], w);
      }
    }
    const std::vector<int>& p = s.where[j];
    std::vector<double> done(p.size(), 0.0), busy(workers_.size(), 0.0), comm(workers_.size(), 0.0);
    double path = 0;
    for (std::size_t v = 0; v < p.size(); ++v) {
      const WorkerSpec& w = workers_[p[v]];
      const double t = job.subgraphs[v].flop / (w.flops * (1 + w.corun_gain * (1 - 1.0 / n[p[v]])) / n[p[v]]);
      double ready = 0;
      for (const ArcSpec& a : job.arcs) {
        if (a.to != static_cast<int>(v)) continue;
        double arc = 0;
        if (p[a.from] != p[a.to]) {
          const double bu = workers_[p[a.from]].bandwidth / c[p[a.from]], bv = workers_[p[a.to]].bandwidth / c[p[a.to]];
          arc = 2 * a.bytes / std::min(bu, bv) + 2 * (workers_[p[a.from]].latency + workers_[p[a.to]].latency);
          comm[p[a.from]] += 2 * a.bytes / bu;
          comm[p[a.to]] += 2 * a.bytes / bv;
        }
        ready = std::max(ready, done[a.from] + arc);
      }
      done[v] = ready + t;
      busy[p[v]] += t;
      path = std::max(path, done[v]);
    }
    double bottleneck = 0;
    for (std::size_t w = 0; w < workers_.size(); ++w) bottleneck = std::max({bottleneck, busy[w], comm[w]});
    const double m = job.micro_batches;
    return path / m + (m - 1) / m * bottleneck;
  }
  bool Fits(const State& s) const {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      double memory = 0;
      int n = 0;
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        bool here = false;
        for (std::size_t v = 0; v < s.where[i].size(); ++v) {
          if (s.where[i][v] != static_cast<int>(w)) continue;
          here = true;
          memory += jobs_[i].subgraphs[v].memory_bytes;
        }
        n += here;
      }
      if (n > workers_[w].max_residents || memory > workers_[w].memory_bytes) return false;
    }
    return true;
  }
  void Choose(State s, std::size_t j) {
    if (j == jobs_.size()) return Pass(std::move(s));
    Choose(s, j + 1);
    if (jobs_[j].arrival > s.now + 1e-9 || !s.where[j].empty() || s.finish[j] >= 0) return;
    std::vector<int> p(jobs_[j].subgraphs.size(), 0);
    while (true) {
      s.where[j] = p;
      if (Fits(s)) Choose(s, j + 1);
      std::size_t i = 0;
      for (; i < p.size() && ++p[i] == static_cast<int>(workers_.size()); ++i) p[i] = 0;
      if (i == p.size()) return;
    }
  }
  void Pass(State s) {
    double next = kNever;
    std::vector<double> time(jobs_.size(), 0.0);
    bool all = true;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      all = all && s.finish[j] >= 0;
      if (jobs_[j].arrival > s.now + 1e-9) next = std::min(next, jobs_[j].arrival);
      if (s.where[j].empty()) continue;
      time[j] = Time(s, j);
      next = std::min(next, s.now + s.left[j] * time[j]);
    }
    if (all) {
      double sum = 0;
      for (std::size_t j = 0; j < jobs_.size(); ++j) sum += s.finish[j] - jobs_[j].arrival;
      best_ = std::min(best_, sum);
      return;
    }
    if (next == kNever) return;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (s.where[j].empty()) continue;
      s.left[j] -= (next - s.now) / time[j];
      if (s.left[j] * time[j] > 1e-9) continue;
      s.finish[j] = next;
      s.where[j].clear();
    }
    s.now = next;
    Choose(std::move(s), 0);
  }

  std::vector<WorkerSpec> workers_;
  std::vector<JobSpec> jobs_;
  double best_ = kNever;
};

struct Tiny {
  std::vector<WorkerSpec> workers;
  std::vector<JobSpec> jobs;
};
Tiny RandomTiny(Rng* rng, int workers, int jobs, int most_subgraphs) {
  Tiny tiny;
  for (int w = 0; w < workers; ++w) {
    tiny.workers.push_back({"w", 1.0 + double(rng->Below(4)), 3.0 + double(rng->Below(4)), 1.0 + double(rng->Below(3)), 0.1,
                            rng->Uniform(0, 0.6), 1 + static_cast<int>(rng->Below(2))});
  }
  for (int j = 0; j < jobs; ++j) {
    const int k = 1 + static_cast<int>(rng->Below(most_subgraphs));
    JobSpec job = Job(j, rng->Uniform(0, 6), 1 + double(rng->Below(8)), {}, {}, rng->Below(2) ? 4 : 1);
    for (int i = 0; i < k; ++i) job.subgraphs.push_back({rng->Uniform(0.5, 3), 1.0 + double(rng->Below(2)), 0});
    for (int i = 1; i < k; ++i) job.arcs.push_back({static_cast<int>(rng->Below(i)), i, rng->Uniform(0, 1)});
    tiny.jobs.push_back(std::move(job));
  }
  return tiny;
}

void ExpectOptimumMatchesBruteForce(const Tiny& tiny) {
  const ExactOptimum optimum = FindExactOptimum(tiny.workers, MakeWorkload(tiny.jobs));
  ASSERT_TRUE(optimum.proven);
  const double brute = BruteForce(tiny.workers, tiny.jobs).MeanJct();
  if (brute == kNever) {
    EXPECT_EQ(optimum.mean_jct, kNever);
    return;
  }
  EXPECT_NEAR(optimum.mean_jct, brute, 1e-7 * brute);
  EXPECT_LE(LowerBounds(tiny.workers, MakeWorkload(tiny.jobs)).best, optimum.mean_jct * (1 + 1e-9));
  // The schedule is real.
  Simulator again(tiny.workers, MakeWorkload(tiny.jobs));
  Replay(&again, optimum.actions, "optimum");
  EXPECT_NEAR(again.job_seconds() / static_cast<double>(tiny.jobs.size()), optimum.mean_jct, 1e-9 * optimum.mean_jct);
}

TEST(ExactOptimumTest, MatchesBruteForceOnJobsOfOneSubgraph) {
  Rng rng(21);
  for (int round = 0; round < 30; ++round) ExpectOptimumMatchesBruteForce(RandomTiny(&rng, 2, 3, 1));
  for (int round = 0; round < 5; ++round) ExpectOptimumMatchesBruteForce(RandomTiny(&rng, 3, 3, 1));
  for (int round = 0; round < 5; ++round) ExpectOptimumMatchesBruteForce(RandomTiny(&rng, 2, 4, 1));
}

TEST(ExactOptimumTest, MatchesBruteForceOnSplitJobs) {
  Rng rng(22);
  for (int round = 0; round < 20; ++round) ExpectOptimumMatchesBruteForce(RandomTiny(&rng, 2, 2, 3));
  for (int round = 0; round < 6; ++round) ExpectOptimumMatchesBruteForce(RandomTiny(&rng, 3, 2, 3));
}

TEST(ExactOptimumTest, ReachesTheSizesThatItIsMeantFor) {
  Rng rng(23);
  for (int round = 0; round < 3; ++round) {
    const Tiny six = RandomTiny(&rng, 3, 6, 1);
    EXPECT_TRUE(FindExactOptimum(six.workers, MakeWorkload(six.jobs)).proven);
    Tiny four = RandomTiny(&rng, 3, 3, 1);
    for (JobSpec& job : four.jobs) {
      job.subgraphs.assign(4, {rng.Uniform(0.5, 3), 1, 0});
      job.arcs = {{0, 1, rng.Uniform()}, {1, 2, rng.Uniform()}, {2, 3, rng.Uniform()}};
    }
    EXPECT_TRUE(FindExactOptimum(four.workers, MakeWorkload(four.jobs)).proven);
  }
}

TEST(ExactOptimumTest, SaysWhereItStopped) {
  Rng rng(24);
  const Tiny six = RandomTiny(&rng, 3, 6, 1);
  const ExactOptimum optimum = FindExactOptimum(six.workers, MakeWorkload(six.jobs), {}, 20);
  EXPECT_FALSE(optimum.proven);
  EXPECT_GT(optimum.lower_bound, 0);
}

}  // namespace
}  // namespace weir
