// Splits a dataflow graph in two at a minimum cut. A tensor is paid once however many readers sit on the other side; no arc
// runs from the sink side back to the source side, so both sides are convex.
// Deterministic: equal inputs give equal cuts. Thread-compatible: no shared state.
#ifndef WEIR_PARTITIONER_CUT_MIN_CUT_H_
#define WEIR_PARTITIONER_CUT_MIN_CUT_H_

#include <cstdint>
#include <vector>

namespace weir::partitioner {

enum class Pin : signed char { kFree = 0, kSource = 1, kSink = 2 };

// What FindMinCut solves. Indices are operators, 0-based.
struct CutNetwork {
  struct Tensor {
    int producer = 0;
    std::vector<int> readers;
    std::int64_t capacity = 0;  // paid once if any reader is on the other side
  };
  // Operators that cost `capacity` if they end up on both sides: readers of a tensor that comes from neither.
  struct Spread {
    std::vector<int> operators;
    std::int64_t capacity = 0;
  };
  int num_operators = 0;
  std::vector<Tensor> tensors;
  std::vector<Spread> spreads;
  // Unary terms by operator: the cost of ending up on the source (sink) side, in the unit of the capacities. Empty: all 0.
  std::vector<std::int64_t> cost_on_source;
  std::vector<std::int64_t> cost_on_sink;
  std::vector<Pin> pins;                   // empty: none
  std::vector<std::vector<int>> together;  // groups that stay on one side
  // The two pieces that make the cut right. Only the tests' negative controls clear them.
  bool reverse_arcs = true;  // infinite, reader -> producer: no cycle between the sides
  bool tensor_nodes = true;  // one auxiliary node per tensor with several readers
};

struct MinCut {
  enum class Status {
    kOptimal,
    kInfeasible,  // the pins contradict the arcs
    kOverflow,    // the capacities' sum doesn't fit int64
  };
  Status status = Status::kOptimal;
  std::int64_t value = 0;            // = unary terms of the chosen sides + capacity of tensors and spreads that cross
  std::vector<bool> on_source_side;  // by operator
};

// Of all minimum cuts, the one nearest to the source (fewest operators there) or nearest to the sink.
enum class Nearest { kSource, kSink };

// REQUIRES: indices in range, capacities and costs >= 0, vectors empty or of size num_operators.
MinCut FindMinCut(const CutNetwork& network, Nearest nearest = Nearest::kSource);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_MIN_CUT_H_
