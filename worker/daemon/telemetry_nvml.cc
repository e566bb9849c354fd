// NVML by its documented C interface (NVIDIA's NVML API reference), found at run time: the library comes with the driver.
#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

#include "worker/daemon/telemetry.h"

namespace weir::worker {
namespace {

using Device = void*;
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct MemoryInfo {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0, kTemperatureGpu = 0;
// nvmlClocksThrottleReason*: SwPowerCap, HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown.
constexpr unsigned long long kPowerReasons = 0x4 | 0x80, kThermalReasons = 0x20 | 0x40, kHardwareReason = 0x8;

class NvmlTelemetry : public TelemetrySource {
 public:
  ~NvmlTelemetry() override {
    if (initialised_) Call<int()>("nvmlShutdown");
    if (library_) ::dlclose(library_);
  }

  bool Open(const std::string& library, int index) {
    library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) return false;
    initialised_ = Call<int()>("nvmlInit_v2");
    if (!initialised_) return false;
    std::string uuid;
    const int number = Physical(index, &uuid);
    return uuid.empty() ? Call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(number), &device_)
                        : Call<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device_);
  }

  void Sample(Telemetry* telemetry) override {
    telemetry->gpu_source = "nvml";
    Utilization use{};
    if (Call<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates", device_, &use)) telemetry->gpu_load = use.gpu / 100.0;
    MemoryInfo memory{};
    if (Call<int(Device, MemoryInfo*)>("nvmlDeviceGetMemoryInfo", device_, &memory)) {
      telemetry->gpu_memory_bytes = static_cast<double>(memory.total);
      telemetry->gpu_memory_used_bytes = static_cast<double>(memory.used);
    }
    unsigned value = 0;
    if (Call<int(Device, int, unsigned*)>("nvmlDeviceGetTemperature", device_, kTemperatureGpu, &value))
      telemetry->gpu_temperature = value;
    if (Call<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage", device_, &value)) telemetry->power_watts = value / 1000.0;
    if (Call<int(Device, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit", device_, &value))
      telemetry->power_limit_watts = value / 1000.0;
    unsigned long long reasons = 0;
    if (Call<int(Device, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons)) {
      if (reasons & (kThermalReasons | kHardwareReason)) {
        telemetry->throttle = reasons & kThermalReasons ? "thermal" : "hardware";
      } else if (reasons & kPowerReasons) {
        telemetry->throttle = "power";
      }
    }
  }

 private:
  // False: no such function in this driver, or it says no.
  template <typename Function, typename... Args>
  bool Call(const char* name, Args... args) {
    auto* function = reinterpret_cast<Function*>(::dlsym(library_, name));
    return function && function(args...) == kSuccess;
  }

  // NVML counts all cards of the machine, CUDA those that it may see.
  static int Physical(int index, std::string* uuid) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!visible || !*visible) return index;
    std::istringstream list(visible);
    std::string item;
    for (int i = 0; std::getline(list, item, ','); ++i) {
      if (i != index) continue;
      if (item.rfind("GPU-", 0) == 0) {
        *uuid = item;
        return -1;
      }
      char* end = nullptr;
      const long number = std::strtol(item.c_str(), &end, 10);
      if (end != item.c_str() && *end == '\0' && number >= 0) return static_cast<int>(number);
    }
    return index;
  }

  void* library_ = nullptr;
  bool initialised_ = false;
  Device device_ = nullptr;
};

}  // namespace

std::unique_ptr<TelemetrySource> MakeNvmlTelemetry(const std::string& library, int index) {
  auto telemetry = std::make_unique<NvmlTelemetry>();
  if (!telemetry->Open(library, index)) return nullptr;
  return telemetry;
}

}  // namespace weir::worker
