#include "agent/train/tensorboard.h"

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "env/core/error.h"

namespace weir {
namespace {

std::uint32_t Mask(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
std::string Bytes(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
std::string Varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string Message(char key, const std::string& payload) {
  return std::string(1, key) + Varint(payload.size()) + payload;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::uint32_t Crc32c(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78u : 0);
      t[i] = c;
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (unsigned char b : bytes) crc = (crc >> 8) ^ table[(crc ^ b) & 255];
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  path_ = fmt::format("{}/events.out.tfevents.{}.weir", folder, static_cast<long>(Now()));
  file_.open(path_, std::ios::binary);
  if (!file_) throw Failure(ExitCode::kInfrastructure, "{}: can't be written", path_);
  // Event{1: wall time, 3: file version}
  Write('\x09' + Bytes(Now()) + Message('\x1a', "brain.Event:2"));
}

void TensorBoardWriter::Add(const std::string& tag, std::int64_t step, float value) {
  // Event{1: wall time, 2: step, 5: Summary{1: Value{1: tag, 2: simple value}}}
  const std::string scalar = Message('\x0a', tag) + '\x15' + Bytes(value);
  Write('\x09' + Bytes(Now()) + '\x10' + Varint(static_cast<std::uint64_t>(step)) + Message('\x2a', Message('\x0a', scalar)));
}

void TensorBoardWriter::Write(const std::string& payload) {
  const std::string length = Bytes(static_cast<std::uint64_t>(payload.size()));
  file_ << length << Bytes(Mask(Crc32c(length))) << payload << Bytes(Mask(Crc32c(payload)));
  file_.flush();
}

}  // namespace weir
