// Measures the link between two workers: round trips of a few bytes, then one-way transfers that grow until one takes long enough
// to be timed, so that a slow link carries little and a fast one is still measured. A responder stands in every daemon.
//
//   latency    = least round trip / 2                                   seconds, one way
//   bandwidth  = bytes / (seconds - least round trip)                   bytes/s, of the largest transfer
#ifndef WEIR_WORKER_DAEMON_LINK_PROBE_H_
#define WEIR_WORKER_DAEMON_LINK_PROBE_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "worker/protocol/channel.h"

namespace weir::worker {

struct Transfer {
  std::size_t bytes = 0;
  double seconds = 0;  // from the first byte sent to the answer
};

struct LinkFigures {
  double bandwidth = 0;  // bytes/s; 0: the transfers were too short to say
  double latency = 0;    // seconds, one way
};

// REQUIRES: round_trips and transfers not empty.
LinkFigures FiguresOf(const std::vector<double>& round_trips, const std::vector<Transfer>& transfers);

// Sizes of transfers: the first, and after one of `bytes` that took `seconds`; 0: enough.
inline constexpr std::size_t kFirstTransfer = 64 << 10, kLargestTransfer = 4 << 20;
inline constexpr double kLongEnough = 0.05;  // seconds
std::size_t NextTransfer(std::size_t bytes, double seconds);

// Answers probes in a thread of its own.
class LinkResponder {
 public:
  // Listens on tcp://<host>:* . Throws Error where it can't.
  LinkResponder(const Context& context, const std::string& host);
  ~LinkResponder();
  const std::string& address() const { return router_.address(); }

 private:
  void Run();
  Router router_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Blocks up to about 20 s. Throws Error(kUnreachable) where the peer doesn't answer, Error(kInvalid) for an address that is none.
LinkFigures ProbeLink(const std::string& address, const std::atomic<bool>* stop = nullptr);

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_LINK_PROBE_H_
