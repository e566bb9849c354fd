#include "env/core/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace weir {
namespace {

LogLevel LevelFromEnvironment() {
  const char* value = std::getenv("WEIR_LOG");
  std::string_view text = value ? value : "";
  if (text == "debug") return LogLevel::kDebug;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& Level() {
  static std::atomic<LogLevel> level{LevelFromEnvironment()};
  return level;
}

std::string& Prefix() {
  static std::string prefix;
  return prefix;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  Level() = level;
}
LogLevel log_level() {
  return Level();
}
void SetLogPrefix(std::string prefix) {
  Prefix() = std::move(prefix);
}

namespace internal {

void WriteLog(LogLevel level, const std::string& message) {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::string line = fmt::format("{} {:02}:{:02}:{:02}.{:03} {}{}\n", "DIWE"[static_cast<int>(level)], local.tm_hour,
                                 local.tm_min, local.tm_sec, now.tv_usec / 1000, Prefix(), message);
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace internal
}  // namespace weir
