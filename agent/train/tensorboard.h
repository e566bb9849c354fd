// Scalars as a TensorBoard event file: records of u64 length, masked CRC32C of it, payload, masked CRC32C of that.
#ifndef WEIR_AGENT_TRAIN_TENSORBOARD_H_
#define WEIR_AGENT_TRAIN_TENSORBOARD_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace weir {

class TensorBoardWriter {
 public:
  // Creates the folder and events.out.tfevents.<seconds since 1970>.weir in it. Throws Error(kInfrastructure).
  explicit TensorBoardWriter(const std::string& folder);
  void Add(const std::string& tag, std::int64_t step, float value);  // flushed at once
  const std::string& path() const { return path_; }

 private:
  void Write(const std::string& payload);
  std::string path_;
  std::ofstream file_;
};

std::uint32_t Crc32c(const std::string& bytes);

}  // namespace weir

#endif  // WEIR_AGENT_TRAIN_TENSORBOARD_H_
