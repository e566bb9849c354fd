// From a submitted job to what the scheduler sees: reads the model at the micro-batch size, checks it against the data, cuts it
// into parts that fit the median worker, counts work and bytes. Pure but for reading the two artifacts; thread-safe.
#ifndef WEIR_COORDINATOR_PLANNING_H_
#define WEIR_COORDINATOR_PLANNING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "env/sim/spec.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

struct PlanRequest {
  std::string model_path, data_path, labels_path;
  wire::SubmitRequest submit;
  double median_memory = 0;   // of the workers there are; 0: none, so the model stays whole
  double largest_memory = 0;  // tried where no cut fits the median
};

struct JobPlan {
  JobSpec spec;              // id and arrival are left to the caller; no subgraphs: see why_not
  std::vector<int> part_of;  // by operator
  std::string graph_fingerprint;
  std::vector<std::int64_t> sample_shape;  // as the model expects it
  double cut_bytes = 0;                    // per iteration, both directions
  double median_memory = 0;                // what the plan was made for
  double largest_memory = 0;
  std::string why_not;  // no cut fits: the reason; the job waits for larger workers
  std::vector<std::string> warnings;
  bool fits() const { return !spec.subgraphs.empty(); }
};

// Throws Error(kInvalid) where model, data and training options don't go together: what was expected and what was found.
JobPlan PlanJob(const PlanRequest& request);

// Fields that must hold whatever the files say; throws Error(kInvalid) naming the field.
void CheckSubmit(const wire::SubmitRequest& submit);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_PLANNING_H_
