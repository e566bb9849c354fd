#include "worker/protocol/frame.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "env/core/check.h"

namespace weir::worker {
namespace {

constexpr std::uint32_t kMagic = 0x52494557;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0x82F63B78u : 0);
    table[i] = c;
  }
  return table;
}();

void Put(std::string* out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

std::uint32_t Get(std::string_view in, std::size_t offset, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint32_t>(static_cast<unsigned char>(in[offset + i])) << (8 * i);
  return value;
}

}  // namespace

std::uint32_t Crc32c(std::string_view data) {
  std::uint32_t c = ~0u;
  for (unsigned char b : data) c = (c >> 8) ^ kCrcTable[(c ^ b) & 255];
  return ~c;
}

std::string EncodeFrame(MessageType type, std::string_view body) {
  WEIR_CHECK_LE(body.size(), kMaxBodyBytes);
  std::string out;
  out.reserve(kFrameHeaderBytes + body.size());
  Put(&out, kMagic, 4);
  Put(&out, kProtocolVersion, 2);
  Put(&out, static_cast<std::uint16_t>(type), 2);
  Put(&out, body.size(), 4);
  Put(&out, Crc32c(body), 4);
  out.append(body);
  return out;
}

std::optional<Frame> DecodeFrame(std::string_view bytes, std::string* error) {
  auto fail = [&](std::string what) {
    *error = std::move(what);
    return std::nullopt;
  };
  if (bytes.size() < kFrameHeaderBytes) return fail("truncated");
  if (Get(bytes, 0, 4) != kMagic) return fail("bad magic");
  if (const std::uint32_t version = Get(bytes, 4, 2); version != kProtocolVersion) {
    return fail(fmt::format("protocol version {}, expected {}", version, kProtocolVersion));
  }
  const std::uint32_t length = Get(bytes, 8, 4);
  if (length > kMaxBodyBytes) return fail(fmt::format("body of {} bytes, at most {}", length, kMaxBodyBytes));
  if (bytes.size() != kFrameHeaderBytes + length) return fail("length doesn't match");
  const std::string_view body = bytes.substr(kFrameHeaderBytes);
  if (Get(bytes, 12, 4) != Crc32c(body)) return fail("checksum doesn't match");
  return Frame{static_cast<MessageType>(Get(bytes, 6, 2)), std::string(body)};
}

}  // namespace weir::worker
