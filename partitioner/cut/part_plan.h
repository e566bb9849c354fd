// A partition in the scheduler's words: per part its work and memory, and the tensors that cross. This is what a job
// description (subgraphs and arcs) is made from.
#ifndef WEIR_PARTITIONER_CUT_PART_PLAN_H_
#define WEIR_PARTITIONER_CUT_PART_PLAN_H_

#include <cstdint>
#include <vector>

#include "partitioner/cut/partition.h"

namespace weir::partitioner {

// Counts are for one micro-batch (= the graph's batch), except memory_bytes.
struct PartSummary {
  int num_operators = 0;
  std::int64_t forward_flop = 0;
  std::int64_t backward_flop = 0;
  std::int64_t optimizer_flop = 0;   // once an iteration, whatever the number of micro-batches
  std::int64_t parameter_bytes = 0;  // trainable
  std::int64_t buffer_bytes = 0;
  std::int64_t saved_bytes = 0;      // activations kept for the backward pass of one micro-batch
  std::int64_t workspace_bytes = 0;  // inputs, outputs and their gradients of the largest operator
  std::int64_t memory_bytes = 0;     // by the memory model, all micro-batches in flight
};

// A tensor that leaves its part. Sent once to each reader part, ascending, whatever the number of readers there.
struct CutTensor {
  int tensor = 0;  // id in the graph
  int from = 0;    // part; -1: a model input, which its readers load themselves
  std::vector<int> to;
  std::int64_t bytes = 0;     // forward, of one copy
  bool has_gradient = false;  // as many bytes come back from each reader part
};

struct PartPlan {
  Partition partition;
  std::vector<PartSummary> parts;      // by part; empty where infeasible
  std::vector<CutTensor> cut_tensors;  // by tensor id; model inputs excluded
};

// Bytes forward between two parts in one micro-batch, summed over the tensors: the scheduler's arcs. Ordered by (from, to).
struct PartArc {
  int from = 0;
  int to = 0;
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
};
std::vector<PartArc> PartArcs(const PartPlan& plan);

// Always of a training pass, whatever Pass the cut went by. REQUIRES: partition.status == kOk and it belongs to `graph`.
PartPlan Describe(const OperatorGraph& graph, Partition partition, const MemoryModel& memory);

// The least k <= max_parts whose every part fits options.max_part_memory_bytes (k = 1 without a limit; options.num_parts is
// ignored). Where none does, status is kInfeasible and the reason names the part or operator that is too large.
PartPlan PlanParts(const OperatorGraph& graph, CutOptions options, int max_parts = 8);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_PART_PLAN_H_
