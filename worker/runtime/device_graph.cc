#include "worker/runtime/device_graph.h"

#ifdef WEIR_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace weir::worker {

#ifdef WEIR_CUDA

namespace {

class CudaGraph : public DeviceGraph {
 public:
  void Replay() override { graph.replay(); }
  at::cuda::CUDAGraph graph;
};

}  // namespace

std::unique_ptr<DeviceGraph> RecordGraph(const at::Device& device, const std::function<void()>& work, std::string* why) {
  if (!device.is_cuda()) {
    *why = "the device has no graphs";
    return nullptr;
  }
  auto recorded = std::make_unique<CudaGraph>();
  try {
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
    // Thread-local: other jobs of this process may allocate meanwhile.
    recorded->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        recorded->graph.capture_end();
      } catch (...) {
      }
      throw;
    }
    recorded->graph.capture_end();
  } catch (const std::exception& e) {
    (void)cudaGetLastError();
    *why = e.what();
    *why = why->substr(0, why->find('\n'));
    return nullptr;
  }
  return recorded;
}

#else

std::unique_ptr<DeviceGraph> RecordGraph(const at::Device&, const std::function<void()>&, std::string* why) {
  *why = "built without CUDA";
  return nullptr;
}

#endif

}  // namespace weir::worker
