// Plays a recorded run in the simulator and holds what it predicts against what was measured.
//
// Replay of the decisions: jobs arrive, and workers join and leave, at their recorded times. A recorded decision is taken as soon
// as everything that stands before it in the log has happened in the simulator: so the simulator decides when jobs end and hence
// when their successors start, and no measured time enters but those of arrivals and workers.
#ifndef WEIR_ENV_WORKLOAD_RUN_REPLAY_H_
#define WEIR_ENV_WORKLOAD_RUN_REPLAY_H_

#include <vector>

#include "env/sim/simulator.h"
#include "env/workload/recorded_run.h"

namespace weir {

// The run's workers and placed jobs, before the first event. Jobs that were never placed are left out.
Simulator SimulatorOf(const RecordedRun& run);

// Plays the decisions of the log on a fresh SimulatorOf(run). Throws Error(kInvalid) with file:line for one that can't be taken.
void ReplayDecisions(const RecordedRun& run, Simulator* simulator);

// A job that finished in the run and in the simulator.
struct JobPrediction {
  JobId id = 0;
  double measured_iteration = 0, predicted_iteration = 0;  // seconds, mean over the run, without evaluations; 0: not measured
  double measured_jct = 0, predicted_jct = 0;
  // |predicted - measured| / measured
  double iteration_error() const;
  double jct_error() const;
};
// By job number. An iteration time is predicted from the simulated time on workers: (run time - overhead) / (iterations *
// (1 + evaluation_share)), for jobs that ran in one piece; 0 for others.
std::vector<JobPrediction> ComparePredictions(const RecordedRun& run, const std::vector<JobRecord>& records);

struct PredictionErrors {
  int jobs = 0;                                                                 // with a JCT
  int with_iterations = 0;                                                      // and with a measured iteration time
  double median_iteration = 0, p90_iteration = 0, median_jct = 0, p90_jct = 0;  // nearest rank; of an even number the upper one
  double mean_measured_jct = 0, mean_predicted_jct = 0;
};
PredictionErrors ErrorsOf(const std::vector<JobPrediction>& predictions);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_RUN_REPLAY_H_
