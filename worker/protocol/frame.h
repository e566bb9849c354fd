// The frame around every protobuf body: 16 bytes little-endian, then the body.
//   u32 magic 0x52494557 ("WEIR") | u16 version | u16 type | u32 length of the body | u32 CRC32C of the body
// A frame is checked before a parser sees a byte of its body.
#ifndef WEIR_WORKER_PROTOCOL_FRAME_H_
#define WEIR_WORKER_PROTOCOL_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::worker {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kMaxBodyBytes = 8u << 20;

// One value a message of wire.proto that travels in a frame. Never reuse a number.
enum class MessageType : std::uint16_t {
  kHello = 1,
  kHelloAck = 2,
  kHeartbeat = 3,
  kHeartbeatAck = 4,
  kBye = 5,
  kAssign = 10,
  kAssignAck = 11,
  kStop = 12,
  kProgress = 13,
  kStageDone = 14,
  kStageFailed = 15,
  kStageAck = 16,
  kTakeCheckpoint = 17,
  kStageCheckpoint = 18,
  kExecutorReady = 20,
  kRunStage = 21,
  kSubmitRequest = 30,
  kSubmitReply = 31,
  kListRequest = 32,
  kListReply = 33,
  kShowRequest = 34,
  kShowReply = 35,
  kCancelRequest = 36,
  kCancelReply = 37,
  kShutdownRequest = 38,
  kShutdownReply = 39,
  kErrorReply = 40,
  kInfoRequest = 41,
  kInfoReply = 42,
  kArtifactPut = 50,
  kArtifactPutReply = 51,
  kArtifactGet = 52,
  kArtifactGetReply = 53,
  kBulkHeader = 60,
  kBenchRequest = 61,
  kBenchReply = 62,
  kCalibrate = 63,
  kCalibrated = 64,
  kProbeLink = 65,
  kLinkReport = 66,
  kPlanQueryRequest = 80,
  kPlanQueryReply = 81,
};

struct Frame {
  MessageType type;
  std::string body;
};

std::uint32_t Crc32c(std::string_view data);  // polynomial 0x1EDC6F41, reflected; "123456789" -> 0xe3069283

std::string EncodeFrame(MessageType type, std::string_view body);  // REQUIRES: body.size() <= kMaxBodyBytes
// nullopt where anything is off; `error` then says what in one clause: "truncated", "bad magic", "protocol version 2, expected
// 1", ...
std::optional<Frame> DecodeFrame(std::string_view bytes, std::string* error);

// For a protobuf message.
template <typename Message>
std::string Encode(MessageType type, const Message& message) {
  return EncodeFrame(type, message.SerializeAsString());
}

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_FRAME_H_
