#include "agent/train/rollout.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <thread>

#include "agent/baselines/baselines.h"
#include "agent/policy/policy.h"
#include "env/core/check.h"
#include "env/core/rng.h"

namespace weir {

void SampleStore::Add(const Observation& o, int chosen, float log_prob) {
  Sample s;
  s.actions = action_jobs.size();
  s.jobs = job_features.size() / kJobFeatures;
  s.workers = worker_features.size() / kWorkerFeatures;
  s.pairs = pair_actions.size();
  s.log_prob = log_prob;
  for (int a = 0; a < o.num_actions(); ++a) {
    if (!o.mask[a]) continue;
    if (a == chosen) s.chosen = s.num_actions;
    const auto row = o.action_features.begin() + static_cast<long>(a) * kCandidateFeatures;
    action_features.insert(action_features.end(), row, row + kCandidateFeatures);
    action_jobs.push_back(o.action_job[a]);
    for (int i = o.action_worker_begin[a]; i < o.action_worker_begin[a + 1]; ++i) {
      pair_actions.push_back(s.num_actions);
      pair_workers.push_back(o.action_workers[i]);
      ++s.num_pairs;
    }
    ++s.num_actions;
  }
  job_features.insert(job_features.end(), o.job_features.begin(), o.job_features.end());
  worker_features.insert(worker_features.end(), o.worker_features.begin(), o.worker_features.end());
  global_features.insert(global_features.end(), o.global_features.begin(), o.global_features.end());
  s.num_jobs = static_cast<int>(o.job_ids.size());
  s.num_workers = static_cast<int>(o.worker_features.size()) / kWorkerFeatures;
  samples.push_back(s);
}

void SampleStore::Append(const SampleStore& other) {
  const std::size_t actions = action_jobs.size(), jobs = job_features.size() / kJobFeatures;
  const std::size_t workers = worker_features.size() / kWorkerFeatures, pairs = pair_actions.size();
  for (Sample s : other.samples) {
    s.actions += actions;
    s.jobs += jobs;
    s.workers += workers;
    s.pairs += pairs;
    samples.push_back(s);
  }
  auto append = [](auto* to, const auto& from) { to->insert(to->end(), from.begin(), from.end()); };
  append(&action_features, other.action_features);
  append(&job_features, other.job_features);
  append(&worker_features, other.worker_features);
  append(&global_features, other.global_features);
  append(&action_jobs, other.action_jobs);
  append(&pair_actions, other.pair_actions);
  append(&pair_workers, other.pair_workers);
}

namespace {

// Index of the chosen action, and its log-probability.
std::pair<int, float> Draw(const Observation& o, const std::vector<float>& scores, Rng* rng) {
  double greatest = -1e30;
  for (int a = 0; a < o.num_actions(); ++a) {
    if (o.mask[a]) greatest = std::max(greatest, static_cast<double>(scores[a]));
  }
  double sum = 0;
  for (int a = 0; a < o.num_actions(); ++a) {
    if (o.mask[a]) sum += std::exp(scores[a] - greatest);
  }
  double left = rng->Uniform() * sum;
  int chosen = -1;
  for (int a = 0; a < o.num_actions(); ++a) {
    if (!o.mask[a]) continue;
    chosen = a;
    left -= std::exp(scores[a] - greatest);
    if (left < 0) break;
  }
  return {chosen, static_cast<float>(scores[chosen] - greatest - std::log(sum))};
}

int CountLegal(const Observation& o, int* last) {
  int legal = 0;
  for (int a = 0; a < o.num_actions(); ++a) {
    if (o.mask[a]) {
      ++legal;
      *last = a;
    }
  }
  return legal;
}

// Shared by both players: asks `choose(observation)` for an index (it may keep a sample), or an action where it returns -1.
template <typename Choose>
Rollout Play(const EpisodeSource& source, std::uint64_t seed, bool keep, Choose choose) {
  SchedulingEnv env(source);
  env.Reset(seed);
  Rollout rollout;
  Action other;
  while (!env.done()) {
    const double now = env.state().now();
    const std::size_t before = rollout.store.samples.size();
    const int index = choose(env, &rollout, &other);
    if (rollout.store.samples.size() > before) rollout.sample_times.push_back(now);
    const auto step = index >= 0 ? env.Step(index) : env.StepAction(other);
    if (keep && step.elapsed > 0) {
      rollout.times.push_back(now);
      rollout.jobs_in_system.push_back(-step.reward / step.elapsed);
    }
  }
  rollout.times.push_back(env.state().now());
  rollout.jobs_in_system.push_back(0);
  const auto& records = env.simulator().records();
  rollout.jobs = static_cast<int>(records.size());
  for (const JobRecord& record : records) {
    WEIR_CHECK(record.finished()) << "job" << record.id << "of training episode" << seed << "was never placed";
    rollout.last_arrival = std::max(rollout.last_arrival, record.arrival);
  }
  rollout.mean_jct = -env.total_reward() / rollout.jobs;
  return rollout;
}

}  // namespace

Rollout PlayPolicy(const EpisodeSource& source, std::uint64_t seed, FloatNetwork* network, Mode mode, std::uint64_t draw_seed,
                   bool keep) {
  Rng rng(draw_seed);
  std::vector<float> scores;
  return Play(source, seed, keep, [&](const SchedulingEnv& env, Rollout* rollout, Action*) {
    const Observation& o = env.observation();
    int only = 0;
    if (CountLegal(o, &only) == 1) return only;
    network->Score(o, &scores, nullptr);
    const int best = BestAction(o, scores);
    WEIR_CHECK(best >= 0) << "a score is not finite";
    if (mode == Mode::kBest) return best;
    const auto [chosen, log_prob] = Draw(o, scores, &rng);
    if (keep) rollout->store.Add(o, chosen, log_prob);
    return chosen;
  });
}

Rollout PlayTeacher(const EpisodeSource& source, std::uint64_t seed, const std::string& teacher, FloatNetwork* student,
                    std::uint64_t draw_seed, bool keep) {
  Rng rng(draw_seed);
  const std::unique_ptr<Scheduler> scheduler = MakeBaseline(teacher);
  scheduler->Reset();
  std::vector<float> scores;
  return Play(source, seed, keep, [&](const SchedulingEnv& env, Rollout* rollout, Action* other) {
    const Observation& o = env.observation();
    int only = 0;
    if (CountLegal(o, &only) == 1 && student) return only;
    if (student) scheduler->Reset();  // the states it sees aren't those of its own episode
    const Action action = DecideOn(env.state(), scheduler.get());
    int label = -1;
    for (int a = 0; a < o.num_actions(); ++a) {
      if (o.mask[a] && o.actions[a] == action) {
        label = a;
        break;
      }
    }
    if (label < 0) ++rollout->unmatched;
    if (keep && label >= 0 && CountLegal(o, &only) > 1) rollout->store.Add(o, label, 0);
    if (student) {
      student->Score(o, &scores, nullptr);
      return Draw(o, scores, &rng).first;
    }
    *other = action;
    return label;
  });
}

void SetAdvantages(std::vector<Rollout>* siblings, double tau) {
  const std::size_t n = siblings->size();
  WEIR_CHECK_GT(n, 1u);
  // Cost to go at each event time, backward.
  std::vector<std::vector<double>> costs(n);
  for (std::size_t r = 0; r < n; ++r) {
    const Rollout& rollout = (*siblings)[r];
    costs[r].assign(rollout.times.size(), 0.0);
    for (std::size_t i = rollout.times.size() - 1; i-- > 0;) {
      const double decay = std::exp(-(rollout.times[i + 1] - rollout.times[i]) / tau);
      costs[r][i] = rollout.jobs_in_system[i] * (1 - decay) + decay * costs[r][i + 1];
    }
  }
  auto cost_at = [&](std::size_t r, double time) {
    const Rollout& rollout = (*siblings)[r];
    const auto after = std::upper_bound(rollout.times.begin(), rollout.times.end(), time);
    if (after == rollout.times.end()) return 0.0;
    const std::size_t next = static_cast<std::size_t>(after - rollout.times.begin());
    const double n_now = next == 0 ? 0.0 : rollout.jobs_in_system[next - 1];
    const double decay = std::exp(-(rollout.times[next] - time) / tau);
    return n_now * (1 - decay) + decay * costs[r][next];
  };
  double total = 0;
  long count = 0;
  for (std::size_t r = 0; r < n; ++r) {
    Rollout& rollout = (*siblings)[r];
    for (std::size_t k = 0; k < rollout.store.samples.size(); ++k) {
      const double time = rollout.sample_times[k];
      const double own = cost_at(r, time);
      double others = 0;
      for (std::size_t q = 0; q < n; ++q) {
        if (q != r) others += cost_at(q, time);
      }
      others /= static_cast<double>(n - 1);
      rollout.store.samples[k].advantage = static_cast<float>(others - own);
      rollout.store.samples[k].target = static_cast<float>(std::log1p(own));
      total += others;
      ++count;
    }
  }
  const double scale = count > 0 && total > 0 ? total / static_cast<double>(count) : 1;
  for (Rollout& rollout : *siblings) {
    for (SampleStore::Sample& sample : rollout.store.samples) sample.advantage /= static_cast<float>(scale);
  }
}

}  // namespace weir
