#include "env/core/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "env/core/error.h"

namespace weir {
namespace {

void* Load() {
  std::string tried;
  std::vector<std::string> places;
  if (const char* path = std::getenv("WEIR_TORCH_LIBRARY")) places.emplace_back(path);
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    places.push_back((executable.parent_path() / "libweir_torch.so").string());
    places.push_back((executable.parent_path().parent_path() / "lib/weir/libweir_torch.so").string());
  }
  for (const std::string& place : places) {
    if (::access(place.c_str(), R_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + place;
      continue;
    }
    if (void* handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    throw Failure(ExitCode::kInfrastructure, "{}: can't be loaded: {}", place, ::dlerror());
  }
  throw Failure(ExitCode::kInfrastructure, "libweir_torch.so not found (looked at {}): this verb needs LibTorch", tried);
}

}  // namespace

void* TorchSymbol(const char* name) {
  static std::mutex mutex;
  static void* handle = nullptr;
  std::lock_guard lock(mutex);
  if (!handle) handle = Load();
  void* symbol = ::dlsym(handle, name);
  if (!symbol)
    throw Failure(ExitCode::kInfrastructure, "libweir_torch.so has no '{}': it belongs to another version of weir", name);
  return symbol;
}

}  // namespace weir
