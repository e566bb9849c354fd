#include "env/mdp/candidates.h"

#include <gtest/gtest.h>

#include <functional>

#include "env/core/rng.h"
#include "tests/testing/env_contract.h"

namespace weir {
namespace {

TEST(CandidatesTest, AreLegalAndPricedAsThePlacementTurnsOut) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Episode episode = testing::StudyEpisodes("edge8-tight", 1.0, 12)(seed);
    ClusterState state(episode.workers);
    for (const auto& job : episode.jobs) {
      state.AdvanceTo(job->arrival);
      state.AddJob(job);
      const std::vector<Candidate> candidates = GenerateCandidates(state, job->id, true);
      for (const Candidate& c : candidates) {
        ASSERT_TRUE(state.CanPlace(c.job, c.placement));
        EXPECT_NEAR(state.IterationTimeIfPlaced(c.job, c.placement), c.iteration_time, 1e-12 * c.iteration_time);
        ClusterState copy = state;
        copy.Place(c.job, c.placement);
        EXPECT_NEAR(copy.RemainingTime(c.job), c.own, 1e-9 * c.own);
      }
      if (!candidates.empty()) state.Place(job->id, candidates.front().placement);
    }
  }
}

TEST(CandidatesTest, LeastOwnIsTheFirstLeastOfAll) {
  int none = 0, split = 0;
  for (const char* cluster : {"edge8", "edge8-tight", "edge32"}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Episode episode = testing::StudyEpisodes(cluster, 1.2, 40)(seed);
      Simulator simulator(episode.workers, episode.jobs);
      Rng rng(seed);
      while (simulator.Advance()) {
        const std::vector<JobId> waiting(simulator.state().waiting().begin(), simulator.state().waiting().end());
        for (JobId id : waiting) {
          const bool wide = rng.Below(2) == 0;
          const std::vector<Candidate> all = GenerateCandidates(simulator.state(), id, wide);
          const Candidate least = LeastOwnCandidate(simulator.state(), id, wide);
          if (all.empty()) {
            ++none;
            ASSERT_LT(least.job, 0);
            continue;
          }
          const auto best =
              std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.own < b.own; });
          ASSERT_EQ(least.placement, best->placement);
          ASSERT_EQ(least.own, best->own);
          split += best->workers_used > 1;
          simulator.Apply(Action::Place(id, all[rng.Below(all.size())].placement));
        }
        if (simulator.state().running().size() > 3 && rng.Below(4) == 0) {
          simulator.Apply(Action::Preempt(simulator.state().running()[0]));
        }
      }
    }
  }
  EXPECT_GT(none, 50);
  EXPECT_GT(split, 50);
}

TEST(CandidatesTest, BestAloneTimeMatchesBruteForce) {
  const ClusterState state(testing::StudyCluster("edge8-tight").workers);
  Rng rng(5);
  const std::vector<JobSpec> profiles = AllProfiles(testing::StudyMix());
  for (int i = 0; i < 20; ++i) {
    const JobSpec& job = profiles[rng.Below(profiles.size())];
    if (job.num_subgraphs() > 4 || !state.FitsEmptyCluster(job)) continue;
    double best = kNever;
    Placement p(job.num_subgraphs());
    std::function<void(int)> search = [&](int at) {
      if (at == job.num_subgraphs()) {
        std::vector<double> used(state.num_workers(), 0.0);
        for (int s = 0; s < at; ++s) used[p[s]] += job.subgraphs[s].memory_bytes;
        for (int w = 0; w < state.num_workers(); ++w) {
          if (used[w] > state.worker(w).memory_bytes * (1 + 1e-9)) return;
        }
        best = std::min(best, IterationTimeAlone(job, p, state.workers(), {}));
        return;
      }
      for (p[at] = 0; p[at] < state.num_workers(); ++p[at]) search(at + 1);
    };
    search(0);
    EXPECT_DOUBLE_EQ(BestAloneTime(state, job), best) << job.name;
    BestTimes times;
    EXPECT_EQ(times.Get(state, job), best);
  }
}

// The projection against the simulator itself, with nothing else to start.
TEST(CandidatesTest, ProjectionMatchesRunningTheCluster) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Episode episode = testing::StudyEpisodes("small", 2.0, 8)(seed);
    ClusterState state(episode.workers);
    for (const auto& job : episode.jobs) {
      state.AdvanceTo(std::min(job->arrival, state.NextEventTime()));
      state.AddJob(job);
      auto sum_of_finishes = [](ClusterState s, JobId own_id, double* own) {
        double sum = 0;
        const SimTime start = s.now();
        while (!s.running().empty()) {
          s.AdvanceTo(s.NextEventTime());
          for (JobId id : s.CompletedJobs()) {
            (id == own_id ? *own : sum) += s.now() - start;
            s.Finish(id);
          }
        }
        return sum;
      };
      double none = 0;
      const double without = sum_of_finishes(state, -1, &none);
      const std::vector<Candidate> candidates = GenerateCandidates(state, job->id);
      for (const Candidate& c : candidates) {
        ClusterState with = state;
        with.Place(c.job, c.placement);
        double own = 0;
        const double sum = sum_of_finishes(with, c.job, &own);
        const Projection projection = Project(state, c);
        EXPECT_NEAR(projection.own, own, 1e-7 * own);
        EXPECT_NEAR(projection.delay, std::max(0.0, sum - without), 1e-6 * (sum + 1));
      }
      if (!candidates.empty()) state.Place(job->id, candidates.back().placement);
    }
  }
}

}  // namespace
}  // namespace weir
