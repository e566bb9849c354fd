#include "env/core/check.h"

#include <cstdio>
#include <cstdlib>

namespace weir::internal {

void CheckFailed(const char* file, int line, const char* expression, const std::string& details) {
  std::fprintf(stderr, "F %s:%d: check failed: %s %s\n", file, line, expression, details.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace weir::internal
