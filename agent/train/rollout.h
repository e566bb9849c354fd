// Rollouts: episodes played by a network or a teacher, kept as compact samples; and the price of each decision.
// Every result is a pure function of (weights, seeds), whatever the number of threads.
#ifndef WEIR_AGENT_TRAIN_ROLLOUT_H_
#define WEIR_AGENT_TRAIN_ROLLOUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/policy/network.h"
#include "env/core/parallel.h"
#include "env/mdp/scheduling_env.h"

namespace weir {

// Decisions of one or more episodes, legal actions only, rows packed one after another.
struct SampleStore {
  struct Sample {
    std::size_t actions = 0, jobs = 0, workers = 0, pairs = 0;  // first row
    int num_actions = 0, num_jobs = 0, num_workers = 0, num_pairs = 0;
    int chosen = 0;      // row among the legal actions: what was done, or the teacher's choice
    float log_prob = 0;  // of it, when it was done
    float advantage = 0;
    float target = 0;  // of the value head
  };
  std::vector<Sample> samples;
  std::vector<float> action_features, job_features, worker_features, global_features;  // globals: one row a sample
  std::vector<int> action_jobs;                 // by action row: row in the sample's jobs; -1 for none
  std::vector<int> pair_actions, pair_workers;  // (row in the sample's actions, worker)

  // REQUIRES: mask[chosen] != 0
  void Add(const Observation& observation, int chosen, float log_prob);
  void Append(const SampleStore& other);
};

// One episode: its decisions with more than one legal action, and the jobs in system over time.
struct Rollout {
  SampleStore store;
  std::vector<double> sample_times;  // simulated time of each sample
  std::vector<double> times;         // of events, ascending; jobs_in_system[i] holds from times[i] to times[i+1]
  std::vector<double> jobs_in_system;
  double mean_jct = 0;  // by the reward: -(sum of rewards) / jobs
  double last_arrival = 0;
  int jobs = 0;
  int unmatched = 0;  // teacher's actions that weren't in the list
};

enum class Mode { kSample, kBest };  // draw from the softmax, or masked argmax
// Plays the episode `seed`; draws come from `draw_seed`. Keeps samples where `keep`.
Rollout PlayPolicy(const EpisodeSource& source, std::uint64_t seed, FloatNetwork* network, Mode mode, std::uint64_t draw_seed,
                   bool keep);
// Plays with the teacher's action labelled at each decision; `student` (may be null) chooses what is done instead.
Rollout PlayTeacher(const EpisodeSource& source, std::uint64_t seed, const std::string& teacher, FloatNetwork* student,
                    std::uint64_t draw_seed, bool keep);

// Time-aligned paired advantages: for each rollout of one sequence, the discounted cost to go at each decision, less the mean of
// its siblings' at the same time, negated, divided by the mean of that. Also sets the value targets, ln(1 + cost).
//   cost(t) = integral over s > t of n(s) e^-((s-t)/tau) ds / tau, n = jobs in system: the mean number of jobs in system ahead
// REQUIRES: the same sequence, at least two rollouts.
void SetAdvantages(std::vector<Rollout>* siblings, double tau);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_ROLLOUT_H_
