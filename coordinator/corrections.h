// What finished runs teach about the next ones: how much longer (or shorter) an iteration takes than the model of
// env/sim/iteration_time.h says, by (model, device), and what a run costs beside its iterations, by model.
//
//   x <- x + w * (min(max(ln(measured / modelled), -ln 4), ln 4) - x),  w = max(1/n, 0.25) at the n-th observation;  factor =
//   exp(x) s <- s + w * (seconds - s)                                          the same w
// So the first observations are averaged, later ones forget exponentially, and one outlier never counts for more than four-fold.
// Pure arithmetic; a value; not thread-safe.
#ifndef WEIR_COORDINATOR_CORRECTIONS_H_
#define WEIR_COORDINATOR_CORRECTIONS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::coordinator {

class Corrections {
 public:
  static constexpr double kBound = 4, kWeight = 0.25, kMostSeconds = 3600;
  static constexpr double kUnknownOverhead = 0.5;  // seconds, before any job has run: what a small model takes

  // A run of `model` (its graph's fingerprint) had iterations of `measured` seconds where `modelled` were expected without a
  // correction. A run on several devices counts for each of them. Ignored unless both are finite and > 0.
  void AddIteration(const std::string& model, const std::vector<std::string>& devices, double measured, double modelled);
  // exp of the mean of x over the devices that are known for this model; 1 where none is.
  double Factor(const std::string& model, const std::vector<std::string>& devices) const;

  // A run took `seconds` beside its iterations and evaluations. Ignored unless finite; taken as at least 0, at most kMostSeconds.
  void AddOverhead(const std::string& model, double seconds);
  // Of this model; else the mean over all models that are known; else kUnknownOverhead.
  double Overhead(const std::string& model) const;

  // JSON, and back. Parse throws Error(kInvalid), starting with `source`.
  std::string Format() const;
  static Corrections Parse(const std::string& text, const std::string& source);
  bool operator==(const Corrections&) const = default;

 private:
  struct Average {
    double value = 0;
    int count = 0;
    void Add(double x);
    bool operator==(const Average&) const = default;
  };
  std::map<std::pair<std::string, std::string>, Average> log_ratio_;  // by (model, device)
  std::map<std::string, Average> overhead_;                           // by model
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_CORRECTIONS_H_
