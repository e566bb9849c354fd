// What the build knows of itself. Written by cli/compare/CMakeLists.txt's commands into build_info.cc.
#ifndef WEIR_CLI_COMPARE_BUILD_INFO_H_
#define WEIR_CLI_COMPARE_BUILD_INFO_H_

#include <string_view>

namespace weir::cli {

// The commit that was built, with "-dirty" where the tree had changes; "unknown" outside a checkout.
std::string_view GitHash();

// cli/compare/report.html; "@DATA@" stands where the JSON belongs.
extern const std::string_view kReportTemplate;

}  // namespace weir::cli

#endif  // WEIR_CLI_COMPARE_BUILD_INFO_H_
