#include "cli/resources.h"

#include <cstdlib>
#include <filesystem>

#include "env/core/error.h"

namespace weir::cli {

std::string ResourcePath(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* home = std::getenv("WEIR_HOME"); home && *home) return (fs::path(home) / name).string();
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = folder.parent_path() / "share/weir" / name;
  if (fs::exists(installed, error)) return installed.string();
  for (fs::path above = folder; !above.empty(); above = above.parent_path()) {
    if (fs::exists(above / name, error)) return (above / name).string();
    if (above == above.parent_path()) break;
  }
  throw Invalid("{}: not found in {} nor in a folder above {}; set WEIR_HOME", name, installed.parent_path().string(),
                folder.string());
}

}  // namespace weir::cli
