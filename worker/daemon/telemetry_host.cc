#include <fstream>
#include <limits>
#include <sstream>

#include "worker/daemon/sysfs.h"
#include "worker/daemon/telemetry.h"

namespace weir::worker {
namespace {

constexpr double kHottest = 200;  // degrees: what lies above is a sensor that isn't there

class HostTelemetry : public TelemetrySource {
 public:
  explicit HostTelemetry(std::string root) : root_(std::move(root)) {}

  void Sample(Telemetry* telemetry) override {
    Load(telemetry);
    Memory(telemetry);
    Thermal(telemetry);
  }

 private:
  // The line "cpu user nice system idle iowait irq softirq steal guest guest_nice" in ticks; guest time is in user already.
  void Load(Telemetry* telemetry) {
    std::ifstream file(root_ + "/proc/stat");
    std::string name;
    if (!(file >> name) || name != "cpu") return;
    double total = 0, idle = 0, ticks = 0;
    for (int field = 0; field < 8 && file.peek() != '\n' && file >> ticks; ++field) {
      total += ticks;
      if (field == 3 || field == 4) idle += ticks;
    }
    if (last_total_ >= 0 && total > last_total_) {
      const double share = 1 - (idle - last_idle_) / (total - last_total_);
      telemetry->cpu_load = std::clamp(share, 0.0, 1.0);
    }
    last_total_ = total;
    last_idle_ = idle;
  }

  void Memory(Telemetry* telemetry) {
    std::ifstream file(root_ + "/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      double kib = 0;
      if (!(words >> key >> kib)) continue;
      if (key == "MemTotal:") telemetry->memory_bytes = 1024 * kib;
      if (key == "MemAvailable:") telemetry->memory_available_bytes = 1024 * kib;
    }
  }

  void Thermal(Telemetry* telemetry) {
    for (const std::string& zone : SysfsEntries(root_ + "/sys/class/thermal", "thermal_zone")) {
      const auto milli = SysfsNumber(zone + "/temp");
      if (!milli || *milli <= 0 || *milli / 1000 > kHottest) continue;
      const double degrees = *milli / 1000;
      if (!telemetry->temperature || degrees > *telemetry->temperature) telemetry->temperature = degrees;
      double trip = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 16; ++i) {
        const std::string point = zone + "/trip_point_" + std::to_string(i);
        const auto type = SysfsText(point + "_type");
        if (!type) break;
        const auto limit = SysfsNumber(point + "_temp");
        if (*type == "passive" && limit && *limit > 0) trip = std::min(trip, *limit / 1000);
      }
      if (degrees >= trip) telemetry->throttle = "thermal";
    }
    for (const std::string& device : SysfsEntries(root_ + "/sys/class/thermal", "cooling_device")) {
      const std::string type = SysfsText(device + "/type").value_or("");
      const bool clock =
          type == "Processor" || type.find("cpufreq") != std::string::npos || type.find("devfreq") != std::string::npos;
      if (clock && SysfsNumber(device + "/cur_state").value_or(0) > 0) telemetry->throttle = "thermal";
    }
  }

  const std::string root_;
  double last_total_ = -1, last_idle_ = 0;
};

}  // namespace

std::unique_ptr<TelemetrySource> MakeHostTelemetry(const std::string& root) {
  return std::make_unique<HostTelemetry>(root);
}

}  // namespace weir::worker
