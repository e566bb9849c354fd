// Workers, live jobs and the clock, under the model of iteration_time.h: what every scheduler sees, in the simulator (virtual
// clock) and in the coordinator (real clock). A plain value: a copy takes O(workers + live jobs) and is independent.
//
// Fluid progress: a placed job advances 1/T iterations a second from max(since, resume_at); T changes when residents or cut jobs
// of one of its workers change. Its predicted finish is max(since, resume_at) + (N - done) * T, never before now.
//   Place    after a preemption the job stands still for (all its memory)/(slowest NIC of its workers) + restart seconds.
//   Migrate  it stands still for (memory of the subgraphs that change worker)/(slowest NIC among their old and new workers)
//            + restart seconds. A job that stands still counts in n_w and c_w where it sits.
//            Both add the job's overhead_seconds.
//   Preempt  frees everything at once; progress is kept.
// Costs: a change at some workers recomputes the residents of those workers and nobody else; the finishes stand in a heap.
// Nothing finishes by itself: the owner of the clock calls Finish.
//
// REQUIRES of the mutating calls are checked (WEIR_CHECK); ask WhyNotPlaceable first where the placement comes from outside.
// Thread-compatible.
#ifndef WEIR_ENV_SIM_CLUSTER_STATE_H_
#define WEIR_ENV_SIM_CLUSTER_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "env/sim/action.h"
#include "env/sim/finish_queue.h"
#include "env/sim/iteration_time.h"
#include "env/sim/slot_map.h"
#include "env/sim/spec.h"

namespace weir {

// A job that arrived and hasn't left.
struct LiveJob {
  std::shared_ptr<const JobSpec> spec;
  std::uint64_t shape = 0;  // hash of what decides its iteration times: subgraphs, arcs, micro-batches, replicas
  JobId id = -1;
  int corun_class = CorunTable::kNoClass;
  SimTime arrival = 0;
  SimTime start = -1;     // first placement; < 0: never placed
  Placement placement;    // empty: waiting
  double iterations = 1;  // N: the true one, or what is believed in a state from WithEstimates
  double done = 0;        // iterations, at `since`
  SimTime since = 0;
  SimTime resume_at = 0;      // stands still until then
  double iteration_time = 0;  // T now; 0 while waiting
  double time_factor = 1;     // T over the model's: evaluations (1 + evaluation_share), corrections; see SetTimeFactor
  bool needs_reload = false;  // was preempted: the next Place reloads
  double run_seconds = 0;     // time placed, up to `since`
  int preemptions = 0;
  int migrations = 0;

  bool running() const { return !placement.empty(); }
};

class ClusterState {
 public:
  explicit ClusterState(std::vector<WorkerSpec> workers = {}, ModelOptions options = {}, SimTime now = 0);

  // ---- Clock
  SimTime now() const { return now_; }
  // Moves the clock. REQUIRES: time >= now() (an earlier time within 1e-9 is ignored).
  void AdvanceTo(SimTime time);
  // The least predicted finish, kNever where nothing runs.
  SimTime NextEventTime() const;
  // Running jobs whose predicted finish is at most now() + max(1e-9, 1e-9 * now()), in order of finish, then id.
  std::vector<JobId> CompletedJobs() const;

  // ---- Workers
  const ModelOptions& options() const { return options_; }
  int num_workers() const { return static_cast<int>(workers_.size()); }
  const WorkerSpec& worker(WorkerId w) const { return workers_[w]; }
  std::span<const WorkerSpec> workers() const { return workers_; }
  std::span<const WorkerLoad> loads() const { return loads_; }  // n_w and c_w now
  // May take new jobs. False once removed, or while drained.
  bool available(WorkerId w) const { return available_[w]; }
  double free_memory(WorkerId w) const;
  int free_residencies(WorkerId w) const;                                       // 0 while not available
  std::span<const JobId> residents(WorkerId w) const { return residents_[w]; }  // ascending
  // A hash of specs and availability: equal clusters, equal hash.
  std::uint64_t cluster_hash() const { return cluster_hash_ + options_hash_; }
  double total_flops() const;  // over available workers
  int total_slots() const;     // sum of max_residents over available workers
  // Some available worker has a free residency. O(1)
  bool AnyFreeResidency() const { return free_slots_on_workers_ > 0; }
  WorkerId AddWorker(WorkerSpec spec);
  // Drains (false) or resumes (true) a worker; residents run on.
  void SetWorkerAvailable(WorkerId w, bool available);
  // The worker is lost: its jobs are preempted and returned. It stays in the list, unavailable; UpdateWorker + SetWorkerAvailable
  // bring it back. Progress is kept; the next start reloads the state.
  std::vector<JobId> RemoveWorker(WorkerId w);
  // The worker slows down or was measured anew; residents' rates change from now on.
  void UpdateWorker(WorkerId w, WorkerSpec spec);

  // Links were measured anew; running jobs' rates change from now on. Null: no overrides.
  void SetLinks(std::shared_ptr<const LinkTable> links);

  // ---- Jobs
  // Arrival, at now(); spec.arrival is kept as the job's arrival. REQUIRES: a valid spec, an id never used before.
  void AddJob(JobSpec spec);
  void AddJob(std::shared_ptr<const JobSpec> spec);
  bool HasJob(JobId id) const { return SlotOf(id) >= 0; }
  const LiveJob& job(JobId id) const;  // REQUIRES: HasJob(id)
  int num_jobs() const { return static_cast<int>(index_.size()); }
  // Sum of co-run gains over the pairs of residents of w, without job `without` (-1: with all), and with one more of `added`'s
  // class (null: none). 0 unless options().corun is set.
  double PairGains(WorkerId w, JobId without, const LiveJob* added) const;
  // The load of w were `added` there too, with a cut arc.
  WorkerLoad LoadWith(WorkerId w, const LiveJob& added) const;
  std::span<const JobId> waiting() const { return waiting_; }  // by arrival, then id; preempted jobs stand at their arrival
  std::span<const JobId> running() const { return running_; }  // ascending id

  double IterationsDone(JobId id) const;                                       // now
  double RemainingIterations(JobId id) const;                                  // now, >= 0
  SimTime PredictedFinish(JobId id) const;                                     // kNever while waiting
  double RemainingTime(JobId id) const { return PredictedFinish(id) - now_; }  // rem_r of a running job
  double RunSeconds(JobId id) const;                                           // attained: time placed so far

  // Why the job can't be placed so now, as a clause without a full stop ("worker 2 lacks memory: ..."); nullopt where it can.
  // For a running job: as the target of a migration (what it holds now counts as free).
  std::optional<std::string> WhyNotPlaceable(JobId id, std::span<const WorkerId> placement) const;
  bool CanPlace(JobId id, std::span<const WorkerId> placement) const;
  // True where some placement on the empty cluster (available workers) holds the job: memory alone, exact up to packing effort.
  bool FitsEmptyCluster(const JobSpec& spec) const;

  void Place(JobId id, Placement placement);    // REQUIRES: waiting, CanPlace
  void Preempt(JobId id);                       // REQUIRES: running
  void Migrate(JobId id, Placement placement);  // REQUIRES: running, CanPlace, placement differs
  void Finish(JobId id);                        // REQUIRES: HasJob. Removes it and frees what it holds
  void Cancel(JobId id) { Finish(id); }
  // Corrections by real reports. Progress counts from now on; the job's other figures follow.
  void SetIterationsDone(JobId id, double iterations);
  void SetTimeFactor(JobId id, double factor);  // > 0; T = factor * model. A new job has
                                                // (1 + evaluation_share) * correction
  // The job stands still until `time` (e.g. because a real reload takes longer).
  void SetResumeAt(JobId id, SimTime time);

  // Applies an action of a scheduler; kWait does nothing. REQUIRES: the action is legal, see WhyIllegal.
  void Apply(const Action& action);
  std::optional<std::string> WhyIllegal(const Action& action) const;

  // ---- Predictions. None counts a reload.
  // T of the job on `placement` were it put there now: n+1 and c+1 on its workers, others unchanged.
  // For a running job: as after a migration (it leaves its present workers first).
  double IterationTimeIfPlaced(JobId id, std::span<const WorkerId> placement) const;
  // T' of running job `id` were `other` placed now on `other_placement`.
  double IterationTimeBeside(JobId id, const JobSpec& other, std::span<const WorkerId> other_placement) const;
  // Seconds the job would stand still after Place or Migrate.
  double StopSeconds(JobId id, std::span<const WorkerId> placement) const;

  // ---- Wrong estimates of N (JobSpec::estimated_iterations)
  // Some live job's N is not known to schedulers.
  bool has_estimates() const { return num_estimated_ > 0; }
  // What schedulers may see: this state with N of each such job replaced by its estimate, so that no prediction made from it
  // (finishes, remaining iterations, projections on copies) knows the truth. A job that reached its estimate is believed to need
  // kOverrunShare of it more. Takes O(workers + live jobs).
  ClusterState WithEstimates() const;
  static constexpr double kOverrunShare = 0.05;

  // ---- Arrivals seen, for estimates of load: exponential averages over about the last 20 arrivals; 0 before the second.
  double mean_gap() const { return mean_gap_; }    // seconds between arrivals
  double mean_work() const { return mean_work_; }  // N * F, FLOP
  double offered_load() const;                     // mean_work / (mean_gap * total_flops)

 private:
  int SlotOf(JobId id) const;  // -1: none
  LiveJob& Get(JobId id);
  void Settle(LiveJob* job);                       // brings done, run_seconds, since to now
  void Occupy(LiveJob* job, Placement placement);  // enters residents, memory, cuts; refreshes rates around
  void Vacate(LiveJob* job);
  void RefreshRates(std::span<const WorkerId> workers);  // of every resident there
  double DoneOf(const LiveJob& job) const;               // iterations, now
  void UpdateFinish(const LiveJob& job);
  void Recount(WorkerId w);  // after a change of its residents, spec or availability
  std::uint64_t WorkerHash(WorkerId w) const;
  void HashOptions();

  ModelOptions options_;
  SimTime now_ = 0;
  std::vector<WorkerSpec> workers_;
  std::uint64_t cluster_hash_ = 0;  // sum over workers of WorkerHash
  std::uint64_t options_hash_ = 0;
  int free_slots_on_workers_ = 0;  // sum of free_residencies
  std::vector<int> counted_free_;  // what each worker adds to it
  std::vector<WorkerLoad> loads_;
  std::vector<double> used_memory_;
  std::vector<char> available_;
  std::vector<std::vector<JobId>> residents_;
  std::vector<LiveJob> slots_;
  std::vector<int> free_slots_;
  SlotMap index_;
  std::vector<JobId> waiting_;
  std::vector<JobId> running_;
  FinishQueue finishes_;   // predicted, of the running jobs, by slot
  int num_estimated_ = 0;  // live jobs with an estimate
  double last_arrival_ = -1, mean_gap_ = 0, mean_work_ = 0;
};

// LiveJob::shape of a spec.
std::uint64_t ShapeHash(const JobSpec& spec);

}  // namespace weir

#endif  // WEIR_ENV_SIM_CLUSTER_STATE_H_
