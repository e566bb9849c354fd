#include "worker/runtime/emulated_link.h"

#include <algorithm>
#include <chrono>

namespace weir::worker {

double EmulatedLink::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double EmulatedLink::Depart(double now, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  const double start = std::max(now, out_free_);
  out_free_ = start + static_cast<double>(bytes) / bandwidth_;
  return start;
}

double EmulatedLink::Arrive(double sent_at, double sender_latency, double sender_seconds, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  const double first = std::max(in_free_, sent_at + sender_latency + latency_);
  in_free_ = first + static_cast<double>(bytes) / bandwidth_;
  return std::max(in_free_, sent_at + sender_latency + latency_ + sender_seconds);
}

}  // namespace weir::worker
