#include "coordinator/corrections.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "env/core/error.h"

namespace weir::coordinator {
namespace {

constexpr int kMostCount = 1 << 20;

bool Positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

void Corrections::Average::Add(double x) {
  count = std::min(count + 1, kMostCount);
  value += std::max(1.0 / count, kWeight) * (x - value);
}

void Corrections::AddIteration(const std::string& model, const std::vector<std::string>& devices, double measured,
                               double modelled) {
  if (!Positive(measured) || !Positive(modelled)) return;
  const double bound = std::log(kBound);
  for (const std::string& device : devices)
    log_ratio_[{model, device}].Add(std::clamp(std::log(measured / modelled), -bound, bound));
}

double Corrections::Factor(const std::string& model, const std::vector<std::string>& devices) const {
  double sum = 0;
  int known = 0;
  for (const std::string& device : devices) {
    const auto found = log_ratio_.find({model, device});
    if (found == log_ratio_.end()) continue;
    sum += found->second.value;
    ++known;
  }
  return known ? std::exp(sum / known) : 1;
}

void Corrections::AddOverhead(const std::string& model, double seconds) {
  if (std::isfinite(seconds)) overhead_[model].Add(std::clamp(seconds, 0.0, kMostSeconds));
}

double Corrections::Overhead(const std::string& model) const {
  if (const auto found = overhead_.find(model); found != overhead_.end()) return found->second.value;
  if (overhead_.empty()) return kUnknownOverhead;
  double sum = 0;
  for (const auto& [name, average] : overhead_) sum += average.value;
  return sum / static_cast<double>(overhead_.size());
}

std::string Corrections::Format() const {
  nlohmann::ordered_json out = {{"version", 1}};
  out["iterations"] = nlohmann::ordered_json::array();
  for (const auto& [key, average] : log_ratio_)
    out["iterations"].push_back(
        {{"model", key.first}, {"device", key.second}, {"log_ratio", average.value}, {"count", average.count}});
  out["overheads"] = nlohmann::ordered_json::array();
  for (const auto& [model, average] : overhead_)
    out["overheads"].push_back({{"model", model}, {"seconds", average.value}, {"count", average.count}});
  return out.dump(1) + "\n";
}

Corrections Corrections::Parse(const std::string& text, const std::string& source) {
  Corrections corrections;
  try {
    const auto in = nlohmann::json::parse(text);
    if (in.at("version") != 1) throw Invalid("{}: version 1 expected, got {}", source, in.at("version").dump());
    const auto read = [&](const nlohmann::json& item, const char* key, double least, double most) {
      Average average{item.at(key).get<double>(), item.at("count").get<int>()};
      if (!(average.value >= least && average.value <= most) || average.count < 1 || average.count > kMostCount)
        throw Invalid("{}: {} out of its range: {}", source, key, item.dump());
      return average;
    };
    const double bound = std::log(kBound) * (1 + 1e-12);
    for (const auto& item : in.at("iterations"))
      corrections.log_ratio_[{item.at("model").get<std::string>(), item.at("device").get<std::string>()}] =
          read(item, "log_ratio", -bound, bound);
    for (const auto& item : in.at("overheads"))
      corrections.overhead_[item.at("model").get<std::string>()] = read(item, "seconds", 0, kMostSeconds);
  } catch (const nlohmann::json::exception& e) {
    throw Invalid("{}: not what was learned from earlier runs: {}", source, e.what());
  }
  return corrections;
}

}  // namespace weir::coordinator
