#include "coordinator/run_log.h"

#include <cstdint>

namespace weir::coordinator {

EventLog::Fields StartFields(const ModelOptions& model, const std::string& scheduler) {
  return {{"physical", model.physical}, {"restart_seconds", model.restart_seconds}, {"scheduler", scheduler}};
}

EventLog::Fields WorkerFields(const WorkerSpec& spec, WorkerId id) {
  return {{"worker", std::int64_t{id}},    {"name", spec.name},
          {"flops", spec.flops},           {"memory", spec.memory_bytes},
          {"bandwidth", spec.bandwidth},   {"latency", spec.latency},
          {"corun_gain", spec.corun_gain}, {"max_residents", std::int64_t{spec.max_residents}}};
}

EventLog::Fields PlanFields(const JobSpec& spec, const std::string& model) {
  std::vector<double> flop, memory, params, arcs;
  for (const SubgraphSpec& s : spec.subgraphs) {
    flop.push_back(s.flop);
    memory.push_back(s.memory_bytes);
    params.push_back(s.param_bytes);
  }
  for (const ArcSpec& a : spec.arcs) {
    arcs.push_back(a.from);
    arcs.push_back(a.to);
    arcs.push_back(a.bytes);
  }
  return {{"job", std::int64_t{spec.id}},
          {"model", model},
          {"iterations", spec.iterations},
          {"micro_batches", std::int64_t{spec.micro_batches}},
          {"evaluation_share", spec.evaluation_share},
          {"flop", flop},
          {"memory", memory},
          {"param_bytes", params},
          {"arcs", arcs}};
}

EventLog::Fields PlaceFields(const wire::JobInfo& info, const Placement& placement, std::vector<std::string> names) {
  return {{"job", std::int64_t{info.job()}},   {"workers", placement},
          {"names", std::move(names)},         {"iteration_seconds", info.predicted_iteration_seconds()},
          {"finish", info.predicted_finish()}, {"overhead_seconds", info.predicted_overhead_seconds()},
          {"correction", info.correction()}};
}

EventLog::Fields FinishFields(const wire::JobInfo& info) {
  return {{"job", std::int64_t{info.job()}},
          {"jct", info.finish() - info.arrival()},
          {"iteration_seconds", info.measured_iteration_seconds()},
          {"overhead_seconds", info.measured_overhead_seconds()}};
}

}  // namespace weir::coordinator
