// The one exception type for bad input and refused requests. Its message is a single line that says where
// (file:line or field), what was expected and what was found; its kind is the exit code of the process.
#ifndef WEIR_ENV_CORE_ERROR_H_
#define WEIR_ENV_CORE_ERROR_H_

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace weir {

// Exit codes of `weir`, the same for every verb.
enum class ExitCode : int {
  kOk = 0,
  kJobFailed = 1,       // the job itself failed, or a comparison given with --fail-if holds
  kInvalid = 2,         // usage, or an invalid file, spec or field
  kNotPlaceable = 3,    // accepted but can't run on the cluster as it is
  kUnreachable = 4,     // the coordinator (or a peer) doesn't answer
  kRefused = 5,         // key or role
  kNotFound = 6,        // conflict or not found
  kInfrastructure = 7,  // a worker, disk or process failed
  kTimeout = 8,
  kInterrupted = 130,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string message) : std::runtime_error(std::move(message)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws Error(kInvalid): `throw Invalid("{}:{}: workers[2].memory must be > 0, got {}", file, line, value);`
template <typename... Args>
Error Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ExitCode::kInvalid, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error Failure(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weir

#endif  // WEIR_ENV_CORE_ERROR_H_
