// Telemetry as it travels in a heartbeat.
#ifndef WEIR_WORKER_DAEMON_TELEMETRY_WIRE_H_
#define WEIR_WORKER_DAEMON_TELEMETRY_WIRE_H_

#include "worker/daemon/telemetry.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

inline void ToWire(const Telemetry& t, wire::Telemetry* out) {
  if (t.cpu_load) out->set_cpu_load(*t.cpu_load);
  if (t.memory_bytes) out->set_memory_bytes(*t.memory_bytes);
  if (t.memory_available_bytes) out->set_memory_available_bytes(*t.memory_available_bytes);
  if (t.temperature) out->set_temperature(*t.temperature);
  out->set_gpu_source(t.gpu_source);
  if (t.gpu_load) out->set_gpu_load(*t.gpu_load);
  if (t.gpu_memory_bytes) out->set_gpu_memory_bytes(*t.gpu_memory_bytes);
  if (t.gpu_memory_used_bytes) out->set_gpu_memory_used_bytes(*t.gpu_memory_used_bytes);
  if (t.gpu_temperature) out->set_gpu_temperature(*t.gpu_temperature);
  if (t.power_watts) out->set_power_watts(*t.power_watts);
  if (t.power_limit_watts) out->set_power_limit_watts(*t.power_limit_watts);
  out->set_throttle(t.throttle);
}

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_TELEMETRY_WIRE_H_
