// Cuts an operator graph into k parts: every operator in exactly one, no cycle between parts, parts numbered so that data
// flows from lower to higher numbers, groups of `graph.together` unbroken. Deterministic. Thread-compatible.
#ifndef WEIR_PARTITIONER_CUT_PARTITION_H_
#define WEIR_PARTITIONER_CUT_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/cut/memory_model.h"
#include "partitioner/cut/objective.h"
#include "partitioner/cut/units.h"
#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

// A worker that a part is meant for. Unequal workers: the part's share of the work follows `flops`.
struct PartWorker {
  double flops = 1;               // FLOP/s, > 0 (the unit of the graph's work a second)
  std::int64_t memory_bytes = 0;  // 0: no limit
  double bandwidth = 0;           // bytes/s, > 0 where the objective is kTime
  double latency = 0;             // seconds, one way; looked at by kTime
};

struct CutOptions {
  int num_parts = 2;                       // >= 1
  std::int64_t max_part_memory_bytes = 0;  // of every part, by the memory model; 0: no limit
  // A part's work may be up to (1 + balance_slack) of its share of the total (equal, or by its worker's flops); widened as far as
  // the largest group of operators forces. Not looked at by kTime.
  double balance_slack = 0.1;
  CutObjective objective = CutObjective::kVolume;
  MemoryModel memory;
  Measure measure;
  std::vector<PartWorker> workers;  // by part; empty: equal ones. REQUIRES: kTime has them
};

struct Partition {
  enum class Status {
    kOk,
    kInfeasible,  // `reason` says why; the rest is empty
  };
  Status status = Status::kOk;
  std::string reason;
  int num_parts = 0;
  std::vector<int> part_of;      // by operator; no part is empty
  std::int64_t cut_bytes = 0;    // by objective and pass (kTime: as kHops): bytes that cross in one micro-batch
  double seconds = 0;            // kTime: of the slowest part, for one micro-batch
  double balance = 1;            // the greatest ratio of a part's work to its share; 1 = even
  bool widened = false;          // the balance bound had to give way to the largest group of operators, or to memory
  std::string method;            // which member of the portfolio won: "exact", "order-dp" or "flow"
  bool optimal = false;          // no cut within the (possibly widened) window is cheaper
  std::int64_t lower_bound = 0;  // on cut_bytes within that window; 0: none known (kTime: always)
};

// REQUIRES: graph.Finalize() was called; num_parts >= 1.
Partition CutIntoParts(const OperatorGraph& graph, const CutOptions& options);

// Bytes that cross under `part_of`, by objective (kTime: as kHops): 2 x bytes for tensors with gradient in training, else 1 x.
std::int64_t CutBytes(const OperatorGraph& graph, const std::vector<int>& part_of, CutObjective objective,
                      Pass pass = Pass::kTraining);
// "" where `part_of` is a valid partition as promised above, else what is wrong, in one line.
std::string CheckPartition(const OperatorGraph& graph, const std::vector<int>& part_of, int num_parts);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_PARTITION_H_
