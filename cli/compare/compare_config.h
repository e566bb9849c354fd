// Comparison files (configs/compare/*.yaml). Keys: configs/README.md.
#ifndef WEIR_CLI_COMPARE_COMPARE_CONFIG_H_
#define WEIR_CLI_COMPARE_COMPARE_CONFIG_H_

#include <string>

#include "cli/compare/comparison.h"

namespace weir::cli {

// Reads the file and every cluster and workload that it names (paths relative to it). The reference joins the schedulers where it
// isn't among them; `hash` stays empty. Throws Error(kInvalid) with file:line and the field.
CompareSpec ReadCompareConfig(const std::string& path);

}  // namespace weir::cli

#endif  // WEIR_CLI_COMPARE_COMPARE_CONFIG_H_
