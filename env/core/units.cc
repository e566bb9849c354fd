#include "env/core/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace weir {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr std::array kByteSuffixes = {Suffix{"B", 1},        Suffix{"kB", 1e3},    Suffix{"KB", 1e3},     Suffix{"MB", 1e6},
                                      Suffix{"GB", 1e9},     Suffix{"TB", 1e12},   Suffix{"KiB", 0x1p10}, Suffix{"MiB", 0x1p20},
                                      Suffix{"GiB", 0x1p30}, Suffix{"TiB", 0x1p40}};
constexpr std::array kSecondSuffixes = {Suffix{"s", 1},  Suffix{"ms", 1e-3}, Suffix{"us", 1e-6}, Suffix{"ns", 1e-9},
                                        Suffix{"m", 60}, Suffix{"min", 60},  Suffix{"h", 3600},  Suffix{"d", 86400}};
constexpr std::array kFlopSuffixes = {Suffix{"FLOP/s", 1},    Suffix{"kFLOP/s", 1e3},  Suffix{"MFLOP/s", 1e6},
                                      Suffix{"GFLOP/s", 1e9}, Suffix{"TFLOP/s", 1e12}, Suffix{"PFLOP/s", 1e15}};
constexpr std::array kRateSuffixes = {Suffix{"bit/s", 0.125},  Suffix{"kbit/s", 125},  Suffix{"Mbit/s", 125e3},
                                      Suffix{"Gbit/s", 125e6}, Suffix{"B/s", 1},       Suffix{"kB/s", 1e3},
                                      Suffix{"MB/s", 1e6},     Suffix{"GB/s", 1e9},    Suffix{"KiB/s", 0x1p10},
                                      Suffix{"MiB/s", 0x1p20}, Suffix{"GiB/s", 0x1p30}};

template <std::size_t N>
std::optional<double> Factor(std::string_view suffix, const std::array<Suffix, N>& table) {
  for (const Suffix& s : table) {
    if (s.text == suffix) return s.factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> ParseQuantity(std::string_view text, Unit unit) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string_view suffix(end, text.data() + text.size() - end);
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  std::optional<double> factor;
  switch (unit) {
    case Unit::kBytes:
      factor = Factor(suffix, kByteSuffixes);
      break;
    case Unit::kSeconds:
      factor = Factor(suffix, kSecondSuffixes);
      break;
    case Unit::kFlopPerSecond:
      factor = Factor(suffix, kFlopSuffixes);
      break;
    case Unit::kBytesPerSecond:
      factor = Factor(suffix, kRateSuffixes);
      break;
  }
  if (!factor || !std::isfinite(value * *factor)) return std::nullopt;
  return value * *factor;
}

std::string_view DescribeUnit(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return "a size such as 512MB or 4GiB";
    case Unit::kSeconds:
      return "a time such as 200ms, 30s or 2m";
    case Unit::kFlopPerSecond:
      return "a rate such as 250GFLOP/s or 3TFLOP/s";
    case Unit::kBytesPerSecond:
      return "a rate such as 100Mbit/s or 12.5MB/s";
  }
  return "a quantity";
}

std::string FormatBytes(double bytes) {
  for (auto [limit, unit] : {std::pair{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}) {
    if (bytes >= limit) return fmt::format("{:.3g} {}", bytes / limit, unit);
  }
  return fmt::format("{:.0f} B", bytes);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string FormatCount(double value) {
  for (auto [limit, unit] : {std::pair{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}) {
    if (value >= limit) return fmt::format("{:.4g}{}", value / limit, unit);
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace weir
