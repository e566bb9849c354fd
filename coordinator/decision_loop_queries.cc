// Questions about jobs that aren't submitted: planned like a submit, then answered beside the loop on a copy of its state.
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/decision_loop.h"
#include "coordinator/plan_query.h"
#include "coordinator/resources.h"
#include "env/core/error.h"

namespace weir::coordinator {

using worker::MessageType;

void DecisionLoop::OnPlanQuery(const std::string& peer, const wire::PlanQueryRequest& request) {
  if (const std::string missing = MissingFile(request.submit()); !missing.empty()) {
    wire::PlanQueryReply reply;
    reply.set_error(missing);
    reply.set_exit_code(static_cast<int>(ExitCode::kInvalid));
    Send(peer, MessageType::kPlanQueryReply, reply);
    return;
  }
  const std::string token = fmt::format("query {}", ++query_sequence_);
  queries_[token] = {peer, request.submit()};
  hooks_.plan(token, MakePlanRequest(request.submit()));
}

void DecisionLoop::AnswerQuery(const std::string& peer, const wire::SubmitRequest& submit, JobPlan plan) {
  auto query = std::make_shared<PlanQuery>();
  plan.spec.id = next_id_;
  plan.spec.name = submit.name();
  plan.spec.arrival = state_.now();
  plan.spec.overhead_seconds = corrections_.Overhead(plan.graph_fingerprint);
  query->state = state_;
  query->patience = 5;
  if (plan.fits()) query->why_never = WhyNever(plan.spec, submit);
  if (options_.corrections) query->corrections = corrections_;
  for (const WorkerEntry& w : workers_.entries()) {
    query->workers.push_back(w.spec.worker());
    const auto unsuited = WhyNotSuited(submit, w.spec);
    std::string why;
    if (w.state != WorkerEntry::State::kReady) {
      why = std::string(StateName(w.state));
    } else if (w.bench_until >= 0) {
      why = "measures itself";
    } else if (unsuited) {
      why = *unsuited;
    }
    query->why_not.push_back(std::move(why));
  }
  std::vector<JobId> live(state_.waiting().begin(), state_.waiting().end());
  live.insert(live.end(), state_.running().begin(), state_.running().end());
  for (JobId id : live) {
    const Job& job = jobs_.at(id);
    if (job.plan) query->fingerprints[id] = job.plan->graph_fingerprint;
    const wire::SubmitRequest& asks = job.stored.request;
    if (asks.gpus() <= 0 && asks.min_link() <= 0 && (asks.arch().empty() || asks.arch() == "any")) continue;  // nearly all
    std::vector<bool>& suited = query->suited[id];
    for (const WorkerEntry& w : workers_.entries()) suited.push_back(Allowed(job, w.id));
  }
  query->plan = std::move(plan);
  auto reply = std::make_shared<wire::PlanQueryReply>();
  hooks_.background(
      [query, reply, make = hooks_.make_scheduler] {
        try {
          if (query->plan.fits()) CheckSpec(query->plan.spec, "plan");
          *reply = AnswerPlanQuery(*query, make().get());
        } catch (const Error& e) {
          reply->set_error(e.what());
          reply->set_exit_code(static_cast<int>(e.code()));
        } catch (const std::exception& e) {
          reply->set_error(e.what());
          reply->set_exit_code(static_cast<int>(ExitCode::kInfrastructure));
        }
      },
      [this, peer, reply] {
        reply->set_policy_hash(options_.policy_hash);
        Send(peer, MessageType::kPlanQueryReply, *reply);
      });
}

}  // namespace weir::coordinator
