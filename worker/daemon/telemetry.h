// What can be seen of a worker's machine and accelerator without asking anybody: /proc and /sys, NVML on NVIDIA cards, the sysfs
// of Tegra boards. Every figure may be missing. Thread-compatible; a sample takes well under a millisecond without NVML.
#ifndef WEIR_WORKER_DAEMON_TELEMETRY_H_
#define WEIR_WORKER_DAEMON_TELEMETRY_H_

#include <memory>
#include <optional>
#include <string>

namespace weir::worker {

struct Telemetry {
  std::optional<double> cpu_load;                // share of all cores that was busy since the last sample, in [0, 1]
  std::optional<double> memory_bytes;            // of the machine
  std::optional<double> memory_available_bytes;  // MemAvailable: what programs can still get without swapping
  std::optional<double> temperature;             // of the hottest thermal zone, degrees Celsius
  std::string gpu_source;                        // nvml | tegra; empty: no accelerator seen
  std::optional<double> gpu_load;                // share of the time with a kernel running, in [0, 1]
  std::optional<double> gpu_memory_bytes, gpu_memory_used_bytes;  // none where CPU and GPU share memory
  std::optional<double> gpu_temperature;                          // degrees Celsius
  std::optional<double> power_watts, power_limit_watts;           // of the accelerator, or of the board (Tegra)
  // Why the device runs slower than it could, e.g. "thermal", "power"; empty: it doesn't.
  std::string throttle;
};

class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;
  // Fills in what it knows and leaves the rest alone.
  virtual void Sample(Telemetry* telemetry) = 0;
};

// /proc/stat, /proc/meminfo, /sys/class/thermal below `root` ("" on a machine, a folder in tests). The first sample has no load.
// Throttled ("thermal"): a zone has reached its first passive trip point, or a cooling device of a processor is at work.
std::unique_ptr<TelemetrySource> MakeHostTelemetry(const std::string& root);

// NVML through dlopen(`library`). Null where the library or the device isn't there: normal on most machines.
// `index` counts as CUDA does: $CUDA_VISIBLE_DEVICES ("2,0", "GPU-<uuid>,...") is taken into account.
std::unique_ptr<TelemetrySource> MakeNvmlTelemetry(const std::string& library, int index);
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// A Tegra board below `root`: GPU load (per mille), GPU thermal zone, INA3221 power. Null where there is no such board.
std::unique_ptr<TelemetrySource> MakeTegraTelemetry(const std::string& root);

// All that there is for `device` ("cpu" or "cuda:<index>"). `root` and `library` as above.
class TelemetrySampler {
 public:
  TelemetrySampler(const std::string& device, const std::string& root = "", const std::string& library = kNvmlLibrary);
  ~TelemetrySampler();
  Telemetry Sample();

 private:
  std::unique_ptr<TelemetrySource> host_, gpu_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_TELEMETRY_H_
