// A cut network (min_cut.h) held in a Boost graph that is built once and solved many times. Pinning more operators only adds
// capacity at the terminals, so each solution goes on from the flow reached before.
//
// Capacities are 64-bit integers, an infinite arc is 2^60: what is finite must add up to less than half of it. Thread-compatible.
#ifndef WEIR_PARTITIONER_CUT_FLOW_NETWORK_H_
#define WEIR_PARTITIONER_CUT_FLOW_NETWORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "partitioner/cut/min_cut.h"

namespace weir::partitioner {

class FlowNetwork {
 public:
  // Builds the network and applies its pins. REQUIRES: as FindMinCut.
  explicit FlowNetwork(const CutNetwork& network);
  ~FlowNetwork();
  FlowNetwork(const FlowNetwork&) = delete;
  FlowNetwork& operator=(const FlowNetwork&) = delete;

  // Back to no flow and the pins of the network.
  void Reset();
  // Replaces the unary terms (by operator), then Reset.
  void SetUnary(const std::vector<std::int64_t>& cost_on_source, const std::vector<std::int64_t>& cost_on_sink);
  // REQUIRES: pin != kFree; the operator isn't pinned to the other side. Pinning twice is harmless.
  void AddPin(int op, Pin side);
  Pin pinned(int op) const { return pins_[op]; }

  // Maximum flow under all pins so far.
  MinCut::Status Solve();
  // After kOptimal: the cut's value, and its sides.
  std::int64_t value() const { return value_; }
  std::vector<bool> OnSourceSide(Nearest nearest) const;

 private:
  struct Graph;
  void Apply(int op, Pin side);
  bool PinsContradict() const;

  std::unique_ptr<Graph> graph_;
  int num_operators_ = 0;
  bool overflow_ = false;
  std::int64_t value_ = 0;
  std::vector<std::int64_t> cost_on_source_, cost_on_sink_;
  std::vector<Pin> first_pins_, pins_;
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_FLOW_NETWORK_H_
