// When jobs arrive. Every process has the mean gap it is given, so that the offered load is what was asked for.
//   poisson   gaps exponential
//   bursty    two-state MMPP: rate factor/gap in a burst, (1 - share*factor)/(1 - share)/gap in between; a burst lasts
//             burst_jobs*gap/factor seconds in the mean (burst_jobs arrivals), exponential; bursts take `share` of the time
//   diurnal   Poisson of rate (1 + amplitude*sin(2*pi*(t/period + phase)))/gap, by thinning (Lewis, Shedler 1979)
//   batch     `batch` jobs at once, exponential gaps of mean batch*gap between them
#ifndef WEIR_ENV_WORKLOAD_ARRIVALS_H_
#define WEIR_ENV_WORKLOAD_ARRIVALS_H_

#include "env/core/rng.h"
#include "env/core/yaml.h"
#include "env/sim/spec.h"

namespace weir {

struct ArrivalProcess {
  enum class Kind { kPoisson, kBursty, kDiurnal, kBatch };
  Kind kind = Kind::kPoisson;
  double factor = 5, share = 0.15, burst_jobs = 20;   // bursty; share * factor <= 1
  double period = 86400, amplitude = 0.8, phase = 0;  // diurnal; seconds, 0 to 1, parts of a period
  int batch = 10;                                     // batch
};

// The value of a workload file's key `arrivals`. Throws Error(kInvalid) with file:line and the field.
ArrivalProcess ArrivalsFromYaml(const Yaml& map);

// The arrivals of one episode, one after the other, from time 0. A pure function of its arguments.
class ArrivalStream {
 public:
  // REQUIRES: mean_gap > 0, a valid process.
  ArrivalStream(const ArrivalProcess& process, double mean_gap, const Rng& rng);
  SimTime Next();

 private:
  SimTime NextBursty();
  SimTime NextDiurnal();

  ArrivalProcess process_;
  double mean_gap_;
  Rng rng_;
  SimTime now_ = 0;
  bool bursting_ = false;
  SimTime switch_at_ = 0;  // bursty: the present state's end
  int left_ = 0;           // batch: jobs that still arrive at now_
};

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_ARRIVALS_H_
