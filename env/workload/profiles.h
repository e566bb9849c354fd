// Profile files: what one iteration of a model costs, per batch size, micro-batches and number of parts; written by
// `weir workload profiles` from model files, read by a workload's key `profiles`.
//
//   name: NAME                         # shown in reports
//   profiles:
//     - model: cnn
//       batch: 64
//       micro_batches: 4
//       subgraphs: [[FLOP, MEMORY_BYTES, PARAM_BYTES], ...]    # per iteration, in topological order
//       arcs: [[FROM, TO, BYTES], ...]                         # forward, per iteration
#ifndef WEIR_ENV_WORKLOAD_PROFILES_H_
#define WEIR_ENV_WORKLOAD_PROFILES_H_

#include <string>
#include <vector>

#include "env/workload/generator.h"

namespace weir {

struct Profile {
  std::string model;
  int batch = 1;
  JobSpec job;  // iterations 1, id 0
};

// The models of the file in order of their first profile. Throw Error(kInvalid) with file:line and the field.
std::vector<ModelMix::Model> ReadProfiles(const std::string& path);
std::vector<ModelMix::Model> ParseProfiles(const std::string& text, const std::string& source);
// Reads back to the same numbers. `comment` (lines without #) stands at the top.
std::string FormatProfiles(const std::string& name, const std::vector<Profile>& profiles, const std::string& comment);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_PROFILES_H_
