// Random clusters, jobs, worker events and actions, legal ones of every kind: iterations are conserved, memory and residencies
// never broken, time never runs backwards, the reward sums to -(sum of JCT). WEIR_EPISODES sets their number (./run proof
// episodes).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "env/core/parallel.h"
#include "env/core/rng.h"
#include "env/mdp/scheduling_env.h"
#include "env/sim/simulator.h"

namespace weir {
namespace {

struct RandomWorld {
  std::vector<WorkerSpec> workers;
  std::vector<JobSpec> jobs;
  std::vector<WorkerEvent> events;
  ModelOptions options;
};

WorkerSpec RandomWorker(Rng* rng, int id) {
  return {"w" + std::to_string(id),
          rng->Uniform(1, 10),
          rng->Uniform(3, 12),
          rng->Uniform(0.5, 5),
          rng->Uniform(0, 0.2),
          rng->Uniform(0, 0.8),
          1 + static_cast<int>(rng->Below(4))};
}

RandomWorld MakeWorld(std::uint64_t seed) {
  using Kind = WorkerEvent::Kind;
  Rng rng(Mix64(seed, 77));
  RandomWorld world;
  const int workers = 1 + static_cast<int>(rng.Below(6)), jobs = 1 + static_cast<int>(rng.Below(12));
  for (int w = 0; w < workers; ++w) world.workers.push_back(RandomWorker(&rng, w));
  world.options.physical = rng.Below(4) == 0;
  world.options.restart_seconds = rng.Uniform(0, 3);
  if (workers > 1 && rng.Below(3) == 0) {
    auto links = std::make_shared<LinkTable>();
    for (int i = 0; i < 3; ++i) {
      const int a = static_cast<int>(rng.Below(workers)), b = static_cast<int>(rng.Below(workers));
      if (a != b) links->Set(a, b, {rng.Below(3) ? rng.Uniform(0.1, 8) : 0, rng.Below(3) ? rng.Uniform(0, 1) : -1});
    }
    world.options.links = links;
  }
  if (rng.Below(3) == 0) {
    auto corun = std::make_shared<CorunTable>();
    corun->Set("a", "b", rng.Uniform(-0.9, 1));
    corun->Set("b", "b", rng.Uniform(-0.9, 1));
    world.options.corun = corun;
  }
  for (int j = 0; j < jobs; ++j) {
    JobSpec job;
    job.id = j;
    job.arrival = rng.Below(4) == 0 && j > 0 ? world.jobs.back().arrival : rng.Uniform(0, 60);
    job.iterations = rng.Below(5) == 0 ? 1e9 : 1 + double(rng.Below(50));
    job.micro_batches = 1 << rng.Below(4);
    job.replicas = rng.Below(6) == 0 ? 2 : 1;
    job.job_class = rng.Below(2) ? "a" : "b";
    const int k = 1 + static_cast<int>(rng.Below(5));
    for (int s = 0; s < k; ++s) job.subgraphs.push_back({rng.Uniform(0, 4) + 0.1, rng.Uniform(0, 2.5), rng.Uniform(0, 1)});
    if (job.iterations == 1e9) {
      for (SubgraphSpec& s : job.subgraphs) s.flop /= 1e8;
    }
    for (int u = 0; u < k; ++u) {
      for (int v = u + 1; v < k; ++v) {
        if (rng.Below(2)) job.arcs.push_back({u, v, rng.Uniform(0, 1) / (job.iterations == 1e9 ? 1e8 : 1)});
      }
    }
    world.jobs.push_back(std::move(job));
  }
  int known = workers;
  std::vector<SimTime> times;
  for (int e = static_cast<int>(rng.Below(7)); e > 0; --e) times.push_back(rng.Uniform(0, 120));
  std::sort(times.begin(), times.end());
  for (SimTime t : times) {
    const auto kind = static_cast<Kind>(rng.Below(5));
    WorkerEvent event{t, kind, kind == Kind::kJoin ? known++ : static_cast<int>(rng.Below(known)), {}};
    if (kind == Kind::kJoin || kind == Kind::kChange) {
      event.spec = RandomWorker(&rng, event.worker);
      if (kind == Kind::kChange) event.spec.memory_bytes = 12;  // a smaller one might be overfull from then on
      if (kind == Kind::kChange) event.spec.max_residents = 4;
    }
    world.events.push_back(std::move(event));
  }
  for (WorkerId w = 0; w < known; ++w) world.events.push_back({200, Kind::kBack, w, {}});
  return world;
}

// Everything recomputed from placements alone, replicas and gains included.
std::string Broken(const ClusterState& state) {
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    double memory = 0;
    std::vector<const LiveJob*> here;
    int cuts = 0;
    for (JobId id : state.running()) {
      const LiveJob& job = state.job(id);
      const std::size_t k = job.spec->subgraphs.size();
      bool resident = false, cut = false;
      for (std::size_t i = 0; i < job.placement.size(); ++i) {
        if (job.placement[i] != w) continue;
        resident = true;
        memory += job.spec->subgraphs[i % k].memory_bytes;
      }
      for (const ArcSpec& arc : job.spec->arcs) cut = cut || (job.placement[arc.from] == w) != (job.placement[arc.to] == w);
      if (job.spec->replicas > 1) cut = resident;
      if (resident) here.push_back(&job);
      cuts += cut;
    }
    if (static_cast<int>(here.size()) > state.worker(w).max_residents) return "too many residents";
    if (memory > state.worker(w).memory_bytes * (1 + 1e-8)) return "memory overfull";
    if (state.loads()[w].residents != static_cast<int>(here.size())) return "residents miscounted";
    if (state.loads()[w].cut_jobs != cuts) return "cut jobs miscounted";
    if (std::abs(state.free_memory(w) - (state.worker(w).memory_bytes - memory)) > 1e-6) return "memory miscounted";
    double gains = 0;
    for (std::size_t i = 0; i < here.size() && state.options().corun; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const CorunTable& table = *state.options().corun;
        gains +=
            table.Gain(table.Find(here[i]->spec->job_class), table.Find(here[j]->spec->job_class), state.worker(w).corun_gain);
      }
    }
    if (std::abs(state.loads()[w].gain_sum - gains) > 1e-9) return "gains miscounted";
  }
  for (JobId id : state.running()) {
    const LiveJob& job = state.job(id);
    std::set<WorkerId> rows[2];
    for (std::size_t i = 0; i < job.placement.size() && job.spec->replicas == 2; ++i) {
      rows[i / job.spec->subgraphs.size()].insert(job.placement[i]);
    }
    for (WorkerId w : rows[0]) {
      if (rows[1].contains(w)) return "a worker in two replicas";
    }
    const double time = IterationTime(*job.spec, job.placement, state.workers(), state.loads(), state.options());
    if (std::abs(job.iteration_time - time) > 1e-12 * time) return "a stale iteration time";
    if (!(state.PredictedFinish(id) >= state.now())) return "a finish in the past";
  }
  if (state.num_jobs() != static_cast<int>(state.waiting().size() + state.running().size())) return "jobs miscounted";
  double first = kNever;
  for (JobId id : state.running()) first = std::min(first, state.PredictedFinish(id));
  if (first != state.NextEventTime()) return "the queue names another finish";
  return "";
}

Placement RandomPlacement(const JobSpec& job, int workers, Rng* rng) {
  Placement placement(job.subgraphs.size() * job.replicas);
  const WorkerId usual = static_cast<int>(rng->Below(workers));
  for (WorkerId& w : placement) w = rng->Below(2) ? usual : static_cast<int>(rng->Below(workers));
  if (job.replicas == 2 && rng->Below(2)) {
    const WorkerId other = static_cast<int>(rng->Below(workers));
    for (std::size_t i = 0; i < placement.size(); ++i) placement[i] = i < job.subgraphs.size() ? usual : other;
  }
  return placement;
}

// What the episodes did, so that holding isn't holding of nothing.
struct Tally {
  long finished = 0, places = 0, preempts = 0, migrates = 0, lost = 0, splits = 0, replicas = 0;
};

// Plays one; returns what broke, or "".
std::string PlayOne(std::uint64_t seed, Tally* tally) {
  const RandomWorld world = MakeWorld(seed);
  Rng rng(Mix64(seed, 99));
  const auto source = [&](std::uint64_t) {
    Episode episode{world.workers, MakeWorkload(world.jobs), world.events};
    return episode;
  };
  // Jobs that fit nowhere at any time would wait for ever; they stay unfinished and are counted.
  Simulator simulator(world.workers, MakeWorkload(world.jobs), world.options, world.events);
  std::map<JobId, double> integral;  // iterations that time alone accounts for
  double rewards = 0;
  while (true) {
    const ClusterState before = simulator.state();
    const double seconds = simulator.job_seconds();
    if (!simulator.Advance()) break;
    const ClusterState& state = simulator.state();
    rewards -= simulator.job_seconds() - seconds;
    if (state.now() < before.now()) return "time runs backwards";
    for (JobId id : before.running()) {
      const LiveJob& job = before.job(id);
      const double moving = std::max(0.0, state.now() - std::max(before.now(), job.resume_at));
      integral[id] += moving / job.iteration_time;
      const double total = job.spec->iterations;
      const double done = state.HasJob(id) ? state.IterationsDone(id) : total;
      // The clock resolves 1e-9 of its reading: completions that near count as now.
      const double resolution = 2e-9 * std::max(1.0, state.now()) / job.iteration_time;
      if (std::abs(done - integral[id]) > 1e-8 * total + resolution) {
        return fmt::format("job {}: {:.12g} iterations done, {:.12g} accounted for", id, done, integral[id]);
      }
    }
    for (JobId id : before.running()) tally->lost += state.HasJob(id) && !state.job(id).running();
    if (std::string broken = Broken(state); !broken.empty()) return broken;
    for (int tries = 0; tries < 8; ++tries) {
      const std::size_t live = state.waiting().size() + state.running().size();
      if (live == 0) break;
      const double dice = rng.Uniform();
      Action action;
      if (dice < 0.06 && !state.running().empty()) {
        action = Action::Preempt(state.running()[rng.Below(state.running().size())]);
      } else if (dice < 0.2 && !state.running().empty()) {
        const JobId id = state.running()[rng.Below(state.running().size())];
        action = Action::Migrate(id, RandomPlacement(*state.job(id).spec, state.num_workers(), &rng));
      } else if (!state.waiting().empty()) {
        const JobId id = state.waiting()[rng.Below(state.waiting().size())];
        action = Action::Place(id, RandomPlacement(*state.job(id).spec, state.num_workers(), &rng));
      }
      if (state.WhyIllegal(action)) continue;
      const double done = action.kind == Action::Kind::kWait ? 0 : state.IterationsDone(action.job);
      if (action.kind == Action::Kind::kPlace) {
        const auto& p = action.placement;
        (state.job(action.job).spec->replicas > 1 ? tally->replicas : tally->splits) +=
            std::any_of(p.begin(), p.end(), [&](WorkerId w) { return w != p[0]; });
      }
      simulator.Apply(action);
      tally->places += action.kind == Action::Kind::kPlace;
      tally->preempts += action.kind == Action::Kind::kPreempt;
      tally->migrates += action.kind == Action::Kind::kMigrate;
      if (action.kind != Action::Kind::kWait && state.HasJob(action.job) && state.IterationsDone(action.job) != done)
        return "an action changes progress";
      if (std::string broken = Broken(state); !broken.empty()) return broken;
    }
    if (simulator.NextEventTime() == kNever && !simulator.Done()) {  // all wait: place one where memory allows
      for (int tries = 0; tries < 3000 && simulator.NextEventTime() == kNever && !state.waiting().empty(); ++tries) {
        const JobId id = state.waiting()[rng.Below(state.waiting().size())];
        const Action action = Action::Place(id, RandomPlacement(*state.job(id).spec, state.num_workers(), &rng));
        if (!state.WhyIllegal(action)) simulator.Apply(action);
      }
    }
  }
  double sum = 0;
  for (const JobRecord& record : simulator.records()) {
    if (record.finished()) {
      if (record.start < record.arrival || record.finish < record.start) return "start or finish out of order";
      sum += record.jct();
      ++tally->finished;
    } else {
      sum += simulator.state().now() - record.arrival;
    }
  }
  if (std::abs(-rewards - sum) > 1e-9 * sum) return fmt::format("rewards {:.15g}, sum of JCT {:.15g}", rewards, sum);

  // The log replays to the same, and so does a run through the environment.
  Simulator again(world.workers, MakeWorkload(world.jobs), world.options, world.events);
  Replay(&again, simulator.actions(), "log");
  for (std::size_t i = 0; i < simulator.records().size(); ++i) {
    if (again.records()[i].finish != simulator.records()[i].finish) return "the log replays to another result";
  }
  SchedulingEnv env(source, {}, world.options);
  env.Reset(1);
  for (int steps = 0; !env.done(); ++steps) {
    if (steps > 100000) return "an episode without end";
    const Observation& o = env.observation();
    int chosen = static_cast<int>(rng.Below(o.actions.size()));
    while (!o.mask[chosen]) chosen = (chosen + 1) % o.num_actions();
    env.Step(chosen);
  }
  sum = 0;
  for (const JobRecord& record : env.simulator().records()) {
    sum += (record.finished() ? record.finish : env.state().now()) - record.arrival;
  }
  if (std::abs(env.total_reward() + sum) > 1e-9 * sum) return "the environment's rewards don't sum to -(sum of JCT)";
  return "";
}

TEST(RandomEpisodesTest, NothingIsEverBroken) {
  const char* wanted = std::getenv("WEIR_EPISODES");
  const int count = wanted ? std::atoi(wanted) : 2000;
  std::vector<std::string> broken(count);
  std::vector<Tally> tallies(count);
  ParallelFor(0, count, [&](int i) { broken[i] = PlayOne(static_cast<std::uint64_t>(i), &tallies[i]); });
  Tally all;
  for (const Tally& t : tallies) {
    all.finished += t.finished;
    all.places += t.places;
    all.preempts += t.preempts;
    all.migrates += t.migrates;
    all.lost += t.lost;
    all.splits += t.splits;
    all.replicas += t.replicas;
  }
  for (int i = 0; i < count; ++i) ASSERT_EQ(broken[i], "") << "seed " << i;
  std::printf(
      "%d episodes hold: %ld jobs finished, %ld placements (%ld split, %ld of replicas), %ld preemptions, %ld migrations, %ld "
      "jobs put out by a lost worker\n",
      count, all.finished, all.places, all.splits, all.replicas, all.preempts, all.migrates, all.lost);
  EXPECT_GT(all.finished, 3 * count);
  for (long n : {all.splits, all.replicas, all.preempts, all.migrates, all.lost}) EXPECT_GT(10 * n, count);
}

}  // namespace
}  // namespace weir
