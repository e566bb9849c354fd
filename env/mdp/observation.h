// What the policy sees, and what it may do: a list of at most 1 + max_candidates actions, each with features; rows of features
// for jobs and workers; global ones; a mask. Sizes vary with the cluster; features are logs and ratios, so other clusters fit
// too. The schema is versioned: a change of meaning, order or number raises kFeatureSchemaVersion, and checkpoints carry it. A
// pure function of the cluster state; equal states give equal observations, bit for bit.
#ifndef WEIR_ENV_MDP_OBSERVATION_H_
#define WEIR_ENV_MDP_OBSERVATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "env/mdp/candidates.h"
#include "env/sim/action.h"
#include "env/sim/cluster_state.h"

namespace weir {

inline constexpr int kFeatureSchemaVersion = 1;
inline constexpr int kMaxCandidates = 32;

// Abbreviations: N* = N_left * T*, L(x) = ln(max(x, 1e-3)) clipped to [-8, 16], "0 if none" where a thing is missing.
enum class GlobalFeature {
  kWaitingPerSlot,  // waiting jobs / sum of max_residents
  kRunningPerSlot,  // residencies in use / sum of max_residents
  kFreeWorkers,     // share of workers with a free residency
  kOfferedLoad,     // moving average, see ClusterState::offered_load
  kLogGap,          // L(mean gap between arrivals / mean N* of live jobs)
  kFreeMemory,      // share of memory that is free
  kLogNextFinish,   // L(time to the next completion / mean N* of live jobs); 0 if none
  kSlots,           // ln(sum of max_residents)
  kCount,
};
enum class WorkerFeature {
  kResidents,       // n / max_residents
  kFreeMemory,      // free / total
  kMemory,          // ln(total / mean over workers)
  kSpeed,           // ln(flops / mean over workers)
  kNextSpeed,       // ln(speed(n + 1) / mean flops)
  kGamma,           // corun_gain
  kBandwidth,       // ln(bandwidth / mean over workers)
  kCutJobs,         // c_w / max_residents
  kFirstRemaining,  // L(least remaining time of residents / mean N*); 0 if none
  kLastRemaining,   // the same of the greatest
  kReserved,        // L(1 + (reserved until - now) / mean N*); 0 if none
  kClaims,          // waiting jobs that wait for this worker / max_residents
  kAvailable,       // 1 or 0
  kCount,
};
enum class JobFeature {
  kLogSize,          // ln(N* / mean N* of live jobs)
  kLogSizeAbsolute,  // L(N*) / 10
  kMemory,           // ln(memory / mean worker memory)
  kLogAge,           // ln(1 + age / N*)
  kSubgraphs,        // ln(k)
  kMicroBatches,     // ln(M)
  kReplicas,         // ln(R)
  kFitsWhole,        // some available worker has the memory when empty
  kFitsNow,          // some candidate exists
  kLogWait,          // L(W / N*); 0 if none
  kWaitsForWorker,   // W names a worker
  kCutBytes,         // L(sum of arc bytes / (mean bandwidth * T*))
  kPreempted,        // was preempted before
  kDone,             // share of iterations done
  kRank,             // position in the size order / number of waiting jobs
  kRunning,          // 1 for rows of running jobs (listed after the waiting ones)
  kCount,
};
enum class CandidateFeature {
  kIsWait,
  kIsPlace,
  kIsMigrate,
  kIsPreempt,
  kStretch,          // ln(own / N*)
  kLogOwn,           // L(own / mean N* of live jobs)
  kLogWaitOverOwn,   // L(W / own); 0 if none
  kHasWait,          // W exists
  kDelay,            // ln(1 + inflicted delay / own)
  kCostOverWait,     // L((own + delay) / W); 0 if none
  kOwnOverResident,  // L(own / least remaining time of residents); 0 if empty
  kShares,           // 1 where a worker of it is busy
  kWorkersUsed,      // ln(distinct workers)
  kCutShare,         // 1 - compute bound: share of T that is communication
  kMemoryLeft,       // least over its workers of (free - needed) / total
  kSlotsLeft,        // least over its workers of free residencies after it / max_residents
  kReservedUntil,    // L(1 + (greatest reservation of others on its workers - now) / N*)
  kSpeedRank,        // share of available workers faster (empty) than its fastest
  kAdvantage,        // stretch of this job here - least stretch of another waiting job on the same workers, logs; 0 if none
  kJobRank,          // as JobFeature::kRank
  kLogAge,           // as JobFeature::kLogAge
  kLogSize,          // as JobFeature::kLogSize
  kStop,             // L(1 + stop or reload seconds / own)
  kGamma,            // mean corun_gain over its workers, where shared
  kReplicas,         // ln(R)
  kFreed,            // preempt: share of slots freed; else 0
  kCount,
};
inline constexpr int kGlobalFeatures = static_cast<int>(GlobalFeature::kCount);
inline constexpr int kWorkerFeatures = static_cast<int>(WorkerFeature::kCount);
inline constexpr int kJobFeatures = static_cast<int>(JobFeature::kCount);
inline constexpr int kCandidateFeatures = static_cast<int>(CandidateFeature::kCount);

struct ObservationOptions {
  int max_candidates = kMaxCandidates;
  int max_jobs = 24;     // waiting jobs looked at, first in the size order N*
  bool preempt = false;  // offer preempt actions
  bool migrate = false;  // offer whole-job moves to one worker
};

struct Observation {
  int schema_version = kFeatureSchemaVersion;
  // actions[0] is wait; the others are sorted by own/N*, then as generated. mask[i] != 0: legal now.
  // Wait is masked where nothing runs and something fits; at least one action is always legal.
  std::vector<Action> actions;
  std::vector<std::uint8_t> mask;
  std::vector<float> action_features;  // actions x kCandidateFeatures, row after row
  std::vector<int> action_job;         // row in `jobs` of each action; -1 for wait
  // Distinct workers of action i: action_workers[action_worker_begin[i] .. action_worker_begin[i+1])
  std::vector<int> action_worker_begin;
  std::vector<WorkerId> action_workers;
  std::vector<JobId> job_ids;          // waiting (at most max_jobs), then running
  std::vector<float> job_features;     // job_ids x kJobFeatures
  std::vector<float> worker_features;  // workers x kWorkerFeatures
  std::vector<float> global_features;  // kGlobalFeatures
  // What stands behind the features, in seconds, for explanations and for rules on top of the observation.
  struct Price {
    double own = 0, best = 0, delay = 0, wait = kNever, least_remaining = kNever;
  };
  std::vector<Price> prices;  // one an action
  int num_actions() const { return static_cast<int>(actions.size()); }
};

// Builds observations; owns caches only (it may be reset or replaced at any time without changing results).
class Observer {
 public:
  explicit Observer(ObservationOptions options = {}) : options_(options) {}
  void Observe(const ClusterState& state, Observation* out);
  const ObservationOptions& options() const { return options_; }

 private:
  ObservationOptions options_;
  BestTimes best_times_;
};

// Names in schema order, for explanations and checkpoints.
const std::vector<std::string>& GlobalFeatureNames();
const std::vector<std::string>& WorkerFeatureNames();
const std::vector<std::string>& JobFeatureNames();
const std::vector<std::string>& CandidateFeatureNames();

}  // namespace weir

#endif  // WEIR_ENV_MDP_OBSERVATION_H_
