// Where a job would run, without submitting it: the job on a copy of the cluster's state, a scheduler asked about it, and the
// future that follows if nothing else arrives. The rules of a pass are those of DecisionLoop::Decide. Pure: no socket, no clock.
#ifndef WEIR_COORDINATOR_PLAN_QUERY_H_
#define WEIR_COORDINATOR_PLAN_QUERY_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coordinator/corrections.h"
#include "coordinator/planning.h"
#include "env/mdp/scheduler.h"
#include "env/sim/cluster_state.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

struct PlanQuery {
  ClusterState state;  // a copy, without the job
  JobPlan plan;        // of the job; spec.id isn't in `state`, spec.arrival = state.now(); spec.overhead_seconds is set
  std::vector<std::string> workers;  // names, by WorkerId
  std::vector<std::string> why_not;  // by WorkerId: why it takes no part of the job, however free it is; empty: it may
  std::string why_never;             // why the job could never start on these workers; empty: it could
  Corrections corrections;           // empty: none
  // Seconds of computing after which a scheduler is asked no more. Looked at between decisions: a single one may take longer.
  double patience = kNever;
  // Of the jobs in `state`: what tells their correction, and which workers suit them (none given: all do).
  std::map<JobId, std::string> fingerprints;
  std::map<JobId, std::vector<bool>> suited;
};

// What one scheduler does with the job. Times are those of the state's clock; < 0: not at all, or not foreseeable.
struct PlanOutcome {
  Placement placement;           // at its start, by subgraph; empty: it never starts
  double iteration_seconds = 0;  // at its start, without evaluations, with the correction
  double correction = 1;
  double start = -1;
  double finish = -1;
  std::string note;  // why there is no start or finish
};

// Decisions that are looked ahead before a future counts as not foreseeable.
inline constexpr int kMostQueryDecisions = 2000;

// Resets the scheduler first. Deterministic but for `patience`. REQUIRES: plan.fits().
PlanOutcome Foresee(const PlanQuery& query, Scheduler* scheduler);

// The whole answer; its first choice is `scheduler`'s, the others are those of fifo, sjf and greedy. The time fields of a choice
// are relative to the state's clock. A plan that doesn't fit gives parts and choices none, and why.
wire::PlanQueryReply AnswerPlanQuery(const PlanQuery& query, Scheduler* scheduler);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_PLAN_QUERY_H_
