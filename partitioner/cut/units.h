// The operator graph with its inseparable groups contracted: what the cutting algorithms work on. Units are numbered in a
// topological order. Groups are closed: whatever lies on a path between two members joins, so that no cycle arises.
#ifndef WEIR_PARTITIONER_CUT_UNITS_H_
#define WEIR_PARTITIONER_CUT_UNITS_H_

#include <cstdint>
#include <vector>

#include "partitioner/cut/memory_model.h"
#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

struct UnitGraph {
  struct Unit {
    std::vector<int> operators;                 // ascending
    std::int64_t work = 0;                      // by Measure; 1 each where the whole graph has none
    std::int64_t state_bytes = 0;               // weights, gradients, optimiser states, buffers
    std::int64_t saved_bytes = 0;               // of one micro-batch
    std::int64_t workspace_bytes = 0;           // of the largest operator
    std::vector<int> predecessors, successors;  // units, ascending
    std::vector<int> reads, writes;             // tensor indices below
  };
  struct Tensor {
    int producer = 0;
    std::vector<int> readers;   // ascending, without the producer, not empty
    std::int64_t capacity = 0;  // bytes, by Pass
  };
  std::vector<Unit> units;
  std::vector<Tensor> tensors;  // only those with a reader in another unit
  std::vector<int> unit_of;     // by operator
  std::int64_t total_work = 0;
  std::int64_t max_work = 0;  // of one unit

  int size() const { return static_cast<int>(units.size()); }
};

enum class Pass {
  kTraining,  // a tensor with a gradient crosses twice; forward and backward work
  kForward,   // a tensor crosses once; forward work
};
// What is balanced between parts. A measured graph (OperatorGraph::measured) has its times, whatever is asked.
enum class Work {
  kFlop,      // of the pass, elementwise work included
  kMacs,      // forward multiply-adds: convolutions and matrix products only
  kRoofline,  // the greater of FLOP and kFlopPerByte x TouchedBytes (3 x in training): what limits the operator
};
inline constexpr std::int64_t kFlopPerByte = 20;  // of an edge GPU: 10 TFLOP/s at 500 GB/s
struct Measure {
  Pass pass = Pass::kTraining;
  Work work = Work::kFlop;
};

UnitGraph Contract(const OperatorGraph& graph, const MemoryModel& memory, Measure measure = {});

// Bytes of the inputs and outputs of an operator and of their gradients.
std::int64_t WorkspaceBytes(const OperatorGraph& graph, const Operator& op);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_UNITS_H_
