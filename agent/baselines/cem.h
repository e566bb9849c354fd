// Cross-entropy search over a few positive parameters: a Gaussian over their logarithms (or the values themselves) that moves to
// the best of its samples. Deterministic given the seed and a deterministic score.
#ifndef WEIR_AGENT_BASELINES_CEM_H_
#define WEIR_AGENT_BASELINES_CEM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir {

struct CemParameter {
  std::string name;
  double start = 1;   // centre at the start; > 0 unless linear
  double spread = 1;  // standard deviation at the start, of the logarithm unless linear
  bool linear = false;
};

struct CemOptions {
  int generations = 12;
  int population = 28;
  std::uint64_t seed = 1;
  double elite_share = 0.2;  // best fifth, at least `least_elite`
  int least_elite = 4;
  double keep_centre = 0.2;  // centre = keep * old + (1 - keep) * mean of the elite
  double keep_spread = 0.3;  // spread = max(least_spread, keep * old + (1 - keep) * deviation of the elite)
  double least_spread = 0.05;
  double margin = 0.002;  // the last centre is the result unless a sample's score is better by this
};

struct CemGeneration {
  double best = 0, median = 0;  // scores of this generation's samples
  std::vector<double> centre;   // after it
};
struct CemResult {
  std::vector<double> values;
  double score = 0;
  bool is_centre = true;
  std::vector<CemGeneration> generations;
};

// Scores many points at once; less is better.
using CemScore = std::function<std::vector<double>(const std::vector<std::vector<double>>& points)>;
// `progress` (may be empty) is called after each generation. Values are rounded to 4 significant digits before they are scored,
// so that what is written down is what was scored. REQUIRES: population >= least_elite, generations >= 1.
CemResult MinimizeByCem(const std::vector<CemParameter>& parameters, const CemOptions& options, const CemScore& score,
                        const std::function<void(int generation, const CemGeneration&)>& progress = {});

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_CEM_H_
