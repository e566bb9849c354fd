// Cuts an operator graph into k parts: every operator in exactly one, no cycle between parts, parts numbered so that data
// flows from lower to higher numbers, groups of `graph.together` unbroken. Deterministic. Thread-compatible.
#ifndef WEIR_PARTITIONER_CUT_PARTITION_H_
#define WEIR_PARTITIONER_CUT_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/cut/memory_model.h"
#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

enum class CutObjective {
  kVolume,  // a tensor is paid once for each foreign part that reads it: direct sends between any two workers
  kHops,    // a tensor is paid at each part boundary it passes: neighbour-only sends
};

struct CutOptions {
  int num_parts = 2;                       // >= 1
  std::int64_t max_part_memory_bytes = 0;  // per part by the memory model; 0: no limit
  // A part's FLOP may be up to (1 + balance_slack) / num_parts of the total; widened as far as the largest group of operators
  // forces.
  double balance_slack = 0.1;
  CutObjective objective = CutObjective::kVolume;
  MemoryModel memory;
};

struct Partition {
  enum class Status {
    kOk,
    kInfeasible,  // `reason` says why; the rest is empty
  };
  Status status = Status::kOk;
  std::string reason;
  int num_parts = 0;
  std::vector<int> part_of;    // by operator; no part is empty
  std::int64_t cut_bytes = 0;  // by the objective, gradients included: bytes that cross in one forward + backward pass
  double balance = 1;          // largest part's FLOP x num_parts / total FLOP; 1 = even
  bool widened = false;        // the balance bound had to give way to the largest group of operators, or to memory
  std::string method;          // which member of the portfolio won: "exact", "order-dp" or "flow"
  bool optimal = false;        // no cut within the (possibly widened) window is cheaper: few enough down-sets to try them all
};

// REQUIRES: graph.Finalize() was called; num_parts >= 1.
Partition CutIntoParts(const OperatorGraph& graph, const CutOptions& options);

// Bytes that cross under `part_of`, by objective: 2 x bytes for tensors with gradient, else 1 x.
std::int64_t CutBytes(const OperatorGraph& graph, const std::vector<int>& part_of, CutObjective objective);
// "" where `part_of` is a valid partition as promised above, else what is wrong, in one line.
std::string CheckPartition(const OperatorGraph& graph, const std::vector<int>& part_of, int num_parts);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_PARTITION_H_
