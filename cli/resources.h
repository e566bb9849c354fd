// Files that ship with the executable: configurations, demo models and data, policies.
#ifndef WEIR_CLI_RESOURCES_H_
#define WEIR_CLI_RESOURCES_H_

#include <string>

namespace weir::cli {

// Path of `name` (e.g. "configs/demo/demo.yaml"): under the environment's WEIR_HOME, else ../share/weir beside the executable's
// folder, else the nearest folder above the executable that holds it (a source tree). Throws Error(kInvalid) naming the places.
std::string ResourcePath(const std::string& name);

}  // namespace weir::cli

#endif  // WEIR_CLI_RESOURCES_H_
