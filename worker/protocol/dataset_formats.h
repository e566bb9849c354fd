// Private to the readers of data sets: what all formats share.
#ifndef WEIR_WORKER_PROTOCOL_DATASET_FORMATS_H_
#define WEIR_WORKER_PROTOCOL_DATASET_FORMATS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/protocol/dataset.h"

namespace weir::worker {

inline constexpr std::int64_t kMostValues = std::int64_t{1} << 30;

// The whole file, unpacked where it is gzipped.
std::string ReadUnpacked(const std::string& path);
// Elements of a sample; throws where a shape is out of bounds.
std::int64_t Product(const std::vector<std::int64_t>& shape, const std::string& path);
// `value` as a class; throws, beginning with `where`.
std::int64_t CheckLabel(double value, std::int64_t classes, const std::string& where);

Dataset ReadCsv(const std::string& path, const wire::DataSpec& spec);
Dataset ReadIdx(const std::string& path, const std::string& labels_path, const wire::DataSpec& spec);
Dataset ReadCifar(const std::string& path, const wire::DataSpec& spec);
Dataset ReadTokens(const std::string& path, const wire::DataSpec& spec);
Dataset ReadPt(const std::string& path, const wire::DataSpec& spec);  // by libweir_torch.so

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_DATASET_FORMATS_H_
