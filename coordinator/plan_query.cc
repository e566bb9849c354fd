#include "coordinator/plan_query.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "agent/baselines/baselines.h"
#include "coordinator/resources.h"
#include "env/core/error.h"
#include "env/core/units.h"

namespace weir::coordinator {
namespace {

double CorrectionOf(const PlanQuery& query, const std::string& fingerprint, const Placement& placement) {
  std::vector<std::string> names;
  for (WorkerId w : placement) names.push_back(query.workers[w]);
  return query.corrections.Factor(fingerprint, names);
}

// What looking ahead may cost; a decision that has begun is never cut short.
class Budget {
 public:
  explicit Budget(double patience) : patience_(patience), begin_(std::chrono::steady_clock::now()) {}
  void Take() { --decisions_; }
  // Why no more may be taken; empty: it may.
  std::string Spent() const {
    if (decisions_ <= 0) return fmt::format("not foreseeable: more than {} decisions ahead", kMostQueryDecisions);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() > patience_)
      return fmt::format("not foreseeable: more than {:g} s of looking ahead", patience_);
    return "";
  }

 private:
  int decisions_ = kMostQueryDecisions;
  double patience_;
  std::chrono::steady_clock::time_point begin_;
};

// One pass of the scheduler over `state`. `note` says why the future ends here, if it does.
void Pass(const PlanQuery& query, Scheduler* scheduler, Budget* budget, ClusterState* state, std::string* note) {
  const auto suited = [&](JobId job, WorkerId w) {
    if (job == query.plan.spec.id) return query.why_not[w].empty();
    const auto found = query.suited.find(job);
    return found == query.suited.end() || found->second[w];
  };
  while (note->empty()) {
    *note = budget->Spent();
    if (!note->empty()) break;
    Action action = scheduler->Decide(*state);
    budget->Take();
    if (action.kind == Action::Kind::kWait) return;
    if (const auto why = state->WhyIllegal(action)) {
      *note = fmt::format("illegal action of {}: {}", scheduler->name(), *why);
      break;
    }
    if (action.kind == Action::Kind::kPlace) {
      const auto allowed =
          OnAllowedWorkers(*state, action.job, action.placement, [&](WorkerId w) { return suited(action.job, w); });
      if (!allowed) break;  // no suited worker is free: the coordinator's pass ends here too
      action.placement = *allowed;
    }
    if (action.kind == Action::Kind::kMigrate &&
        !std::all_of(action.placement.begin(), action.placement.end(), [&](WorkerId w) { return suited(action.job, w); }))
      break;
    state->Apply(action);
    if (action.kind == Action::Kind::kPreempt) continue;
    const auto known = query.fingerprints.find(action.job);
    const std::string& fingerprint = action.job == query.plan.spec.id    ? query.plan.graph_fingerprint
                                     : known == query.fingerprints.end() ? std::string()
                                                                         : known->second;
    const double share = state->job(action.job).spec->evaluation_share;
    state->SetTimeFactor(action.job, (1 + share) * CorrectionOf(query, fingerprint, action.placement));
  }
  scheduler->Reset();  // the pass didn't end with its wait
}

bool AnyAvailable(const ClusterState& state) {
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    if (state.available(w)) return true;
  }
  return false;
}

// Some placement that holds the job now.
bool HasRoom(const PlanQuery& query, const ClusterState& state) {
  const Placement nowhere(query.plan.spec.subgraphs.size(), -1);
  return OnAllowedWorkers(state, query.plan.spec.id, nowhere, [&](WorkerId w) { return w >= 0 && query.why_not[w].empty(); })
      .has_value();
}

void AddWorkers(const PlanQuery& query, const ClusterState& state, wire::PlanQueryReply* reply) {
  const JobSpec& spec = query.plan.spec;
  for (WorkerId w = 0; w < state.num_workers(); ++w) {
    wire::PlannedWorker* row = reply->add_workers();
    row->set_name(query.workers[w]);
    row->set_free_memory_bytes(state.free_memory(w));
    const int residents = state.loads()[w].residents, most = state.worker(w).max_residents;
    if (!query.why_not[w].empty()) {
      row->set_why_not(query.why_not[w]);
    } else if (!state.available(w)) {
      row->set_why_not("takes no jobs now");
    } else if (residents >= most) {
      row->set_why_not(fmt::format("busy: {} of {} jobs", residents, most));
    } else if (!state.CanPlace(spec.id, Placement(spec.subgraphs.size(), w))) {
      row->set_why_not(fmt::format("the whole job needs {}, {} are free", FormatBytes(spec.total_memory_bytes()),
                                   FormatBytes(state.free_memory(w))));
    } else {
      ClusterState there = state;
      const Placement placement(spec.subgraphs.size(), w);
      there.Place(spec.id, placement);
      there.SetTimeFactor(spec.id, (1 + spec.evaluation_share) * CorrectionOf(query, query.plan.graph_fingerprint, placement));
      row->set_iteration_seconds(there.job(spec.id).iteration_time / (1 + spec.evaluation_share));
      row->set_finish_seconds(there.PredictedFinish(spec.id) - state.now());
    }
  }
}

}  // namespace

PlanOutcome Foresee(const PlanQuery& query, Scheduler* scheduler) {
  const JobSpec& spec = query.plan.spec;
  ClusterState state = query.state;
  state.AddJob(spec);
  scheduler->Reset();
  PlanOutcome out;
  Budget budget(query.patience);
  while (true) {
    if (AnyAvailable(state)) Pass(query, scheduler, &budget, &state, &out.note);
    const LiveJob& job = state.job(spec.id);
    if (out.start < 0 && job.running()) {
      out.start = state.now();
      out.placement = job.placement;
      out.correction = CorrectionOf(query, query.plan.graph_fingerprint, job.placement);
      out.iteration_seconds = job.iteration_time / (1 + spec.evaluation_share);
    }
    if (!out.note.empty()) return out;
    const SimTime next = state.NextEventTime();
    if (next == kNever) {
      out.note = out.start < 0 ? "it waits, and nothing will change" : "it was stopped, and nothing will change";
      return out;
    }
    state.AdvanceTo(std::max(next, state.now()));
    for (JobId id : state.CompletedJobs()) {
      if (id == spec.id) {
        out.finish = state.now();
        return out;
      }
      state.Finish(id);
    }
  }
}

wire::PlanQueryReply AnswerPlanQuery(const PlanQuery& query, Scheduler* scheduler) {
  const JobPlan& plan = query.plan;
  wire::PlanQueryReply reply;
  reply.set_iterations(plan.spec.iterations);
  reply.set_micro_batches(plan.spec.micro_batches);
  reply.set_overhead_seconds(plan.spec.overhead_seconds);
  reply.set_evaluation_share(plan.spec.evaluation_share);
  reply.set_cut_bytes(plan.cut_bytes);
  for (const std::string& warning : plan.warnings) reply.add_warnings(warning);
  if (!plan.fits()) {
    reply.set_why_waits(plan.why_not);
    return reply;
  }
  for (const SubgraphSpec& s : plan.spec.subgraphs) {
    wire::PlannedPart* part = reply.add_parts();
    part->set_flop(s.flop);
    part->set_memory_bytes(s.memory_bytes);
    part->set_param_bytes(s.param_bytes);
  }
  for (const ArcSpec& a : plan.spec.arcs) {
    wire::PlannedArc* arc = reply.add_arcs();
    arc->set_from(a.from);
    arc->set_to(a.to);
    arc->set_bytes(a.bytes);
  }
  const auto add = [&](Scheduler* asked) {
    const PlanOutcome outcome = Foresee(query, asked);
    wire::PlanChoice* choice = reply.add_choices();
    choice->set_scheduler(asked->name());
    for (WorkerId w : outcome.placement) choice->add_workers(query.workers[w]);
    choice->set_iteration_seconds(outcome.iteration_seconds);
    choice->set_correction(outcome.correction);
    choice->set_start_seconds(outcome.start < 0 ? -1 : outcome.start - query.state.now());
    choice->set_finish_seconds(outcome.finish < 0 ? -1 : outcome.finish - query.state.now());
    choice->set_note(outcome.note);
    return outcome;
  };
  ClusterState with_job = query.state;
  with_job.AddJob(plan.spec);
  const PlanOutcome own = add(scheduler);
  for (const char* name : {"fifo", "sjf", "greedy"}) {
    if (scheduler->name() != name) add(MakeBaseline(name).get());
  }
  if (own.start != query.state.now() || own.placement.empty()) {
    if (!query.why_never.empty()) {
      reply.set_why_waits(query.why_never);
    } else if (!HasRoom(query, with_job)) {
      reply.set_why_waits("the workers that suit it are busy");
    } else if (own.start < 0 && own.note.starts_with("not foreseeable")) {
      reply.set_why_waits(own.note);
    } else {
      reply.set_why_waits(fmt::format("there is room, but {} holds it", scheduler->name()));
    }
  }
  AddWorkers(query, with_job, &reply);
  return reply;
}

}  // namespace weir::coordinator
