// Training data as plain numbers: read and checked by the submitter, by the coordinator and by the executor with the same code.
//   csv  rows of numbers separated by commas, the last column is the label; no header line
//   idx  the MNIST format: one file of samples, one of labels
// Both may be gzipped (told by content). Deterministic; thread-safe (no shared state).
#ifndef WEIR_WORKER_PROTOCOL_DATASET_H_
#define WEIR_WORKER_PROTOCOL_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weir::worker {

struct Dataset {
  std::int64_t samples = 0;
  std::vector<std::int64_t> sample_shape;  // of one sample, without the batch
  std::vector<float> features;             // samples x product(sample_shape), row after row, already divided by the scale
  std::vector<std::int64_t> labels;        // one a sample, in [0, classes)
};

// `format`: "csv" or "idx"; `labels_path` is read for idx only. An empty `shape` (idx only) means the shape in the file.
// Throws Error(kInvalid) in one line that names file, line and what was expected and found:
//   data.csv.gz:17: expected 65 columns (64 features and a label), found 64
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
