// Telemetry on trees and libraries whose figures are known.
#include "worker/daemon/telemetry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "env/core/file.h"

namespace weir::worker {
namespace {

// A machine's /proc and /sys as files in a folder.
class FakeMachine {
 public:
  FakeMachine() {
    std::string pattern = ::testing::TempDir() + "weir-sys-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    MakeParentFolders(root_ + path);
    WriteFileAtomically(root_ + path, text);
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

// Sets an environment variable for the test's time.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(TelemetryTest, LoadIsTheShareOfBusyTicksBetweenTwoSamples) {
  FakeMachine machine;
  machine.Write("/proc/stat", "cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1\n");
  machine.Write("/proc/meminfo", "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:    4000 kB\n");
  TelemetrySampler sampler("cpu", machine.root(), WEIR_FAKE_NVML);
  const Telemetry first = sampler.Sample();
  EXPECT_FALSE(first.cpu_load);  // nothing to compare with yet
  EXPECT_DOUBLE_EQ(first.memory_bytes.value(), 16000 * 1024.0);
  EXPECT_DOUBLE_EQ(first.memory_available_bytes.value(), 4000 * 1024.0);
  EXPECT_FALSE(first.temperature);
  EXPECT_EQ(first.gpu_source, "");  // a CPU worker: the card beside it is none of its business
  // 200 ticks more, of which 50 idle and 30 waiting for a disk. The guest's ticks stand in user's already.
  machine.Write("/proc/stat", "cpu  180 0 140 750 130 0 0 0 90 0\ncpu0 1 1 1 1\n");
  EXPECT_NEAR(sampler.Sample().cpu_load.value(), 1 - 80.0 / 200, 1e-12);
}

TEST(TelemetryTest, TheHottestZoneCountsAndAPassiveTripPointMarksTheWorker) {
  FakeMachine machine;
  machine.Write("/sys/class/thermal/thermal_zone0/temp", "61500\n");
  machine.Write("/sys/class/thermal/thermal_zone0/trip_point_0_type", "critical\n");
  machine.Write("/sys/class/thermal/thermal_zone0/trip_point_0_temp", "60000\n");  // not passive: no slowing down
  machine.Write("/sys/class/thermal/thermal_zone1/temp", "70000\n");
  machine.Write("/sys/class/thermal/thermal_zone1/trip_point_0_type", "critical\n");
  machine.Write("/sys/class/thermal/thermal_zone1/trip_point_0_temp", "110000\n");
  machine.Write("/sys/class/thermal/thermal_zone1/trip_point_1_type", "passive\n");
  machine.Write("/sys/class/thermal/thermal_zone1/trip_point_1_temp", "90000\n");
  machine.Write("/sys/class/thermal/thermal_zone2/temp", "-256000\n");  // a sensor that is switched off
  TelemetrySampler sampler("cpu", machine.root(), WEIR_FAKE_NVML);
  EXPECT_DOUBLE_EQ(sampler.Sample().temperature.value(), 70);
  EXPECT_EQ(sampler.Sample().throttle, "");
  machine.Write("/sys/class/thermal/thermal_zone1/temp", "90000\n");
  EXPECT_EQ(sampler.Sample().throttle, "thermal");
  machine.Write("/sys/class/thermal/thermal_zone1/temp", "89000\n");
  EXPECT_EQ(sampler.Sample().throttle, "");
  machine.Write("/sys/class/thermal/cooling_device0/type", "pwm-fan\n");  // a fan that turns slows nothing
  machine.Write("/sys/class/thermal/cooling_device0/cur_state", "3\n");
  EXPECT_EQ(sampler.Sample().throttle, "");
  machine.Write("/sys/class/thermal/cooling_device1/type", "thermal-cpufreq-0\n");
  machine.Write("/sys/class/thermal/cooling_device1/cur_state", "2\n");
  EXPECT_EQ(sampler.Sample().throttle, "thermal");
}

TEST(TelemetryTest, DamagedFilesGiveNoFigures) {
  FakeMachine machine;
  machine.Write("/proc/stat", "intr 5\n");
  machine.Write("/proc/meminfo", "MemTotal: many kB\n");
  machine.Write("/sys/class/thermal/thermal_zone0/temp", "warm\n");
  TelemetrySampler sampler("cpu", machine.root(), WEIR_FAKE_NVML);
  for (int i = 0; i < 2; ++i) {
    const Telemetry t = sampler.Sample();
    EXPECT_FALSE(t.cpu_load || t.memory_bytes || t.memory_available_bytes || t.temperature);
  }
}

TEST(TelemetryTest, NvmlGivesWhatTheDriverKnows) {
  FakeMachine machine;
  const Variable visible("CUDA_VISIBLE_DEVICES", "1,3");  // cuda:1 is the machine's card 3
  TelemetrySampler sampler("cuda:1", machine.root(), WEIR_FAKE_NVML);
  const Telemetry t = sampler.Sample();
  EXPECT_EQ(t.gpu_source, "nvml");
  EXPECT_DOUBLE_EQ(t.gpu_load.value(), 0.73);
  EXPECT_DOUBLE_EQ(t.gpu_memory_bytes.value(), 12000);
  EXPECT_DOUBLE_EQ(t.gpu_memory_used_bytes.value(), 3000);
  EXPECT_DOUBLE_EQ(t.gpu_temperature.value(), 64);
  EXPECT_DOUBLE_EQ(t.power_watts.value(), 148);
  EXPECT_FALSE(t.power_limit_watts);  // this driver has no such function
  EXPECT_EQ(t.throttle, "");
}

TEST(TelemetryTest, NvmlsReasonsAreToldApart) {
  FakeMachine machine;
  const Variable visible("CUDA_VISIBLE_DEVICES", "GPU-abc");
  TelemetrySampler sampler("cuda:0", machine.root(), WEIR_FAKE_NVML);
  for (const auto& [bits, reason] : {std::pair("4", "power"),
                                     {"80", "power"},
                                     {"20", "thermal"},
                                     {"48", "thermal"},
                                     {"8", "hardware"},
                                     {"0", ""},
                                     {"2", ""}}) {
    const Variable reasons("FAKE_NVML_REASONS", bits);
    EXPECT_EQ(sampler.Sample().throttle, reason) << bits;
  }
}

TEST(TelemetryTest, NoLibraryNoCardOrABrokenDriverIsNormal) {
  FakeMachine machine;
  EXPECT_EQ(MakeNvmlTelemetry("libthere-is-no-such.so.1", 0), nullptr);
  EXPECT_EQ(MakeNvmlTelemetry(WEIR_FAKE_NVML, 0), nullptr);  // the only card is number 3
  EXPECT_NE(MakeNvmlTelemetry(WEIR_FAKE_NVML, 3), nullptr);
  const Variable broken("FAKE_NVML_BROKEN", "1");
  EXPECT_EQ(MakeNvmlTelemetry(WEIR_FAKE_NVML, 3), nullptr);
  EXPECT_EQ(TelemetrySampler("cuda:3", machine.root(), WEIR_FAKE_NVML).Sample().gpu_source, "");
}

TEST(TelemetryTest, ATegraBoardIsReadFromSysfs) {
  FakeMachine machine;
  EXPECT_EQ(MakeTegraTelemetry(machine.root()), nullptr);
  machine.Write("/sys/devices/platform/17000000.ga10b/load", "482\n");
  machine.Write("/sys/class/thermal/thermal_zone1/type", "gpu-thermal\n");
  machine.Write("/sys/class/thermal/thermal_zone1/temp", "91250\n");
  machine.Write("/sys/class/hwmon/hwmon0/name", "pwm-fan\n");
  machine.Write("/sys/class/hwmon/hwmon1/name", "ina3221\n");
  machine.Write("/sys/class/hwmon/hwmon1/in1_label", "VDD_IN\n");
  machine.Write("/sys/class/hwmon/hwmon1/in1_input", "5000\n");
  machine.Write("/sys/class/hwmon/hwmon1/curr1_input", "3000\n");
  machine.Write("/sys/class/hwmon/hwmon1/curr1_crit", "4000\n");
  machine.Write("/sys/class/hwmon/hwmon1/in2_label", "VDD_CPU_GPU_CV\n");
  machine.Write("/sys/class/hwmon/hwmon1/in2_input", "5000\n");
  machine.Write("/sys/class/hwmon/hwmon1/curr2_input", "1000\n");
  TelemetrySampler sampler("cuda:0", machine.root(), "libthere-is-no-such.so.1");
  Telemetry t = sampler.Sample();
  EXPECT_EQ(t.gpu_source, "tegra");
  EXPECT_DOUBLE_EQ(t.gpu_load.value(), 0.482);  // per mille
  EXPECT_DOUBLE_EQ(t.gpu_temperature.value(), 91.25);
  EXPECT_DOUBLE_EQ(t.power_watts.value(), 15);  // the board's rail holds the others
  EXPECT_FALSE(t.gpu_memory_bytes);             // shared with the CPU
  EXPECT_EQ(t.throttle, "");
  machine.Write("/sys/class/hwmon/hwmon1/curr1_input", "4000\n");
  EXPECT_EQ(sampler.Sample().throttle, "power");
  machine.Write("/sys/class/hwmon/hwmon1/in1_label", "NC\n");  // no rail of the board: the sum of all
  EXPECT_DOUBLE_EQ(sampler.Sample().power_watts.value(), 25);
}

}  // namespace
}  // namespace weir::worker
