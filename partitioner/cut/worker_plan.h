// Cuts a graph for particular, unequal workers: which of them get a part, and in which order along the pipeline.
#ifndef WEIR_PARTITIONER_CUT_WORKER_PLAN_H_
#define WEIR_PARTITIONER_CUT_WORKER_PLAN_H_

#include <vector>

#include "partitioner/cut/part_plan.h"

namespace weir::partitioner {

struct WorkerPlan {
  PartPlan plan;
  std::vector<int> worker_of;  // by part: index into the workers given; each at most once
};

// With num_parts = 0: for bytes the least k that fits, for kTime the k of least bottleneck, at most max_parts and the number of
// workers. Up to four parts, every order of the chosen workers is tried (on large graphs, and with more parts, the likely ones:
// by speed, by memory, as given). Workers are chosen by speed, or by memory where those don't fit. `options.num_parts` and
// `options.workers` are ignored. Infeasible as CutIntoParts. REQUIRES: workers not empty, flops > 0; kTime: bandwidth > 0.
WorkerPlan PlanForWorkers(const OperatorGraph& graph, CutOptions options, int num_parts, int max_parts,
                          const std::vector<PartWorker>& workers);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_WORKER_PLAN_H_
