#include "env/workload/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/yaml.h"

namespace weir {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

std::string Trimmed(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  return text;
}

// Reads records one after the other.
class Records {
 public:
  Records(std::string_view text, const std::string& source) : text_(text), source_(source) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }
  int line() const { return begin_line_; }
  // False at the end. Empty lines are skipped.
  bool Next(std::vector<std::string>* fields) {
    do {
      if (at_ >= text_.size()) return false;
      fields->clear();
      begin_line_ = line_;
      while (Field(fields)) {
      }
    } while (fields->size() == 1 && fields->front().empty());
    return true;
  }

 private:
  // Reads one field; true where another one follows in the record.
  bool Field(std::vector<std::string>* fields) {
    std::string value;
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      while (true) {
        if (at_ >= text_.size()) throw Invalid("{}:{}: a quote is opened and never closed", source_, begin_line_);
        const char c = text_[at_++];
        if (c == '\n') ++line_;
        if (c != '"') {
          value.push_back(c);
        } else if (at_ < text_.size() && text_[at_] == '"') {
          value.push_back(text_[at_++]);
        } else {
          break;
        }
      }
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
        throw Invalid("{}:{}: expected a comma after the closing quote, got '{}'", source_, line_, text_[at_]);
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\n\r", at_), text_.size());
      value = Trimmed(std::string(text_.substr(at_, end - at_)));
      at_ = end;
    }
    fields->push_back(std::move(value));
    if (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      return true;
    }
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
    return false;
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  int line_ = 1, begin_line_ = 1;
};

}  // namespace

CsvTable CsvTable::Read(const std::string& path) {
  return Parse(ReadFile(path, kMaxBytes), path);
}

CsvTable CsvTable::Parse(std::string text, const std::string& source) {
  CsvTable table;
  table.source_ = source;
  Records records(text, source);
  std::vector<std::string> fields;
  if (!records.Next(&fields)) throw Invalid("{}: empty, expected a line with the names of the columns", source);
  for (std::string& name : fields) {
    name = Trimmed(std::move(name));
    if (std::find(table.header_.begin(), table.header_.end(), name) != table.header_.end())
      throw Invalid("{}:{}: column '{}' stands there twice", source, records.line(), name);
    table.header_.push_back(std::move(name));
  }
  const std::size_t columns = table.header_.size();
  while (records.Next(&fields)) {
    if (fields.size() != columns)
      throw Invalid("{}:{}: expected {} fields as in the header, got {}", source, records.line(), columns, fields.size());
    table.lines_.push_back(records.line());
    std::move(fields.begin(), fields.end(), std::back_inserter(table.cells_));
  }
  return table;
}

std::string CsvTable::where(int row) const {
  return fmt::format("{}:{}", source_, lines_[row]);
}

std::optional<int> CsvTable::FindColumn(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found == header_.end()) return std::nullopt;
  return static_cast<int>(found - header_.begin());
}

int CsvTable::Column(std::string_view name) const {
  if (auto column = FindColumn(name)) return *column;
  const std::string nearest = NearestName(name, header_);
  throw Invalid("{}:1: column '{}' is missing{} (columns: {})", source_, name,
                nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), fmt::join(header_, ", "));
}

double CsvTable::Number(int row, int column, double low, double high) const {
  const std::string& text = Text(row, column);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < low || value > high)
    Fail(row, column, fmt::format("a number from {:g} to {:g}", low, high));
  return value;
}

long long CsvTable::Integer(int row, int column, long long low, long long high) const {
  const std::string& text = Text(row, column);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  // "4.0" is a whole number too: tables written through floating point have such columns.
  double real = 0;
  const auto [real_end, real_error] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (real_error == std::errc() && real_end == text.data() + text.size() && real == std::floor(real) &&
      real >= static_cast<double>(low) && real <= static_cast<double>(high) && std::abs(real) < 9e15) {
    return static_cast<long long>(real);
  }
  Fail(row, column, fmt::format("a whole number from {} to {}", low, high));
}

void CsvTable::Fail(int row, int column, const std::string& expected) const {
  throw Invalid("{}: {} must be {}, got '{}'", where(row), header_[column], expected, Text(row, column).substr(0, 60));
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos && (text.empty() || (text.front() != ' ' && text.back() != ' ')))
    return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  return out + "\"";
}

}  // namespace weir
