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
    std::int64_t work = 0;                      // FLOP, forward and backward; 1 each where the whole graph has none
    std::int64_t state_bytes = 0;               // weights, gradients, optimiser states, buffers
    std::int64_t saved_bytes = 0;               // of one micro-batch
    std::int64_t workspace_bytes = 0;           // of the largest operator
    std::vector<int> predecessors, successors;  // units, ascending
    std::vector<int> reads, writes;             // tensor indices below
  };
  struct Tensor {
    int producer = 0;
    std::vector<int> readers;   // ascending, without the producer, not empty
    std::int64_t capacity = 0;  // 2 x bytes with gradient, else 1 x
  };
  std::vector<Unit> units;
  std::vector<Tensor> tensors;  // only those with a reader in another unit
  std::vector<int> unit_of;     // by operator
  std::int64_t total_work = 0;
  std::int64_t max_work = 0;  // of one unit

  int size() const { return static_cast<int>(units.size()); }
};

UnitGraph Contract(const OperatorGraph& graph, const MemoryModel& memory);

// Bytes of the inputs and outputs of an operator and of their gradients.
std::int64_t WorkspaceBytes(const OperatorGraph& graph, const Operator& op);

// Work and memory of a set of units, kept up to date as units join.
struct Load {
  std::int64_t work = 0, state_bytes = 0, saved_bytes = 0, workspace_bytes = 0;

  void Add(const UnitGraph::Unit& unit) {
    work += unit.work;
    state_bytes += unit.state_bytes;
    saved_bytes += unit.saved_bytes;
    workspace_bytes = std::max(workspace_bytes, unit.workspace_bytes);
  }
  std::int64_t Memory(int in_flight) const { return state_bytes + saved_bytes * in_flight + workspace_bytes; }
};

// What a k-part cut must keep to.
struct Limits {
  int num_parts = 1;
  std::int64_t max_work = 0;    // per part
  std::int64_t max_memory = 0;  // per part; 0: none
  MemoryModel memory;

  bool Fits(const Load& load, int part) const {
    return load.work <= max_work && (max_memory == 0 || load.Memory(memory.InFlight(part, num_parts)) <= max_memory);
  }
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_UNITS_H_
