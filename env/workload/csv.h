// Tables with named columns: RFC 4180 (quotes, doubled quotes, line breaks within quotes), CR LF or LF, a header line first.
// Columns are found by name, in any order; every error names file and line.
#ifndef WEIR_ENV_WORKLOAD_CSV_H_
#define WEIR_ENV_WORKLOAD_CSV_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

inline constexpr double kMostSeconds = 1e12;  // the longest time that a table may state: 30,000 years

class CsvTable {
 public:
  // Throw Error(kInvalid): no header, a column twice, a row of another length, an open quote, more than 1 GiB.
  static CsvTable Read(const std::string& path);
  static CsvTable Parse(std::string text, const std::string& source);

  int num_rows() const { return static_cast<int>(lines_.size()); }
  int line(int row) const { return lines_[row]; }  // in the file, where the row begins
  std::string where(int row) const;                // "trace.csv:12"
  const std::string& source() const { return source_; }
  const std::vector<std::string>& header() const { return header_; }

  // Throws Error(kInvalid) naming the columns there are, and the nearest name.
  int Column(std::string_view name) const;
  std::optional<int> FindColumn(std::string_view name) const;

  const std::string& Text(int row, int column) const { return cells_[row * header_.size() + column]; }
  bool IsEmpty(int row, int column) const { return Text(row, column).empty(); }
  // Finite, within the inclusive bounds; throws otherwise: "t.csv:7: duration must be a number from 0 to 1e+12, got '-3'".
  double Number(int row, int column, double low, double high) const;
  long long Integer(int row, int column, long long low, long long high) const;
  [[noreturn]] void Fail(int row, int column, const std::string& expected) const;

 private:
  std::string source_;
  std::vector<std::string> header_;
  std::vector<std::string> cells_;  // row after row
  std::vector<int> lines_;
};

// A field for writing: quoted where it has to be.
std::string CsvField(std::string_view text);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_CSV_H_
