// Makes a process behave as if its network interface had a given bandwidth and latency (full duplex, first come first served).
// Times are seconds on the host's monotonic clock, which all processes of a host share: a message whose first byte left at
// `sent_at` has arrived when its last byte has passed both interfaces. Thread-safe.
#ifndef WEIR_WORKER_RUNTIME_EMULATED_LINK_H_
#define WEIR_WORKER_RUNTIME_EMULATED_LINK_H_

#include <cstddef>
#include <mutex>

namespace weir::worker {

class EmulatedLink {
 public:
  // bandwidth in bytes/s, > 0; 0: no emulation.
  EmulatedLink(double bandwidth, double latency) : bandwidth_(bandwidth), latency_(latency) {}
  bool on() const { return bandwidth_ > 0; }
  double latency() const { return latency_; }
  double Seconds(std::size_t bytes) const { return static_cast<double>(bytes) / bandwidth_; }
  static double Now();

  // When the first byte of a message may leave, not before `now`. The interface is busy from then for bytes / bandwidth.
  double Depart(double now, std::size_t bytes);
  // When the last byte has arrived, for a message that left at `sent_at` through an interface of `sender_latency`; the sender's
  // bandwidth has its say through the time of its next departure, and through `sender_seconds`, that its last byte took to leave.
  double Arrive(double sent_at, double sender_latency, double sender_seconds, std::size_t bytes);

 private:
  const double bandwidth_, latency_;
  std::mutex mutex_;
  double out_free_ = 0, in_free_ = 0;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EMULATED_LINK_H_
