// How long a job takes on the reference device. Every law is bounded: [min, max].
//   lognormal  median, sigma; redrawn outside
//   pareto     bounded Pareto of tail index alpha on [min, max] (inverse transform)
//   file       drawn uniformly from the values of a CSV column that lie within [min, max]
#ifndef WEIR_ENV_WORKLOAD_DURATIONS_H_
#define WEIR_ENV_WORKLOAD_DURATIONS_H_

#include <string>
#include <vector>

#include "env/core/rng.h"
#include "env/core/yaml.h"

namespace weir {

struct DurationLaw {
  enum class Kind { kLogNormal, kPareto, kFile };
  Kind kind = Kind::kLogNormal;
  double min = 0, max = 0;       // seconds
  double median = 0, sigma = 0;  // lognormal: of the law before it is cut to [min, max]
  double alpha = 0;              // pareto
  std::vector<double> values;    // file, in file order
  std::string file;              // where they were read from

  double Mean() const;  // in closed form (file: of the values)
  double Draw(Rng* rng) const;
  void Scale(double factor);  // every duration times factor, > 0
};

// Reads kind, the law's keys and min, max of a workload file's key `duration`; the caller reads the others and calls Finish.
// A file's path is relative to `folder`. Throws Error(kInvalid) with file:line and the field.
DurationLaw DurationsFromYaml(const Yaml& map, const std::string& folder);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_DURATIONS_H_
