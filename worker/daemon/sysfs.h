// Reading the small text files of /proc and /sys. Whatever can't be read is simply not there.
#ifndef WEIR_WORKER_DAEMON_SYSFS_H_
#define WEIR_WORKER_DAEMON_SYSFS_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace weir::worker {

// The first line.
inline std::optional<std::string> SysfsText(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

inline std::optional<double> SysfsNumber(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The folder's entries whose name begins with `prefix`, as full paths in order of name.
inline std::vector<std::string> SysfsEntries(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().rfind(prefix, 0) == 0) found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_SYSFS_H_
