// The state of one part of a job after some iteration, as a file: weights, buffers and optimiser states by weight, so that any
// other partition of the same graph can go on from it. Random draws and the order of the samples are functions of (seed,
// iteration) and need no state.
//   "WEIRSNAP" | u32 length of the header | SnapshotHeader | the tensors' bytes in its order, contiguous, little-endian
// all of it, but for the first eight bytes, in one zstd frame with a checksum.
#ifndef WEIR_WORKER_RUNTIME_SNAPSHOT_H_
#define WEIR_WORKER_RUNTIME_SNAPSHOT_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "worker/protocol/wire.pb.h"

namespace weir::worker {

struct Snapshot {
  struct WeightState {
    std::string name;
    at::Tensor value;
    std::map<std::string, at::Tensor> optimizer;  // "momentum", or "exp_avg" and "exp_avg_sq"
    std::int64_t step = 0;
  };
  wire::SnapshotHeader header;         // but for `tensors`
  std::map<int, WeightState> weights;  // by weight index
};

// A file of the resume point that can't be read.
struct DamagedSnapshot {
  std::string path;
  std::string reason;
};

std::string EncodeSnapshot(const Snapshot& snapshot);
// Adds what the file holds to `snapshot`. `fingerprint`, `iteration`: what it must be of. Throws DamagedSnapshot.
void ReadSnapshot(const std::string& path, const std::string& fingerprint, std::int64_t iteration, Snapshot* snapshot);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_SNAPSHOT_H_
