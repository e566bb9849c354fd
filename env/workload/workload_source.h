// What a workload file (configs/workloads/*.yaml) stands for: a random mix (generator.h), or a recorded trace whose jobs get
// profiles of a mix. Keys: configs/README.md.
//
// A trace's episode of n jobs: the recorded jobs are cut into windows of n; seed s takes window s mod (number of windows) and
// draws the profiles. A job whose model the mix knows (by its own name or through `models`) gets a profile of that model, any
// other one of a model drawn by weight. D = its duration (unknown: drawn by the mix's law), g = its GPUs:
//   N = round(D * g * reference / F)     gpus: work (a job of g GPUs is g times the work) or replicas (and has g replicas);
//   N = round(D * reference / F)         gpus: ignore
// or the recorded iterations where it has them and no duration. Load: with rho = sum of N*F / (span of arrivals * sum of flops)
// all arrival offsets are multiplied by rho / load; durations stay.
#ifndef WEIR_ENV_WORKLOAD_WORKLOAD_SOURCE_H_
#define WEIR_ENV_WORKLOAD_WORKLOAD_SOURCE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "env/workload/generator.h"
#include "env/workload/trace.h"

namespace weir {

struct DrawnWorkload {
  Workload jobs;
  double arrival_factor = 1;         // what a trace's arrival offsets were multiplied by
  int unplaceable = 0;               // jobs of the trace that fit nowhere on this cluster, left out; ids keep their numbers
  std::vector<std::string> notices;  // a line each
};

class WorkloadSource {
 public:
  enum class Gpus { kWork, kReplicas, kIgnore };

  explicit WorkloadSource(ModelMix mix) : name_(mix.name), mix_(std::move(mix)) {}
  // Throw Error(kInvalid) with file:line and the field. Files that it names stand beside it.
  static WorkloadSource Read(const std::string& path);
  static WorkloadSource Parse(const std::string& text, const std::string& source);

  const std::string& name() const { return name_; }
  bool is_trace() const { return trace_ != nullptr; }
  const ModelMix& mix() const { return mix_; }
  const Trace* trace() const { return trace_.get(); }  // null: none
  // Every file it was read from, its own first (none for one made from a mix).
  const std::vector<std::string>& files() const { return files_; }
  // In place of the file's, e.g. by --estimate-error. REQUIRES: sigma >= 0.
  void set_estimate_error(double sigma) { mix_.estimate_error = sigma; }

  // A pure function of its arguments; thread-safe. Throws Error(kInvalid) for load <= 0, jobs < 1, a trace with fewer jobs, or
  // where nothing fits.
  DrawnWorkload Draw(const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) const;

 private:
  DrawnWorkload DrawTrace(const std::vector<WorkerSpec>& workers, const WorkloadOptions& options) const;

  std::string name_;
  std::vector<std::string> files_;
  ModelMix mix_;
  std::shared_ptr<const Trace> trace_;
  Gpus gpus_ = Gpus::kWork;
  bool estimates_ = false;                     // schedulers are told the trace's estimate_s
  std::map<std::string, std::string> models_;  // the trace's name -> the mix's
};

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_WORKLOAD_SOURCE_H_
