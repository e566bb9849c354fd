// One line a message on stderr, key=value: `I 12:00:01.250 worker=w0 event=placed job=17`. Results go to stdout, never here.
// Thread-safe: a line is one write(2).
#ifndef WEIR_ENV_CORE_LOG_H_
#define WEIR_ENV_CORE_LOG_H_

#include <fmt/format.h>

#include <string>
#include <utility>

namespace weir {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

// Lines below the level are dropped. Initially kInfo, or what the environment's WEIR_LOG says (debug|info|warning|error|off).
void SetLogLevel(LogLevel level);
LogLevel log_level();
// Put before each message, e.g. "worker=edge-1 "; empty at start. Not thread-safe: set it before threads start.
void SetLogPrefix(std::string prefix);

namespace internal {
void WriteLog(LogLevel level, const std::string& message);
}

}  // namespace weir

// WEIR_LOG(Info, "event=arrival job={} queued={}", job, queued);
#define WEIR_LOG(level, ...)                                                              \
  do {                                                                                    \
    if (::weir::LogLevel::k##level >= ::weir::log_level()) {                              \
      ::weir::internal::WriteLog(::weir::LogLevel::k##level, ::fmt::format(__VA_ARGS__)); \
    }                                                                                     \
  } while (false)

#endif  // WEIR_ENV_CORE_LOG_H_
