#include "env/core/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir {
namespace {

// The known answers that the authors ship with Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  const auto expect = [](Philox4 counter, std::uint32_t k0, std::uint32_t k1, Philox4 want) {
    const Philox4 got = Philox(counter, k0, k1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], want.v[i]) << i;
  };
  expect({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expect({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff,
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(PhiloxTest, KeepsTheShareThatWasAskedFor) {
  for (double p : {0.0, 0.1, 0.5, 0.9}) {
    const std::uint32_t threshold = DropThreshold(p);
    int kept = 0;
    constexpr int kBlocks = 25000;
    for (int b = 0; b < kBlocks; ++b) {
      const Philox4 words = PhiloxBlock(12345, static_cast<std::uint64_t>(b));
      for (std::uint32_t w : words.v) kept += w >= threshold;
    }
    // Five standard deviations of a binomial share.
    EXPECT_NEAR(kept / (4.0 * kBlocks), 1 - p, 5 * std::sqrt(p * (1 - p) / (4.0 * kBlocks)) + 1e-12) << p;
  }
}

}  // namespace
}  // namespace weir
