#include "worker/protocol/frame.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::worker {
namespace {

TEST(FrameTest, ChecksumMatchesTheStandardVector) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(FrameTest, DecodesWhatItEncodes) {
  std::string error;
  for (const std::string& body : {std::string(), std::string("x"), std::string(70000, '\xfe')}) {
    const auto frame = DecodeFrame(EncodeFrame(MessageType::kProgress, body), &error);
    ASSERT_TRUE(frame) << error;
    EXPECT_EQ(frame->type, MessageType::kProgress);
    EXPECT_EQ(frame->body, body);
  }
}

TEST(FrameTest, RefusesEveryTruncationAndEveryExtension) {
  const std::string bytes = EncodeFrame(MessageType::kHello, "some body");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::string error;
    EXPECT_FALSE(DecodeFrame(std::string_view(bytes).substr(0, size), &error)) << size;
    EXPECT_NE(error, "");
  }
  std::string error;
  EXPECT_FALSE(DecodeFrame(bytes + "x", &error));
}

// The type isn't covered by the checksum: a flipped bit there gives another type, which the receiver refuses as unknown or
// unreadable.
TEST(FrameTest, RefusesEveryFlippedBitOutsideTheType) {
  const std::string good = EncodeFrame(MessageType::kHello, "some body");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    std::string error;
    const auto frame = DecodeFrame(bytes, &error);
    if (bit / 8 == 6 || bit / 8 == 7) {
      ASSERT_TRUE(frame);
      EXPECT_NE(frame->type, MessageType::kHello);
    } else {
      EXPECT_FALSE(frame) << "bit " << bit;
    }
  }
}

TEST(FrameTest, SaysWhatIsOff) {
  std::string bytes = EncodeFrame(MessageType::kHello, "b"), error;
  bytes[4] = 2;
  EXPECT_FALSE(DecodeFrame(bytes, &error));
  EXPECT_EQ(error, "protocol version 2, expected 1");
  bytes = EncodeFrame(MessageType::kHello, "b");
  bytes[11] = '\x7f';
  EXPECT_FALSE(DecodeFrame(bytes, &error));
  EXPECT_EQ(error, "body of 2130706433 bytes, at most 8388608");
}

}  // namespace
}  // namespace weir::worker
