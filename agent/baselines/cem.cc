#include "agent/baselines/cem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "env/core/check.h"
#include "env/core/rng.h"

namespace weir {
namespace {

double Rounded(double value) {
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

}  // namespace

CemResult MinimizeByCem(const std::vector<CemParameter>& parameters, const CemOptions& options, const CemScore& score,
                        const std::function<void(int generation, const CemGeneration&)>& progress) {
  WEIR_CHECK(options.generations >= 1 && options.population >= options.least_elite && options.least_elite >= 1);
  const std::size_t n = parameters.size();
  std::vector<double> centre(n), spread(n);
  for (std::size_t i = 0; i < n; ++i) {
    centre[i] = parameters[i].linear ? parameters[i].start : std::log(parameters[i].start);
    spread[i] = parameters[i].spread;
  }
  const auto values_of = [&](const std::vector<double>& point) {
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = Rounded(parameters[i].linear ? point[i] : std::exp(point[i]));
    return values;
  };
  const int elite = std::max(options.least_elite, static_cast<int>(options.elite_share * options.population));
  const Rng root(options.seed);
  CemResult result;
  result.score = std::numeric_limits<double>::infinity();
  for (int generation = 0; generation < options.generations; ++generation) {
    std::vector<std::vector<double>> points, values;
    for (int s = 0; s < options.population; ++s) {
      Rng rng = root.Split(static_cast<std::uint64_t>(generation) * 1'000'003 + static_cast<std::uint64_t>(s));
      std::vector<double> point(n);
      for (std::size_t i = 0; i < n; ++i) point[i] = centre[i] + spread[i] * rng.Normal();
      values.push_back(values_of(point));
      points.push_back(std::move(point));
    }
    const std::vector<double> scores = score(values);
    std::vector<int> order(options.population);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[a] < scores[b]; });
    if (scores[order[0]] < result.score) {
      result.score = scores[order[0]];
      result.values = values[order[0]];
    }
    for (std::size_t i = 0; i < n; ++i) {
      double mean = 0, squares = 0;
      for (int e = 0; e < elite; ++e) mean += points[order[e]][i] / elite;
      for (int e = 0; e < elite; ++e) squares += (points[order[e]][i] - mean) * (points[order[e]][i] - mean) / elite;
      centre[i] = options.keep_centre * centre[i] + (1 - options.keep_centre) * mean;
      spread[i] =
          std::max(options.least_spread, options.keep_spread * spread[i] + (1 - options.keep_spread) * std::sqrt(squares));
    }
    result.generations.push_back({scores[order[0]], scores[order[options.population / 2]], values_of(centre)});
    if (progress) progress(generation, result.generations.back());
  }
  const double of_centre = score({values_of(centre)})[0];
  result.is_centre = !(result.score < of_centre - options.margin);
  if (result.is_centre) {
    result.score = of_centre;
    result.values = values_of(centre);
  }
  return result;
}

}  // namespace weir
