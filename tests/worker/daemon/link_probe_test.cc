// Measuring a link: the arithmetic against the closed form, and a real probe on loopback.
#include "worker/daemon/link_probe.h"

#include <gtest/gtest.h>

#include "env/core/error.h"

namespace weir::worker {
namespace {

TEST(LinkProbeTest, BandwidthIsOfTheLargestTransferWithoutTheRoundTrip) {
  const LinkFigures f = FiguresOf({0.004, 0.002, 0.009}, {{65536, 0.002 + 65536 / 1e6 + 0.1}, {262144, 0.002 + 262144 / 1e6}});
  EXPECT_NEAR(f.latency, 0.001, 1e-12);
  EXPECT_NEAR(f.bandwidth, 1e6, 1e-3);
  // No longer than a round trip: nothing can be said.
  EXPECT_EQ(FiguresOf({0.01}, {{65536, 0.01}}).bandwidth, 0);
}

// Bytes that a probe sends over a link of this bandwidth, and the time they take.
TEST(LinkProbeTest, ASlowLinkCarriesLittleAndAFastOneIsStillMeasured) {
  for (double bandwidth : {1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10}) {
    double seconds = 0, last = 0, total = 0;
    for (std::size_t bytes = kFirstTransfer; bytes > 0; bytes = NextTransfer(bytes, last)) {
      last = static_cast<double>(bytes) / bandwidth;
      seconds += last;
      total += static_cast<double>(bytes);
    }
    EXPECT_TRUE(last >= kLongEnough || last * bandwidth == kLargestTransfer) << bandwidth;
    EXPECT_LE(seconds, std::max(kFirstTransfer / bandwidth, 6 * kLongEnough)) << bandwidth;
    EXPECT_LE(total, 6e6);
  }
}

TEST(LinkProbeTest, AnswersOverARealSocket) {
  const Context context;
  LinkResponder responder(context, "127.0.0.1");
  for (int i = 0; i < 2; ++i) {
    const LinkFigures f = ProbeLink(responder.address());
    EXPECT_GT(f.latency, 0);
    EXPECT_GE(f.bandwidth, 0);
  }
  std::atomic<bool> stop = true;
  EXPECT_THROW(ProbeLink("tcp://127.0.0.1:1", &stop), Error);
}

}  // namespace
}  // namespace weir::worker
