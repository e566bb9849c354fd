// Measured speed: the arithmetic against the closed form, the measurement against one that is made here.
#include "worker/runtime/calibrate.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>

#include "env/core/error.h"

extern "C" weir::worker::CalibrationResult* weir_torch_calibrate(const weir::worker::CalibrationRequest& request);

namespace weir::worker {
namespace {

TEST(CalibrateTest, TheMixIsTheHarmonicMeanOfTheClasses) {
  double shares = 0;
  for (const char* name : {"matmul", "conv", "elementwise", "reduction"}) shares += ReferenceShare(name);
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_EQ(ReferenceShare("other"), 0);
  EXPECT_NEAR(MixedSpeed({{"matmul", 4e9}, {"conv", 4e9}, {"elementwise", 4e9}, {"reduction", 4e9}}), 4e9, 1);
  const double seconds = 0.40 / 8 + 0.56 / 4 + 0.03 / 0.5 + 0.01 / 0.25;  // of 1 FLOP, in ns
  EXPECT_NEAR(MixedSpeed({{"matmul", 8e9}, {"conv", 4e9}, {"elementwise", 0.5e9}, {"reduction", 0.25e9}}), 1e9 / seconds, 1);
  EXPECT_NEAR(MixedSpeed({{"matmul", 8e9}, {"other", 1}}), 8e9, 1);  // shares over the classes that count
  EXPECT_EQ(MixedSpeed({}), 0);
}

// What a class's time is divided into: the FLOP of its probe, by hand. Times are nobody's to know here.
TEST(CalibrateTest, MeasuresEveryClassOverTheFlopOfItsProbe) {
  at::set_num_threads(1);
  const std::unique_ptr<CalibrationResult> result(weir_torch_calibrate({.seconds = 0.1}));
  ASSERT_EQ(result->classes.size(), 4u);
  for (const OperatorClassSpeed& c : result->classes) EXPECT_TRUE(std::isfinite(c.flops) && c.flops > 0) << c.name;
  // Forward, gradient of the weights, and in the second layer of the input.
  const double product = 2.0 * 64 * 512 * 512, image = 2.0 * 8 * 32 * 16 * 16 * 32 * 3 * 3;
  EXPECT_EQ(result->classes[0].name, "matmul");
  EXPECT_DOUBLE_EQ(result->classes[0].flop, 5 * product);
  EXPECT_EQ(result->classes[1].name, "conv");
  EXPECT_DOUBLE_EQ(result->classes[1].flop, 5 * image);
}

TEST(CalibrateTest, AnUnknownDeviceIsRefused) {
  EXPECT_THROW(weir_torch_calibrate({.device = "abacus"}), Error);
}

}  // namespace
}  // namespace weir::worker
