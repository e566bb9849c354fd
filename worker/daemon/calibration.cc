#include "worker/daemon/calibration.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/daemon/telemetry.h"

namespace weir::worker {
namespace {

wire::Calibration Failed(const std::string& error) {
  wire::Calibration calibration;
  calibration.set_error(error);
  return calibration;
}

}  // namespace

CalibrationRun::CalibrationRun(std::vector<std::string> command, const std::string& device, int threads,
                               const std::string& folder)
    : file_(folder + "/calibration"), start_(std::chrono::steady_clock::now()) {
  if (command.empty()) command = {std::filesystem::read_symlink("/proc/self/exe").string(), "calibrate"};
  for (const std::string& a :
       {std::string("--device"), device, std::string("--threads"), std::to_string(threads), std::string("--out"), file_})
    command.push_back(a);
  ::unlink(file_.c_str());
  child_ = std::make_unique<ChildProcess>(command);
}

CalibrationRun::~CalibrationRun() {
  child_.reset();
  ::unlink(file_.c_str());
}

std::optional<wire::Calibration> CalibrationRun::Result() {
  const auto how = child_->HowItEnded();
  if (!how) {
    if (std::chrono::steady_clock::now() - start_ < kPatience) return std::nullopt;
    child_->Stop(0);
    return Failed("measuring took too long");
  }
  if (child_->exit_code() != 0) return Failed("measuring ended with " + *how);
  wire::Calibration calibration;
  try {
    if (!calibration.ParseFromString(ReadFile(file_, 1 << 20))) return Failed("what was measured can't be read");
  } catch (const Error& e) {
    return Failed(e.what());
  }
  if (calibration.error().empty() && !(std::isfinite(calibration.flops()) && calibration.flops() > 0))
    return Failed("what was measured is no speed");
  return calibration;
}

double MemoryForTraining(const std::string& device) {
  constexpr double kShare = 0.75;
  const Telemetry t = TelemetrySampler(device).Sample();
  if (t.gpu_memory_bytes && t.gpu_memory_used_bytes) return kShare * (*t.gpu_memory_bytes - *t.gpu_memory_used_bytes);
  if (t.memory_available_bytes) return kShare * *t.memory_available_bytes;
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / 2;
}

}  // namespace weir::worker
