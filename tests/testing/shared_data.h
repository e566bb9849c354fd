// Public data beside the checkout (../shared/data, or the folder that $WEIR_SHARED_DATA names). Tests that need it skip without
// it.
#ifndef WEIR_TESTS_TESTING_SHARED_DATA_H_
#define WEIR_TESTS_TESTING_SHARED_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weir::testing {

inline std::string SharedData(const std::string& name) {
  const char* folder = std::getenv("WEIR_SHARED_DATA");
  return (folder && *folder ? std::string(folder) : std::string(WEIR_SOURCE_DIR) + "/../shared/data") + "/" + name;
}
inline bool HasSharedData(const std::string& name) {
  std::error_code error;
  return std::filesystem::exists(SharedData(name), error);
}

}  // namespace weir::testing

#endif  // WEIR_TESTS_TESTING_SHARED_DATA_H_
