#include "coordinator/dispatch.h"

#include "env/core/check.h"

namespace weir::coordinator {

StagePlan MergeStages(const JobSpec& spec, const Placement& placement) {
  WEIR_CHECK_EQ(placement.size(), spec.subgraphs.size());
  StagePlan plan;
  for (std::size_t k = 0; k < placement.size(); ++k) {
    if (k == 0 || placement[k] != placement[k - 1]) plan.stages.push_back({.worker = placement[k]});
    plan.stages.back().flop += spec.subgraphs[k].flop;
    plan.stages.back().memory_bytes += spec.subgraphs[k].memory_bytes;
    plan.stage_of_subgraph.push_back(static_cast<int>(plan.stages.size()) - 1);
  }
  return plan;
}

wire::Assign MakeAssign(const wire::SubmitRequest& submit, const JobPlan& plan, const StagePlan& stages, int stage,
                        std::int64_t job, int attempt, const std::vector<std::string>& bulk_address) {
  wire::Assign assign;
  assign.mutable_key()->set_job(job);
  assign.mutable_key()->set_attempt(attempt);
  assign.mutable_key()->set_stage(stage);
  assign.set_job_name(submit.name());
  assign.set_model_artifact(submit.model_artifact());
  assign.set_model_format(submit.model_format());
  assign.set_model_name(submit.model_name());
  *assign.mutable_train() = submit.train();
  assign.mutable_train()->set_iterations(plan.spec.iterations);
  assign.mutable_train()->mutable_data()->clear_sample_shape();
  for (std::int64_t d : plan.sample_shape) assign.mutable_train()->mutable_data()->add_sample_shape(d);
  assign.set_graph_fingerprint(plan.graph_fingerprint);
  for (int part : plan.part_of) assign.add_stage_of(stages.stage_of_subgraph[part]);
  assign.set_num_stages(static_cast<int>(stages.stages.size()));
  for (const std::string& address : bulk_address) assign.add_peers(address);
  assign.set_iteration_flop(stages.stages[stage].flop);
  assign.set_memory_bytes(stages.stages[stage].memory_bytes);
  return assign;
}

}  // namespace weir::coordinator
