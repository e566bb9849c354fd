#include "env/core/units.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(UnitsTest, ReadsDecimalAndBinarySizes) {
  EXPECT_EQ(ParseQuantity("6GB", Unit::kBytes), 6e9);
  EXPECT_EQ(ParseQuantity("4GiB", Unit::kBytes), 4294967296.0);
  EXPECT_EQ(ParseQuantity("512B", Unit::kBytes), 512.0);
  EXPECT_EQ(ParseQuantity("1 Gbit/s", Unit::kBytesPerSecond), 125e6);
  EXPECT_EQ(ParseQuantity("200ms", Unit::kSeconds), 0.2);
  EXPECT_EQ(ParseQuantity("3TFLOP/s", Unit::kFlopPerSecond), 3e12);
}

TEST(UnitsTest, RefusesMissingWrongNegativeAndNonFinite) {
  for (const char* text : {"", "GB", "-1GB", "6GX", "nan", "inf", "1e999GB", "6 G B"}) {
    EXPECT_FALSE(ParseQuantity(text, Unit::kBytes)) << text;
  }
  EXPECT_FALSE(ParseQuantity("30", Unit::kSeconds)) << "a bare number has no unit";
  EXPECT_FALSE(ParseQuantity("6", Unit::kBytes)) << "a bare number has no unit";
  EXPECT_FALSE(ParseQuantity("1e308TFLOP/s", Unit::kFlopPerSecond)) << "the product is not finite";
  EXPECT_FALSE(ParseQuantity("30GB", Unit::kSeconds));
}

}  // namespace
}  // namespace weir
