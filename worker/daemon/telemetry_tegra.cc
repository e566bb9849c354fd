// Tegra boards (Jetson) have no NVML: GPU load in per mille under devices/gpu.0 (or platform/gpu.0, *.gpu, 17000000.ga10b, ...),
// thermal zones by name, and INA3221 power monitors whose rail names differ between boards.
#include "worker/daemon/sysfs.h"
#include "worker/daemon/telemetry.h"

namespace weir::worker {
namespace {

class TegraTelemetry : public TelemetrySource {
 public:
  TegraTelemetry(std::string root, std::string load) : root_(std::move(root)), load_(std::move(load)) {}

  void Sample(Telemetry* telemetry) override {
    telemetry->gpu_source = "tegra";
    if (const auto per_mille = SysfsNumber(load_)) telemetry->gpu_load = std::clamp(*per_mille / 1000, 0.0, 1.0);
    for (const std::string& zone : SysfsEntries(root_ + "/sys/class/thermal", "thermal_zone")) {
      const std::string type = SysfsText(zone + "/type").value_or("");
      if (type != "GPU-therm" && type != "gpu-thermal" && type != "GPU-thermal") continue;
      if (const auto milli = SysfsNumber(zone + "/temp"); milli && *milli > 0) telemetry->gpu_temperature = *milli / 1000;
    }
    Power(telemetry);
  }

 private:
  // hwmon: in<i>_label names a rail, in<i>_input is mV, curr<i>_input mA. The rail of the whole board, else the sum of all.
  void Power(Telemetry* telemetry) {
    double sum = 0, board = -1;
    bool any = false;
    for (const std::string& monitor : SysfsEntries(root_ + "/sys/class/hwmon", "hwmon")) {
      if (SysfsText(monitor + "/name").value_or("").rfind("ina3221", 0) != 0) continue;
      for (int i = 1; i <= 3; ++i) {
        const std::string n = std::to_string(i);
        const auto millivolts = SysfsNumber(monitor + "/in" + n + "_input"),
                   milliamperes = SysfsNumber(monitor + "/curr" + n + "_input");
        if (!millivolts || !milliamperes) continue;
        const double watts = *millivolts * *milliamperes / 1e6;
        const std::string label = SysfsText(monitor + "/in" + n + "_label").value_or("");
        if (label == "VDD_IN" || label == "POM_5V_IN" || label == "SYS5V" || label == "VIN_SYS_5V0")
          board = std::max(board, watts);
        sum += watts;
        any = true;
        const auto limit = SysfsNumber(monitor + "/curr" + n + "_crit");
        if (limit && *limit > 0 && *milliamperes >= *limit) telemetry->throttle = "power";
      }
    }
    if (any) telemetry->power_watts = board >= 0 ? board : sum;
  }

  const std::string root_, load_;
};

}  // namespace

std::unique_ptr<TelemetrySource> MakeTegraTelemetry(const std::string& root) {
  std::vector<std::string> candidates = {root + "/sys/devices/gpu.0/load", root + "/sys/devices/platform/gpu.0/load"};
  for (const char* folder : {"/sys/devices", "/sys/devices/platform", "/sys/devices/platform/bus@0"}) {
    for (const char* prefix : {"17000000.", "57000000."}) {  // where the GPU's registers lie on each generation
      for (const std::string& entry : SysfsEntries(root + folder, prefix)) candidates.push_back(entry + "/load");
    }
  }
  for (const std::string& load : candidates) {
    if (SysfsNumber(load)) return std::make_unique<TegraTelemetry>(root, load);
  }
  return nullptr;
}

}  // namespace weir::worker
