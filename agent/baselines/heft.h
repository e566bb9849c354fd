// List scheduling of one job's subgraphs, as HEFT and PEFT place the tasks of a DAG, in a world of gangs: the job starts when
// every subgraph has a worker, so only workers with a free residency count, and a worker is free (A(w) = now) but for the job's
// own subgraphs that were placed on it before.
//
//   p(v, w)   = f_v / speed_w(n_w + 1)        c(u, v, w, x) = 2*bytes/min(b_w/(c_w+1), b_x/(c_x+1)) + 2*(l_w + l_x), 0 where w =
//   x EFT(v, w) = max(ready, first gap on w that is long enough) + p(v, w), ready = max over u before v of EFT(u) + c(u, v, ...)
// HEFT (Topcuoglu, Hariri, Wu, TPDS 13(3), 2002): subgraphs by descending rank_u(v) = mean p + max over successors s of
//   (mean c + rank_u(s)), each on the worker of least EFT, with insertion into gaps. Means over the workers that count.
// PEFT (Arabnejad, Barbosa, TPDS 25(3), 2014): OCT(v, w) = max over successors s of min over x of (OCT(s, x) + p(s, x) +
//   mean c(v, s) if w != x); of the subgraphs whose predecessors are placed the one of greatest mean OCT, on the worker of least
//   EFT(v, w) + OCT(v, w).
// Memory is observed; a worker that would be overfull doesn't count.
#ifndef WEIR_AGENT_BASELINES_HEFT_H_
#define WEIR_AGENT_BASELINES_HEFT_H_

#include "env/sim/cluster_state.h"

namespace weir {

// Empty where a subgraph fits on no worker any more (or replicas > 1).
Placement HeftPlacement(const ClusterState& state, JobId job);
Placement PeftPlacement(const ClusterState& state, JobId job);

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_HEFT_H_
