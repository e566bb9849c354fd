// The append-only event log that simulator and coordinator both write: one JSON object a line, `t` in seconds first.
//   {"t":12.5,"event":"arrival","job":17,"name":"resnet"}
// Times are seconds since the log's epoch (the start of the episode, or of the coordinator's first run).
#ifndef WEIR_ENV_CORE_EVENT_LOG_H_
#define WEIR_ENV_CORE_EVENT_LOG_H_

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weir {

class EventLog {
 public:
  using Value =
      std::variant<std::int64_t, double, std::string, bool, std::vector<int>, std::vector<double>, std::vector<std::string>>;
  using Fields = std::vector<std::pair<std::string_view, Value>>;

  EventLog() = default;  // drops everything
  // Appends to `path`; throws Error(kInfrastructure) when it can't be opened. Doubles are printed with 17 digits, so they read
  // back exactly.
  explicit EventLog(const std::string& path);
  ~EventLog();
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&& other) noexcept;

  bool enabled() const { return file_ != nullptr; }
  // Each line is flushed, so it survives the end of the process. Throws Error(kInfrastructure) on a full disk.
  void Append(double t, std::string_view event, const Fields& fields = {});
  // The same line as text, without the newline.
  static std::string FormatLine(double t, std::string_view event, const Fields& fields);

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
};

}  // namespace weir

#endif  // WEIR_ENV_CORE_EVENT_LOG_H_
