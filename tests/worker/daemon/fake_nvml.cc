// Stands in for libnvidia-ml.so.1: one card with fixed figures, or none, by environment variables.
#include <cstdlib>
#include <cstring>

extern "C" {
struct Utilization {
  unsigned gpu, memory;
};
struct MemoryInfo {
  unsigned long long total, free, used;
};
static int card;

int nvmlInit_v2() {
  return std::getenv("FAKE_NVML_BROKEN") ? 9 : 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index != 3) return 6;  // the only card
  *device = &card;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "GPU-abc") != 0) return 6;
  *device = &card;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* use) {
  *use = {73, 20};
  return device == &card ? 0 : 1;
}
int nvmlDeviceGetMemoryInfo(void*, MemoryInfo* memory) {
  *memory = {12000, 9000, 3000};
  return 0;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* degrees) {
  *degrees = 64;
  return sensor == 0 ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 148000;
  return 0;
}
// No nvmlDeviceGetEnforcedPowerLimit: an old driver.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  const char* text = std::getenv("FAKE_NVML_REASONS");
  *reasons = text ? std::strtoull(text, nullptr, 16) : 0x1;  // 0x1: idle, which is no throttling
  return 0;
}
}
