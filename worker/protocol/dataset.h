// Training data as plain numbers: read and checked by the submitter, by the coordinator and by the executor with the same code.
//   csv     rows of numbers separated by commas; the last column is the class, or the last `targets` columns are real targets; no
//           header line
//   idx     the MNIST format: one file of samples, one of labels
//   cifar   records of `label_bytes` label bytes and 3072 pixels (3 x 32 x 32); files one after the other are one data set
//   pt      tensors that torch.save wrote: {features_key: X, labels_key: Y} or (X, Y); read by LibTorch (libweir_torch.so)
//   tokens  a file of token numbers; sample i is the window [i L, i L + L), its labels are the tokens one place later
// csv, idx, cifar and tokens may be gzipped (told by content). Deterministic; thread-safe (no shared state).
#ifndef WEIR_WORKER_PROTOCOL_DATASET_H_
#define WEIR_WORKER_PROTOCOL_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weir::wire {
class DataSpec;
}

namespace weir::worker {

struct Dataset {
  std::int64_t samples = 0;
  std::vector<std::int64_t> sample_shape;  // of one sample, without the batch
  // One of the two: samples x product(sample_shape), row after row.
  std::vector<float> features;    // already divided by the scale
  std::vector<std::int64_t> ids;  // whole numbers: token ids, fed as int64
  // One of the two: samples x product(label_shape).
  std::vector<std::int64_t> labels;       // classes in [0, num_classes)
  std::vector<float> targets;             // real ones (loss mse)
  std::vector<std::int64_t> label_shape;  // of one sample: [] for a class, [L] for a window of tokens, [n] for targets
};

// `labels_path` is read for idx only. An empty sample_shape means the shape in the file (idx, cifar, pt).
// Throws Error(kInvalid) in one line that names file, line and what was expected and found:
//   data.csv.gz:17: expected 65 columns (64 features and a label), found 64
Dataset ReadDataset(const std::string& path, const std::string& labels_path, const wire::DataSpec& spec);
Dataset ReadDataset(const std::string& path, const std::string& labels_path, const std::string& format,
                    const std::vector<std::int64_t>& shape, std::int64_t classes, double scale);

// How many samples are kept for evaluation; the others train. Every process must agree on it: nearest whole number, at least one
// sample is left to train.
std::int64_t HeldOutSamples(std::int64_t samples, double holdout);
// Iterations of a job: `iterations` where > 0, else ceil(epochs * floor(train_samples / batch)), at least 1.
// REQUIRES: batch in [1, train_samples].
std::int64_t TotalIterations(double iterations, double epochs, std::int64_t train_samples, std::int64_t batch);

std::string FormatShape(const std::vector<std::int64_t>& shape);  // "[1, 8, 8]"

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_DATASET_H_
