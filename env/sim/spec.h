// What a cluster and a job are made of, as plain data. SI units: bytes, FLOP, FLOP/s, bytes/s, seconds.
#ifndef WEIR_ENV_SIM_SPEC_H_
#define WEIR_ENV_SIM_SPEC_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weir {

using SimTime = double;  // seconds since the start of the episode (simulator) or of the log's epoch (coordinator)
using JobId = int;       // >= 0, unique for ever within a cluster state
using WorkerId = int;    // index into the cluster's workers, never reused
inline constexpr SimTime kNever = std::numeric_limits<double>::infinity();

struct WorkerSpec {
  std::string name;
  double flops = 0;         // sustained training FLOP/s, > 0
  double memory_bytes = 0;  // > 0
  double bandwidth = 0;     // NIC, bytes/s, full duplex, > 0
  double latency = 0;       // seconds, one way, >= 0
  double corun_gain = 0;    // gamma: n residents together reach flops * (1 + gamma * (1 - 1/n)); >= 0
  int max_residents = 2;    // jobs, >= 1
};

// The set of operators that is placed as one.
struct SubgraphSpec {
  double flop = 0;  // per iteration: forward, backward and optimiser
  double memory_bytes = 0;
  double param_bytes = 0;  // what replicas exchange; read only where replicas > 1
};

// Data from one subgraph to a later one: `bytes` forward, the same again backward, per iteration.
struct ArcSpec {
  int from = 0;  // from < to: subgraphs stand in topological order
  int to = 0;
  double bytes = 0;
};

struct JobSpec {
  JobId id = 0;
  std::string name;
  std::string job_class;  // of the cluster's table of co-run gains (env/sim/corun.h); empty: none
  SimTime arrival = 0;
  double iterations = 1;                // N, > 0
  double estimated_iterations = 0;      // what schedulers are told N is, > 0; 0: they know N. See ClusterState::WithEstimates
  int micro_batches = 1;                // M, >= 1
  int replicas = 1;                     // R, >= 1
  std::vector<SubgraphSpec> subgraphs;  // >= 1
  std::vector<ArcSpec> arcs;
  // What a real run has besides its iterations; 0 in the study.
  double evaluation_share = 0;  // time of the evaluations on held-out samples over that of the iterations, >= 0
  double overhead_seconds = 0;  // after each placement and at the end: reading, lowering, exporting, handing over; >= 0
  double correction = 1;        // measured over modelled iteration time of this model on these devices, > 0

  int num_subgraphs() const { return static_cast<int>(subgraphs.size()); }
  double total_flop() const;          // F, per iteration
  double total_memory_bytes() const;  // of one replica
};

// One worker per subgraph; with R replicas R rows, row after row (size R * k), and no worker in two rows. Empty: not placed.
using Placement = std::vector<WorkerId>;

// Throws Error(kInvalid), starting with `where`, for a spec that breaks a bound given above.
void CheckSpec(const WorkerSpec& worker, const std::string& where);
void CheckSpec(const JobSpec& job, const std::string& where);

}  // namespace weir

#endif  // WEIR_ENV_SIM_SPEC_H_
