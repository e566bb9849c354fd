#include "partitioner/cut/min_cut.h"

#include "partitioner/cut/flow_network.h"

namespace weir::partitioner {

MinCut FindMinCut(const CutNetwork& network, Nearest nearest) {
  FlowNetwork flow(network);
  MinCut result;
  result.status = flow.Solve();
  if (result.status != MinCut::Status::kOptimal) return result;
  result.value = flow.value();
  result.on_source_side = flow.OnSourceSide(nearest);
  return result;
}

}  // namespace weir::partitioner
