#include "env/core/event_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "env/core/error.h"

namespace weir {
namespace {

void AppendText(std::string* out, std::string_view text) {
  out->push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *out += fmt::format("\\u{:04x}", c);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::string Number(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

}  // namespace

EventLog::EventLog(const std::string& path) : path_(path) {
  file_ = std::fopen(path.c_str(), "ae");
  if (!file_) throw Failure(ExitCode::kInfrastructure, "{}: can't be opened for appending: {}", path, std::strerror(errno));
}

EventLog::~EventLog() {
  if (file_) std::fclose(file_);
}

EventLog::EventLog(EventLog&& other) noexcept : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)) {}

EventLog& EventLog::operator=(EventLog&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

std::string EventLog::FormatLine(double t, std::string_view event, const Fields& fields) {
  std::string line = fmt::format("{{\"t\":{},\"event\":", Number(t));
  AppendText(&line, event);
  for (const auto& [key, value] : fields) {
    line.push_back(',');
    AppendText(&line, key);
    line.push_back(':');
    if (const auto* i = std::get_if<std::int64_t>(&value)) line += std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) line += Number(*d);
    if (const auto* s = std::get_if<std::string>(&value)) AppendText(&line, *s);
    if (const auto* b = std::get_if<bool>(&value)) line += *b ? "true" : "false";
    if (const auto* v = std::get_if<std::vector<int>>(&value)) line += fmt::format("[{}]", fmt::join(*v, ","));
    if (const auto* v = std::get_if<std::vector<std::string>>(&value)) {
      line.push_back('[');
      for (std::size_t i = 0; i < v->size(); ++i) {
        if (i > 0) line.push_back(',');
        AppendText(&line, (*v)[i]);
      }
      line.push_back(']');
    }
    if (const auto* v = std::get_if<std::vector<double>>(&value)) {
      line.push_back('[');
      for (std::size_t i = 0; i < v->size(); ++i) line += (i ? "," : "") + Number((*v)[i]);
      line.push_back(']');
    }
  }
  line.push_back('}');
  return line;
}

void EventLog::Append(double t, std::string_view event, const Fields& fields) {
  if (!file_) return;
  const std::string line = FormatLine(t, event, fields) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
    throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}", path_, std::strerror(errno));
  }
}

}  // namespace weir
