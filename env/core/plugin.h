// Loads libweir_torch.so on demand, so that `weir` itself links no LibTorch and starts at once.
// The library lies beside the executable (or in ../lib/weir); the environment's WEIR_TORCH_LIBRARY overrides the place.
#ifndef WEIR_ENV_CORE_PLUGIN_H_
#define WEIR_ENV_CORE_PLUGIN_H_

#include <string>

namespace weir {

// Address of an `extern "C"` symbol of the library. The first call loads it (about 2 s of CPU).
// Throws Error(kInfrastructure) naming the library and the reason. Thread-safe.
void* TorchSymbol(const char* name);

template <typename Function>
Function* TorchFunction(const char* name) {
  return reinterpret_cast<Function*>(TorchSymbol(name));
}

}  // namespace weir

#endif  // WEIR_ENV_CORE_PLUGIN_H_
