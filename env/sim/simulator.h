// Runs an episode on a virtual clock: arrivals, completions and changes of workers in order of time, decisions from outside (a
// scheduler through env/mdp, or a replay log). Deterministic. A plain value: a copy is independent and costs O(jobs of the
// episode); Save and Restore cost O(live jobs).
//
// Order at one instant: completions (those within 1e-9, relative, at least 1 ns, count as now), changes of workers, arrivals,
// decisions. A job on a lost worker goes back to waiting with the iterations that it has done.
#ifndef WEIR_ENV_SIM_SIMULATOR_H_
#define WEIR_ENV_SIM_SIMULATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "env/core/event_log.h"
#include "env/sim/cluster_state.h"
#include "env/sim/worker_event.h"

namespace weir {

// What an episode leaves of a job.
struct JobRecord {
  JobId id = 0;
  SimTime arrival = 0;
  SimTime start = -1;   // first placement; < 0: never
  SimTime finish = -1;  // < 0: never
  Placement workers;    // the last placement
  int preemptions = 0;
  int migrations = 0;
  bool finished() const { return finish >= 0; }
  double jct() const { return finish - arrival; }  // REQUIRES: finished()
};

using Workload = std::vector<std::shared_ptr<const JobSpec>>;
// Shares ownership of each job; the episodes of one workload don't copy it.
Workload MakeWorkload(std::vector<JobSpec> jobs);

class Simulator {
 public:
  // `jobs` in any order; they arrive by (arrival, id). `events` stably sorted by time; CheckEvents says what else they must hold.
  // REQUIRES: valid specs, distinct ids.
  Simulator(std::vector<WorkerSpec> workers, Workload jobs, ModelOptions options = {}, std::vector<WorkerEvent> events = {});

  // Goes on from a copy of any state (a snapshot, the coordinator's), with `future` arrivals not before state.now(). Records
  // cover the live and the future jobs. Costs O(live jobs + future jobs): what lookahead uses.
  Simulator(ClusterState state, Workload future, std::vector<WorkerEvent> events = {});

  const ClusterState& state() const { return state_; }
  // Every job has finished.
  bool Done() const { return finished_.size() == records_.size(); }
  // Moves to the next arrival, completion or change of a worker and handles all events of that instant. False: there is none
  // (done, or all jobs that are left wait for a placement).
  bool Advance();
  SimTime NextEventTime() const;  // of Advance; kNever: none
  // Takes an action at the present instant. REQUIRES: legal. A job that it brings within the tolerance of its end (a neighbour
  // that leaves may) completes at once, as it would before a command of the same instant in a replayed log.
  void Apply(const Action& action);
  // A recorded run's attempt ended and lost its progress down to `iterations`. REQUIRES: the job is here.
  void SetIterationsDone(JobId id, double iterations) { state_.SetIterationsDone(id, iterations); }
  // Handles events up to and including `time`, then sets the clock to it.
  void AdvanceTo(SimTime time);

  // By the workload's order of ids; complete once Done().
  const std::vector<JobRecord>& records() const { return records_; }
  const std::vector<TimedAction>& actions() const { return actions_; }  // all that were applied, in order
  double job_seconds() const { return job_seconds_; }  // integral of (jobs in system) dt so far; the sum of JCT once Done()
  long num_events() const { return num_events_; }      // arrivals, completions, changes of workers and applied actions
  // Every event is also written there until the log's end of life; null: none. Copies share the pointer.
  void set_event_log(EventLog* log) { log_ = log; }
  void set_keep_actions(bool keep) { keep_actions_ = keep; }  // default true

  // ---- Snapshots of a running episode, O(live jobs + workers), for lookahead: save, try something, restore, try something else.
  class Snapshot {
   private:
    friend class Simulator;
    ClusterState state;
    std::size_t next_arrival = 0, next_event = 0, num_finished = 0, num_actions = 0;
    long num_events = 0;
    double job_seconds = 0;
    std::vector<std::pair<JobId, Placement>> preempted;  // waiting jobs that were placed before: where
  };
  Snapshot Save() const;
  // Back to the instant of Save, records and actions included; costs O(live jobs then + arrivals and completions since).
  // REQUIRES: saved by this simulator (or the one it was copied from), and not undone since by restoring an earlier one.
  void Restore(const Snapshot& snapshot);

 private:
  void MoveClock(SimTime time);
  void LogAction(const Action& action);
  bool HandleCompletions();
  bool HandleWorkerEvents();  // whether there were any
  void HandleArrivals();
  void Remember(JobId id);  // what the record says of a live job
  JobRecord& RecordOf(JobId id);

  ClusterState state_;
  std::shared_ptr<const Workload> arrivals_;  // by (arrival, id)
  std::size_t next_arrival_ = 0;
  std::shared_ptr<const std::vector<WorkerEvent>> events_;
  std::size_t next_event_ = 0;
  std::vector<JobRecord> records_;
  std::vector<TimedAction> actions_;
  std::vector<JobId> finished_;  // in order
  long num_events_ = 0;
  double job_seconds_ = 0;
  bool keep_actions_ = true;
  EventLog* log_ = nullptr;
};

// Applies `log` (stably sorted by time) at its times and runs to the end. Throws Error(kInvalid) naming the entry for one that is
// illegal at its time; `source` stands before it, e.g. "F.log".
void Replay(Simulator* simulator, const std::vector<TimedAction>& log, const std::string& source);

}  // namespace weir

#endif  // WEIR_ENV_SIM_SIMULATOR_H_
