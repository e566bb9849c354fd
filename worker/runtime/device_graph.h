// Work on an accelerator that is recorded once and replayed: a CUDA graph. Launching a small network's kernels one by one costs
// more than running them; a replay launches them all at once.
#ifndef WEIR_WORKER_RUNTIME_DEVICE_GRAPH_H_
#define WEIR_WORKER_RUNTIME_DEVICE_GRAPH_H_

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>

namespace weir::worker {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Enqueues what was recorded on the current stream.
  virtual void Replay() = 0;
};

// Records what `work` gives to the current stream, which isn't the device's default one; nothing runs yet. Tensors made in it
// keep their memory as long as the graph lives. `work` must have run before (libraries set themselves up on their first use),
// must not wait for the device, and must draw no random numbers and read no numbers of the host that change. Null where the
// device has no graphs, or `work` did what can't be recorded; `why` then says what.
std::unique_ptr<DeviceGraph> RecordGraph(const at::Device& device, const std::function<void()>& work, std::string* why);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_DEVICE_GRAPH_H_
