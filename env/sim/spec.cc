#include "env/sim/spec.h"

#include <cmath>

#include "env/core/error.h"

namespace weir {

double JobSpec::total_flop() const {
  double sum = 0;
  for (const SubgraphSpec& s : subgraphs) sum += s.flop;
  return sum;
}

double JobSpec::total_memory_bytes() const {
  double sum = 0;
  for (const SubgraphSpec& s : subgraphs) sum += s.memory_bytes;
  return sum;
}

namespace {

void CheckPositive(double value, const char* what, const std::string& where) {
  if (!(value > 0) || !std::isfinite(value)) throw Invalid("{}: {} must be a finite number > 0, got {}", where, what, value);
}
void CheckNonNegative(double value, const char* what, const std::string& where) {
  if (!(value >= 0) || !std::isfinite(value)) throw Invalid("{}: {} must be a finite number >= 0, got {}", where, what, value);
}

}  // namespace

void CheckSpec(const WorkerSpec& worker, const std::string& where) {
  CheckPositive(worker.flops, "flops", where);
  CheckPositive(worker.memory_bytes, "memory", where);
  CheckPositive(worker.bandwidth, "bandwidth", where);
  CheckNonNegative(worker.latency, "latency", where);
  CheckNonNegative(worker.corun_gain, "corun_gain", where);
  if (worker.max_residents < 1) throw Invalid("{}: max_residents must be >= 1, got {}", where, worker.max_residents);
}

void CheckSpec(const JobSpec& job, const std::string& where) {
  if (job.id < 0) throw Invalid("{}: a job's id must be >= 0, got {}", where, job.id);
  CheckNonNegative(job.arrival, "arrival", where);
  CheckPositive(job.iterations, "iterations", where);
  CheckNonNegative(job.estimated_iterations, "estimated_iterations", where);
  CheckNonNegative(job.evaluation_share, "evaluation_share", where);
  CheckNonNegative(job.overhead_seconds, "overhead_seconds", where);
  CheckPositive(job.correction, "correction", where);
  if (job.micro_batches < 1) throw Invalid("{}: micro_batches must be >= 1, got {}", where, job.micro_batches);
  if (job.replicas < 1) throw Invalid("{}: replicas must be >= 1, got {}", where, job.replicas);
  if (job.subgraphs.empty()) throw Invalid("{}: a job must have at least one subgraph", where);
  double flop = 0;
  for (const SubgraphSpec& s : job.subgraphs) {
    CheckNonNegative(s.flop, "a subgraph's flop", where);
    CheckNonNegative(s.memory_bytes, "a subgraph's memory", where);
    CheckNonNegative(s.param_bytes, "a subgraph's param_bytes", where);
    flop += s.flop;
  }
  CheckPositive(flop, "the sum of flop over subgraphs", where);
  for (const ArcSpec& a : job.arcs) {
    if (a.from < 0 || a.from >= a.to || a.to >= job.num_subgraphs()) {
      throw Invalid("{}: an arc must go from a subgraph to a later one (0..{}), got {} -> {}", where, job.num_subgraphs() - 1,
                    a.from, a.to);
    }
    CheckNonNegative(a.bytes, "an arc's bytes", where);
  }
}

}  // namespace weir
