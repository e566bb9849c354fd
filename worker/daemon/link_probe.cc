#include "worker/daemon/link_probe.h"

#include <algorithm>
#include <chrono>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRoundTrips = 8;
constexpr double kPatience = 10;             // seconds for one answer
constexpr std::size_t kHeader = 4;           // what is answered: a probe's number
constexpr double kShortestTransfer = 20e-6;  // seconds beside the round trip: below, the clock and not the link is measured

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

LinkFigures FiguresOf(const std::vector<double>& round_trips, const std::vector<Transfer>& transfers) {
  WEIR_CHECK(!round_trips.empty() && !transfers.empty());
  const double round_trip = *std::min_element(round_trips.begin(), round_trips.end());
  const Transfer& largest =
      *std::max_element(transfers.begin(), transfers.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  LinkFigures figures;
  figures.latency = round_trip / 2;
  const double seconds = largest.seconds - round_trip;
  if (seconds > kShortestTransfer) figures.bandwidth = static_cast<double>(largest.bytes) / seconds;
  return figures;
}

std::size_t NextTransfer(std::size_t bytes, double seconds) {
  if (seconds >= kLongEnough || bytes >= kLargestTransfer) return 0;
  return std::min(kLargestTransfer, 4 * bytes);
}

LinkResponder::LinkResponder(const Context& context, const std::string& host)
    : router_(context, "tcp://" + host + ":*"), thread_([this] { Run(); }) {}

LinkResponder::~LinkResponder() {
  stop_ = true;
  thread_.join();
}

void LinkResponder::Run() {
  while (!stop_) {
    const auto probe = router_.Receive(Milliseconds(200));
    if (probe && probe->bytes.size() >= kHeader) router_.Send(probe->peer, probe->bytes.substr(0, kHeader));
  }
}

LinkFigures ProbeLink(const std::string& address, const std::atomic<bool>* stop) {
  const Context context;
  Dealer dealer(context, address);
  std::uint32_t number = 0;
  // Seconds until the peer has had `bytes` bytes.
  const auto time = [&](std::size_t bytes) {
    std::string message(std::max(bytes, kHeader), '\x5a');
    ++number;
    for (std::size_t i = 0; i < kHeader; ++i) message[i] = static_cast<char>(number >> (8 * i));
    const std::string expected = message.substr(0, kHeader);
    const auto start = Clock::now();
    bool sent = false;
    while (SecondsSince(start) < kPatience && !(stop && *stop)) {
      if (!sent) {
        sent = dealer.Send(message, Milliseconds(100));
        continue;
      }
      const auto answer = dealer.Receive(Milliseconds(100));
      if (answer && *answer == expected) return SecondsSince(start);
    }
    throw Failure(ExitCode::kUnreachable, "{}: no answer within {:g} s", address, kPatience);
  };
  time(kHeader);  // connects
  std::vector<double> round_trips;
  for (int i = 0; i < kRoundTrips; ++i) round_trips.push_back(time(kHeader));
  std::vector<Transfer> transfers;
  for (std::size_t bytes = kFirstTransfer; bytes > 0; bytes = NextTransfer(bytes, transfers.back().seconds))
    transfers.push_back({bytes, time(bytes)});
  return FiguresOf(round_trips, transfers);
}

}  // namespace weir::worker
