#include "env/workload/durations.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "env/core/check.h"
#include "env/workload/csv.h"

namespace weir {
namespace {

double NormalCdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

double PositiveSeconds(const Yaml& map, const char* key) {
  const Yaml value = map.Required(key);
  const double seconds = value.AsQuantity(Unit::kSeconds);
  if (!(seconds > 0)) value.Fail(std::string(DescribeUnit(Unit::kSeconds)) + " above 0");
  return seconds;
}

}  // namespace

double DurationLaw::Mean() const {
  switch (kind) {
    case Kind::kLogNormal: {
      const double mu = std::log(median);
      const double a = (std::log(min) - mu) / sigma, b = (std::log(max) - mu) / sigma;
      return std::exp(mu + sigma * sigma / 2) * (NormalCdf(b - sigma) - NormalCdf(a - sigma)) / (NormalCdf(b) - NormalCdf(a));
    }
    case Kind::kPareto: {
      const double ratio = min / max;
      if (ratio == 1) return min;
      const double tail = 1 - std::pow(ratio, alpha);
      // alpha -> 1 is the limit min * ln(max/min) / (1 - min/max).
      if (std::abs(alpha - 1) < 1e-9) return min * -std::log(ratio) / tail;
      return min * alpha / (alpha - 1) * (1 - std::pow(ratio, alpha - 1)) / tail;
    }
    case Kind::kFile: {
      double sum = 0;
      for (double value : values) sum += value;
      return sum / static_cast<double>(values.size());
    }
  }
  return 0;
}

double DurationLaw::Draw(Rng* rng) const {
  switch (kind) {
    case Kind::kLogNormal:
      while (true) {
        const double seconds = rng->LogNormal(median, sigma);
        if (seconds >= min && seconds <= max) return seconds;
      }
    case Kind::kPareto:
      return std::min(max, min * std::pow(1 - rng->Uniform() * (1 - std::pow(min / max, alpha)), -1 / alpha));
    case Kind::kFile:
      WEIR_CHECK(!values.empty());
      return values[rng->Below(values.size())];
  }
  return 0;
}

void DurationLaw::Scale(double factor) {
  for (double* seconds : {&min, &max, &median}) *seconds *= factor;
  for (double& seconds : values) seconds *= factor;
}

DurationLaw DurationsFromYaml(const Yaml& map, const std::string& folder) {
  DurationLaw law;
  if (auto kind = map.Optional("kind")) {
    law.kind = static_cast<DurationLaw::Kind>(kind->AsEnum({"lognormal", "pareto", "file"}));
  }
  law.min = PositiveSeconds(map, "min");
  law.max = PositiveSeconds(map, "max");
  if (law.min > law.max) map.Fail("in order: min <= max");
  switch (law.kind) {
    case DurationLaw::Kind::kLogNormal:
      law.median = PositiveSeconds(map, "median");
      law.sigma = map.Required("sigma").AsDouble(1e-6, 10);
      if (law.min > law.median || law.median > law.max) map.Fail("in order: min <= median <= max");
      break;
    case DurationLaw::Kind::kPareto:
      law.alpha = map.Required("alpha").AsDouble(1e-3, 100);
      break;
    case DurationLaw::Kind::kFile: {
      const Yaml file = map.Required("file");
      const std::string path = law.file = (std::filesystem::path(folder) / file.AsString()).string();
      const CsvTable table = CsvTable::Read(path);
      const int column = table.Column(map.String("column", "duration_s"));
      for (int row = 0; row < table.num_rows(); ++row) {
        if (table.IsEmpty(row, column)) continue;
        const double seconds = table.Number(row, column, 0, kMostSeconds);
        if (seconds >= law.min && seconds <= law.max) law.values.push_back(seconds);
      }
      if (law.values.empty()) {
        file.Fail(fmt::format("a file with a duration from {} to {} s", law.min, law.max),
                  fmt::format("none among {} rows of {}", table.num_rows(), path));
      }
      break;
    }
  }
  return law;
}

}  // namespace weir
