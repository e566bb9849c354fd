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

}  // namespace
}  // namespace weir::worker
