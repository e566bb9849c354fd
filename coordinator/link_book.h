// Measured links between workers, and which one to measure next. A pair's figures are averages of logarithms that forget
// exponentially: x <- x + w * (ln(measured) - x), w = max(1/n, 0.3) at the n-th measurement. Pure; times come in through methods.
#ifndef WEIR_COORDINATOR_LINK_BOOK_H_
#define WEIR_COORDINATOR_LINK_BOOK_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "env/sim/links.h"

namespace weir::coordinator {

class LinkBook {
 public:
  static constexpr double kWeight = 0.3;
  static constexpr double kRepeatSeconds = 300;  // a pair's figures are that old before it is measured again
  static constexpr double kGapSeconds = 2;       // between two probes anywhere
  static constexpr double kPatience = 30;        // a probe without an answer is given up
  static constexpr double kLeastLatency = 1e-7;  // seconds

  struct Probe {
    WorkerId from = -1, to = -1;
  };
  // The next probe, or none: one at a time, pairs that were never measured first (by number), then the oldest. `may(w)`: worker w
  // may be disturbed. The directions of a pair take turns. The probe counts as under way until Add, Fail or kPatience.
  std::optional<Probe> Next(int num_workers, double now, const std::function<bool(WorkerId)>& may);
  // bandwidth in bytes/s and latency in seconds; ignored unless finite, bandwidth > 0 and latency >= 0.
  void Add(WorkerId from, WorkerId to, double bandwidth, double latency, double now);
  void Fail(WorkerId from, WorkerId to, double now);
  // The worker is another one now (it started anew, maybe elsewhere).
  void Forget(WorkerId worker);

  std::optional<LinkOverride> Find(WorkerId a, WorkerId b) const;
  // Null where nothing is measured.
  std::shared_ptr<const LinkTable> Table() const;

 private:
  struct Pair {
    double log_bandwidth = 0, log_latency = 0;
    int count = 0, attempts = 0;
    double asked = -1;  // < 0: never
  };
  static std::pair<WorkerId, WorkerId> Key(WorkerId a, WorkerId b) { return a < b ? std::pair(a, b) : std::pair(b, a); }
  std::map<std::pair<WorkerId, WorkerId>, Pair> pairs_;
  double last_ = -1e18;     // when the last probe began or ended
  double open_until_ = -1;  // a probe is under way
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_LINK_BOOK_H_
