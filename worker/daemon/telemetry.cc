#include "worker/daemon/telemetry.h"

#include <cstdlib>

namespace weir::worker {

TelemetrySampler::TelemetrySampler(const std::string& device, const std::string& root, const std::string& library)
    : host_(MakeHostTelemetry(root)) {
  if (device.rfind("cuda", 0) != 0) return;  // a machine's accelerators say nothing of a worker that computes on its CPU
  const std::size_t colon = device.find(':');
  gpu_ = MakeNvmlTelemetry(library, colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1));
  if (!gpu_) gpu_ = MakeTegraTelemetry(root);
}

TelemetrySampler::~TelemetrySampler() = default;

Telemetry TelemetrySampler::Sample() {
  Telemetry telemetry;
  host_->Sample(&telemetry);
  if (gpu_) gpu_->Sample(&telemetry);
  return telemetry;
}

}  // namespace weir::worker
