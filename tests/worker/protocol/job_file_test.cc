#include "worker/protocol/job_file.h"

#include <gtest/gtest.h>

#include "env/core/error.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

constexpr char kGood[] = R"(name: digits
model: {onnx: models/cnn.onnx}
data: {csv: data/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16, holdout: 20%}
train: {epochs: 2, batch: 64, micro_batches: 2, optimizer: {kind: sgd, lr: 0.1, momentum: 0.9}}
)";

std::string ErrorOf(const std::string& text) {
  try {
    ParseJobFile(text, "job.yaml", "/folder");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    return e.what();
  }
  return "no error";
}

std::string With(const std::string& from, const std::string& to) {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(JobFileTest, ReadsAGoodFileRelativeToItsFolder) {
  const JobFile job = ParseJobFile(kGood, "job.yaml", "/folder");
  EXPECT_EQ(job.model_path, "/folder/models/cnn.onnx");
  EXPECT_EQ(job.data_path, "/folder/data/digits.csv.gz");
  EXPECT_EQ(job.sample_shape, (std::vector<std::int64_t>{1, 8, 8}));
  EXPECT_DOUBLE_EQ(job.holdout, 0.2);
  const wire::TrainSpec spec = ToTrainSpec(job);
  EXPECT_EQ(spec.micro_batches(), 2);
  EXPECT_DOUBLE_EQ(spec.optimizer().momentum(), 0.9);
  EXPECT_EQ(spec.data().num_classes(), 10);
}

TEST(JobFileTest, ErrorsNameTheLineAndTheField) {
  for (const auto& [text, expected] : std::initializer_list<std::pair<std::string, std::string>>{
           {With("name: digits\n", ""), "name"},
           {With("name: digits", "nmae: digits"), "name"},
           {With("{onnx: models/cnn.onnx}", "{}"), "job.yaml:2"},
           {With("{onnx: models/cnn.onnx}", "{onnx: a, torchscript: b}"), "both"},
           {With("shape: [1, 8, 8], ", ""), "shape"},
           {With("classes: 10", "classes: 1"), "job.yaml:3"},
           {With("holdout: 20%", "holdout: 120%"), "holdout"},
           {With("epochs: 2, ", ""), "epochs or iterations"},
           {With("epochs: 2", "epochs: 2, iterations: 3"), "both"},
           {With("batch: 64", "batch: 63"), "must be a multiple of train.micro_batches (2), got 63"},
           {With("kind: sgd", "kind: lion"), "sgd"},
           {With("momentum", "momentun"), "momentum"},
           {With("epochs: 2", "epochs: 2, replicas: 2"), "train.replicas must be 1"},
       }) {
    const std::string error = ErrorOf(text);
    EXPECT_NE(error.find(expected), std::string::npos) << error << "\n  lacks: " << expected;
    EXPECT_EQ(error.rfind("job.yaml", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(JobFileTest, ReadsTheWholeSchema) {
  const JobFile job = ParseJobFile(R"(name: text
model: {onnx: t.onnx}
init: kaiming
data: {tokens: a.txt, type: uint16, length: 64, classes: 128}
train:
  iterations: 100
  batch: 32
  micro_batches: 4
  optimizer: {kind: adamw, lr: 0.003, clip_norm: 1, schedule: {kind: cosine, warmup: 10, floor: 0.1}}
  precision: bf16
  wire: fp16
  pipeline: gpipe
  evaluate: end
checkpoint: {every: 2m, keep: 3, peers: 1}
retry: {infra: 4, job: 2}
resources: {gpus: 1, memory: 6GB, arch: aarch64, min_link: 20Mbit/s}
)",
                                   "job.yaml", "/folder");
  EXPECT_EQ(job.loss, "token_cross_entropy");  // follows from the data
  EXPECT_EQ(job.checkpoint_every_seconds, 120);
  EXPECT_EQ(job.checkpoint_peers, 1);
  const wire::TrainSpec spec = ToTrainSpec(job);
  EXPECT_EQ(spec.data().token_type(), "uint16");
  EXPECT_EQ(spec.data().sample_shape(0), 64);
  EXPECT_EQ(spec.optimizer().clip_norm(), 1);
  EXPECT_EQ(spec.optimizer().schedule().kind(), "cosine");
  EXPECT_EQ(spec.optimizer().schedule().floor(), 0.1);
  EXPECT_EQ(spec.precision(), "bf16");
  EXPECT_EQ(spec.wire(), "fp16");
  EXPECT_EQ(spec.pipeline(), "gpipe");
  EXPECT_EQ(spec.evaluate(), "end");
}

TEST(JobFileTest, DataAndLossMustGoTogether) {
  const std::string csv = "csv: data/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16, holdout: 20%";
  for (const auto& [text, expected] : std::initializer_list<std::pair<std::string, std::string>>{
           {With("momentum: 0.9}", "momentum: 0.9}, loss: hinge"), "one of cross_entropy, token_cross_entropy, mse, got 'hinge'"},
           {With("momentum: 0.9}", "momentum: 0.9}, loss: token_cross_entropy"), "train.loss must be cross_entropy or mse"},
           {With(csv, "tokens: a.txt, length: 8, classes: 20}\n#"), "no error"},
           {With(csv, "tokens: a.txt, classes: 20"), "length"},
           {With(csv, "csv: a, idx: b"), "one of csv, idx, cifar, pt and tokens"},
           {With(csv, "csv: a, shape: [2], targets: 1, classes: 3"), "classes or targets"},
           {With(csv, "csv: a, shape: [2], targets: 1"), "no error"},
           {With(csv, "cifar: [], classes: 10"), "an empty list"},
           {With(csv, "cifar: [a, b], classes: 10"), "no error"},
       }) {
    EXPECT_NE(ErrorOf(text).find(expected), std::string::npos) << text << "\n" << ErrorOf(text);
  }
}

}  // namespace
}  // namespace weir::worker
