// weir worker: the daemon of one device. weir executor (hidden): the process that it starts for LibTorch.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>

#include "cli/remote.h"
#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/core/log.h"
#include "env/core/units.h"
#include "worker/daemon/calibration.h"
#include "worker/daemon/daemon.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/calibrate.h"
#include "worker/runtime/executor.h"

namespace weir::cli {
namespace {

// A quantity given as text on the command line; empty: `fallback` stays.
void Read(const std::string& text, Unit unit, const char* flag, double* value) {
  if (text.empty()) return;
  const auto parsed = ParseQuantity(text, unit);
  if (!parsed) throw Invalid("{} must be {}, got '{}'", flag, DescribeUnit(unit), text);
  *value = *parsed;
}

std::string HostName() {
  char name[256] = "worker";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

void AddWorker(CLI::App& app) {
  struct Options {
    std::string config, coordinator, name, flops, emulate_flops, memory, bandwidth, latency, work_folder, bind_host;
    double corun_gain = -1, connect_timeout = 30;
    std::string device;
    int max_residents = 0, threads = 0;
    bool emulate_link = false;
  };
  static Options o;
  CLI::App* verb = app.add_subcommand("worker", "Train parts of jobs on this device");
  verb->add_option("--config", o.config, "YAML file with the same keys; flags win over it");
  verb->add_option("--coordinator", o.coordinator, "Where the coordinator listens (environment: WEIR_ADDR)");
  verb->add_option("--name", o.name, "Unique in the cluster (default: the host's name)");
  verb->add_option("--flops", o.flops, "Sustained training speed, e.g. 250GFLOP/s (default: measured before joining)");
  verb->add_option("--emulate-flops", o.emulate_flops, "Pretend to be a device of this speed: iterations are stretched to it");
  verb->add_flag("--emulate-link", o.emulate_link, "Let activations and gradients travel at --bandwidth and --latency");
  verb->add_option("--device", o.device, "cpu (default) or cuda:<index>");
  verb->add_option("--memory", o.memory, "For training, e.g. 4GiB (default: three quarters of what is free)");
  verb->add_option("--bandwidth", o.bandwidth, "Of the network, e.g. 1Gbit/s (default)");
  verb->add_option("--latency", o.latency, "Of the network, one way, e.g. 200us (default)");
  verb->add_option("--corun-gain", o.corun_gain,
                   "Gain of sharing the device: n jobs reach 1 + gain * (1 - 1/n) of its speed (default 0)");
  verb->add_option("--max-residents", o.max_residents, "Jobs at a time (default 2)")->check(CLI::Range(1, 1024));
  verb->add_option("--threads", o.threads, "Of the executor (default 1)")->check(CLI::Range(1, 1024));
  verb->add_option("--work-folder", o.work_folder, "Cache for files (default: a temporary folder, removed at the end)");
  verb->add_option("--bind-host", o.bind_host, "Host or address at which other workers reach this one (default 127.0.0.1)");
  verb->add_option("--connect-timeout", o.connect_timeout, "Seconds until a first answer of the coordinator")
      ->capture_default_str();
  verb->callback([] {
    worker::DaemonOptions options;
    options.coordinator = DefaultCoordinator();
    options.name = HostName();
    options.version = WEIR_VERSION;
    if (!o.config.empty()) worker::ReadDaemonConfig(o.config, &options);
    if (!o.coordinator.empty()) options.coordinator = o.coordinator;
    if (!o.name.empty()) options.name = o.name;
    Read(o.flops, Unit::kFlopPerSecond, "--flops", &options.flops);
    Read(o.emulate_flops, Unit::kFlopPerSecond, "--emulate-flops", &options.flops);
    if (!o.emulate_flops.empty()) options.emulate = true;
    if (o.emulate_link) options.emulate_link = true;
    if (!o.device.empty()) options.device = o.device;
    Read(o.memory, Unit::kBytes, "--memory", &options.memory_bytes);
    Read(o.bandwidth, Unit::kBytesPerSecond, "--bandwidth", &options.bandwidth);
    Read(o.latency, Unit::kSeconds, "--latency", &options.latency);
    if (o.corun_gain >= 0) options.corun_gain = o.corun_gain;
    if (o.max_residents > 0) options.max_residents = o.max_residents;
    if (o.threads > 0) options.threads = o.threads;
    if (!o.work_folder.empty()) options.work_folder = o.work_folder;
    if (!o.bind_host.empty()) options.bind_host = o.bind_host;
    options.connect_timeout = o.connect_timeout;
    if (options.memory_bytes == 0) options.memory_bytes = worker::MemoryForTraining(options.device);
    SetLogPrefix("worker=" + options.name + " ");
    options.stop_fd = StopFd();
    worker::RunDaemon(options);
  });
}

void AddExecutor(CLI::App& app) {
  static worker::ExecutorOptions options;
  CLI::App* verb = app.add_subcommand("executor", "Started by `weir worker`")->group("");
  verb->add_option("--control", options.control_address)->required();
  verb->add_option("--bind", options.bind_host);
  verb->add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  verb->add_option("--corun-gain", options.corun_gain);
  verb->add_option("--emulate-flops", options.emulated_flops);
  verb->add_option("--emulate-bandwidth", options.emulated_bandwidth);
  verb->add_option("--emulate-latency", options.emulated_latency);
  verb->add_option("--device", options.device);
  verb->add_option("--memory", options.memory_bytes);
  verb->add_option("--planned-memory", options.planned_memory_bytes);
  verb->callback([] {
    if (const int code = worker::RunExecutor(options); code != 0) throw VerbExit{static_cast<ExitCode>(code)};
  });
}

void AddCalibrate(CLI::App& app) {
  static worker::CalibrationRequest request;
  static std::string out;
  CLI::App* verb = app.add_subcommand("calibrate", "Started by `weir worker`: writes a wire::Calibration")->group("");
  verb->add_option("--device", request.device);
  verb->add_option("--threads", request.threads)->check(CLI::Range(1, 1024));
  verb->add_option("--seconds", request.seconds)->check(CLI::PositiveNumber);
  verb->add_option("--out", out)->required();
  verb->callback([] {
    wire::Calibration calibration;
    try {
      const worker::CalibrationResult result = worker::Calibrate(request);
      for (const worker::OperatorClassSpeed& c : result.classes) {
        wire::OperatorSpeed* speed = calibration.add_speed();
        speed->set_name(c.name);
        speed->set_flops(c.flops);
      }
      calibration.set_flops(result.flops);
      calibration.set_seconds(result.seconds);
      calibration.set_memory_bytes(worker::MemoryForTraining(request.device));
    } catch (const std::exception& e) {
      const std::string what = e.what();
      calibration.set_error(what.substr(0, what.find('\n')));
    }
    WriteFileAtomically(out, calibration.SerializeAsString());
  });
}

}  // namespace weir::cli
