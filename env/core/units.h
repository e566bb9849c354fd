// Quantities with explicit units, as they stand in configuration files and on command lines. All results are SI.
#ifndef WEIR_ENV_CORE_UNITS_H_
#define WEIR_ENV_CORE_UNITS_H_

#include <optional>
#include <string>
#include <string_view>

namespace weir {

enum class Unit {
  kBytes,           // "512B", "6GB" (10^9), "4GiB" (2^30); a bare number is refused
  kSeconds,         // "0.5s", "200ms", "50us", "2m", "1h"; a bare number is refused
  kFlopPerSecond,   // "3TFLOP/s", "250GFLOP/s", "80MFLOP/s"
  kBytesPerSecond,  // "1Gbit/s" (= 125e6), "12.5MB/s"
};

// The value in SI units, or nullopt where the text isn't a non-negative finite number followed by a unit of this kind.
std::optional<double> ParseQuantity(std::string_view text, Unit unit);
// What to write in an error: `a size such as 512MB or 4GiB`.
std::string_view DescribeUnit(Unit unit);

// For people: "1.50 GB", "12.5 MB/s", "2m05s", "4.09 G".
std::string FormatBytes(double bytes);
std::string FormatSeconds(double seconds);
std::string FormatCount(double value);

}  // namespace weir

#endif  // WEIR_ENV_CORE_UNITS_H_
