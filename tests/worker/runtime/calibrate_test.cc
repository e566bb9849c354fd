// Measured speed: the arithmetic against the closed form, the measurement against one that is made here.
#include "worker/runtime/calibrate.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
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

// Three products of matrices of 64 x 512 and 512 x 512 (forward, and the gradients of weights and, in the second layer, of the
// input) in the same process are the bulk of the probe's work: its speed lies near theirs. Ratios in one run; wide, as machines
// are shared.
TEST(CalibrateTest, MatrixProductsAreAsFastAsTheyAreHere) {
  at::set_num_threads(1);
  const std::unique_ptr<CalibrationResult> result(weir_torch_calibrate({.seconds = 0.4}));
  ASSERT_EQ(result->classes.size(), 4u);
  for (const OperatorClassSpeed& c : result->classes) EXPECT_GT(c.flops, 1e6) << c.name;
  EXPECT_EQ(result->classes[0].name, "matmul");
  torch::NoGradGuard no_grad;
  const at::Tensor a = torch::rand({64, 512}), b = torch::rand({512, 512});
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    torch::mm(a, b);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double best = 2.0 * 64 * 512 * 512 / *std::min_element(times.begin(), times.end());
  EXPECT_LT(result->classes[0].flops, 3 * best);
  EXPECT_GT(result->classes[0].flops, best / 300);
}

TEST(CalibrateTest, AnUnknownDeviceIsRefused) {
  EXPECT_THROW(weir_torch_calibrate({.device = "abacus"}), Error);
}

}  // namespace
}  // namespace weir::worker
