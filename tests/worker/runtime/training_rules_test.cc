// Small rules of training against closed forms and LibTorch: learning rates, clipping, losses, dropout masks, the emulated link.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "partitioner/torchscript/dropout.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/emulated_link.h"
#include "worker/runtime/gradient_scale.h"
#include "worker/runtime/learning_rate.h"
#include "worker/runtime/loss.h"

namespace weir::worker {
namespace {

wire::Schedule Make(const std::string& kind, double warmup = 0, double step = 0, double gamma = 0, double floor = 0) {
  wire::Schedule s;
  s.set_kind(kind);
  s.set_warmup(warmup);
  s.set_step(step);
  s.set_gamma(gamma);
  s.set_floor(floor);
  return s;
}

TEST(LearningRateTest, FollowsTheClosedForms) {
  EXPECT_EQ(LearningRateFactor(wire::Schedule(), 17, 100), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("constant", 4), 0, 100), 0.2);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("constant", 4), 3, 100), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("constant", 4), 4, 100), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("step", 2, 10, 0.1), 11, 100), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("step", 2, 10, 0.1), 12, 100), 0.1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("step", 2, 10, 0.1), 32, 100), 0.1 * 0.1 * 0.1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("linear", 0, 0, 0, 0.5), 0, 11), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("linear", 0, 0, 0, 0.5), 5, 11), 0.75);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("linear", 0, 0, 0, 0.5), 10, 11), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateFactor(Make("cosine"), 0, 21), 1);
  EXPECT_NEAR(LearningRateFactor(Make("cosine"), 10, 21), 0.5, 1e-15);
  EXPECT_NEAR(LearningRateFactor(Make("cosine", 0, 0, 0, 0.2), 20, 21), 0.2, 1e-15);
  EXPECT_TRUE(std::isfinite(LearningRateFactor(Make("cosine", 5), 5, 1)));  // a warm-up longer than the job
}

TEST(GradientScaleTest, ClipsAsLibTorchDoes) {
  torch::manual_seed(1);
  for (double limit : {0.5, 100.0}) {
    std::vector<at::Tensor> weights;
    std::map<int, double> squares;
    for (int i = 0; i < 5; ++i) {
      weights.push_back(torch::zeros({7, 3}).requires_grad_(true));
      weights.back().mutable_grad() = torch::randn({7, 3});
      squares[i] = weights.back().grad().to(torch::kDouble).square().sum().item<double>();
    }
    GradientScale scale(limit, false);
    const GradientScale::Step step = scale.Next(squares);
    EXPECT_FALSE(step.skip);
    const at::Tensor mine = weights[3].grad() * step.factor;
    torch::nn::utils::clip_grad_norm_(weights, limit);
    EXPECT_TRUE(torch::allclose(mine, weights[3].grad(), 1e-6, 1e-8)) << limit;
  }
}

TEST(GradientScaleTest, LossScaleHalvesOnOverflowAndGrows) {
  GradientScale scale(0, true);
  ASSERT_TRUE(scale.needs_norm());
  const double first = scale.loss_scale();
  const auto bad = scale.Next({{0, std::numeric_limits<double>::infinity()}});
  EXPECT_TRUE(bad.skip);
  EXPECT_EQ(scale.loss_scale(), first / 2);
  for (int i = 0; i < 1999; ++i) EXPECT_FALSE(scale.Next({{0, 1.0}}).skip);
  EXPECT_EQ(scale.loss_scale(), first / 2);
  const auto good = scale.Next({{0, 1.0}});
  EXPECT_EQ(good.factor, 2 / first);  // of the scale that these gradients were made with
  EXPECT_EQ(scale.loss_scale(), first);
}

TEST(LossTest, EqualsLibTorch) {
  torch::manual_seed(2);
  const at::Tensor output = torch::randn({4, 6, 9}), labels = torch::randint(9, {4, 6});
  const at::Tensor expected = torch::nn::functional::cross_entropy(output.permute({0, 2, 1}), labels);
  EXPECT_NEAR(Loss(LossKind::kTokenCrossEntropy, output, labels, 9).item<double>(), expected.item<double>(), 1e-6);
  EXPECT_NEAR(Loss(LossKind::kTokenCrossEntropy, output.reshape({24, 9}), labels, 9).item<double>(), expected.item<double>(),
              1e-6);
  const at::Tensor targets = torch::randn({4, 3}), guess = torch::randn({4, 3});
  EXPECT_NEAR(Loss(LossKind::kMse, guess, targets, 0).item<double>(), torch::mse_loss(guess, targets).item<double>(), 1e-7);
  const at::Tensor classes = torch::randint(3, {4});
  EXPECT_NEAR(Loss(LossKind::kMse, guess, classes, 3).item<double>(),
              torch::mse_loss(guess, torch::one_hot(classes, 3).to(torch::kFloat)).item<double>(), 1e-7);
}

TEST(LossTest, EvaluationCountsTokensAndLeavesOutRepeatedRows) {
  at::Tensor output = torch::zeros({3, 2, 4});
  const at::Tensor labels = torch::tensor({0, 1, 2, 3, 1, 1}, torch::kLong).reshape({3, 2});
  for (int i = 0; i < 5; ++i) output[i / 2][i % 2][labels[i / 2][i % 2].item<std::int64_t>()] = 9;  // all right but the last
  Evaluation all, two;
  all.Add(LossKind::kTokenCrossEntropy, output, labels, 4, 3);
  two.Add(LossKind::kTokenCrossEntropy, output, labels, 4, 2);
  EXPECT_EQ(all.counted, 6);
  EXPECT_DOUBLE_EQ(all.accuracy(), 5.0 / 6);
  EXPECT_EQ(two.counted, 4);
  EXPECT_DOUBLE_EQ(two.accuracy(), 1);
  Evaluation real;
  real.Add(LossKind::kMse, torch::ones({2, 1}), torch::zeros({2, 1}), 0, 2);
  EXPECT_EQ(real.accuracy(), -1);
  EXPECT_DOUBLE_EQ(real.loss(), 1);
}

TEST(DropoutMaskTest, DependsOnSeedAndElementAlone) {
  const at::Tensor whole = partitioner::DropoutMask({1003}, 0.3, 77, at::kCPU);
  EXPECT_TRUE(torch::equal(partitioner::DropoutMask({17, 59}, 0.3, 77, at::kCPU).flatten(), whole));
  EXPECT_TRUE(torch::equal(partitioner::DropoutMask({998}, 0.3, 77, at::kCPU), whole.narrow(0, 0, 998)));
  EXPECT_FALSE(torch::equal(partitioner::DropoutMask({1003}, 0.3, 78, at::kCPU), whole));
  EXPECT_NEAR((whole > 0).to(torch::kDouble).mean().item<double>(), 0.7, 0.08);
  EXPECT_EQ(whole.max().item<float>(), static_cast<float>(1 / 0.7));
  EXPECT_EQ(partitioner::DropoutMask({5}, 1, 1, at::kCPU).sum().item<float>(), 0);
}

TEST(EmulatedLinkTest, LetsMessagesPassOneAfterTheOther) {
  EmulatedLink out(100, 0.5), in(50, 0.25);
  EXPECT_EQ(out.Depart(10, 200), 10);
  EXPECT_EQ(out.Depart(10, 100), 12);  // the interface is busy for two seconds
  EXPECT_EQ(out.Depart(20, 100), 20);
  // The receiver is the slower one: 200 bytes take it four seconds.
  EXPECT_EQ(in.Arrive(10, 0.5, 2, 200), 10.75 + 4);
  EXPECT_EQ(in.Arrive(12, 0.5, 1, 100), 14.75 + 2);
  // The sender is: its last byte leaves late.
  EmulatedLink fast(1000, 0);
  EXPECT_EQ(fast.Arrive(10, 0.5, 4, 200), 14.5);
}

}  // namespace
}  // namespace weir::worker
