// Co-run gain by pair of job classes: how much two jobs on one worker reach together beyond time slicing,
// 2 * (sum of their rates relative to alone - 1); negative where they get in each other's way. n residents use the mean over
// their pairs in g(n) = 1 + gain * (1 - 1/n); a pair without an entry counts with the worker's own corun_gain. Immutable once
// shared.
#ifndef WEIR_ENV_SIM_CORUN_H_
#define WEIR_ENV_SIM_CORUN_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

class CorunTable {
 public:
  static constexpr int kNoClass = -1;

  // Symmetric; a second call for a pair replaces the first. REQUIRES: gain > -1, so that g(n) > 0 for every n.
  void Set(const std::string& a, const std::string& b, double gain) {
    const int i = Add(a), j = Add(b);
    gains_[i][j] = gains_[j][i] = gain;
  }
  // Index of a class; kNoClass for one that no entry names.
  int Find(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? kNoClass : static_cast<int>(found - names_.begin());
  }
  // The gain of a pair; `otherwise` where the table has none.
  double Gain(int a, int b, double otherwise) const {
    if (a < 0 || b < 0 || std::isnan(gains_[a][b])) return otherwise;
    return gains_[a][b];
  }
  // The greatest gain of any pair, at least `otherwise`.
  double Greatest(double otherwise) const {
    for (const auto& row : gains_) {
      for (double gain : row) otherwise = std::isnan(gain) ? otherwise : std::max(otherwise, gain);
    }
    return otherwise;
  }

 private:
  int Add(const std::string& name) {
    if (const int known = Find(name); known >= 0) return known;
    names_.push_back(name);
    for (auto& row : gains_) row.push_back(std::numeric_limits<double>::quiet_NaN());
    gains_.emplace_back(names_.size(), std::numeric_limits<double>::quiet_NaN());
    return static_cast<int>(names_.size()) - 1;
  }
  std::vector<std::string> names_;
  std::vector<std::vector<double>> gains_;  // NaN: no entry
};

}  // namespace weir

#endif  // WEIR_ENV_SIM_CORUN_H_
