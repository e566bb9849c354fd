#include "agent/baselines/baselines.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <utility>

#include "agent/baselines/rule.h"
#include "env/core/error.h"
#include "env/core/yaml.h"

namespace weir {
namespace {

using Order = RuleOptions::Order;
using Choice = RuleOptions::Choice;

RuleOptions Simple(Order order, bool strict, Choice choice) {
  RuleOptions options;
  options.order = order;
  options.strict = strict;
  options.choice = choice;
  return options;
}

RuleOptions Hold(RuleOptions options, double kappa) {
  options.kappa = kappa;
  options.claim = 1;
  return options;
}

RuleOptions Mc(RuleOptions options) {
  options.alpha = 1;
  options.projected = true;
  return options;
}

const std::vector<std::pair<std::string, RuleOptions>>& Rules() {
  static const std::vector<std::pair<std::string, RuleOptions>> rules = {
      {"fifo", Simple(Order::kArrival, true, Choice::kSpread)},
      {"sjf", Simple(Order::kWork, false, Choice::kSpread)},
      {"greedy", Simple(Order::kArrival, false, Choice::kPrice)},
      {"fifo-pack", Simple(Order::kArrival, true, Choice::kPack)},
      {"sjf-pack", Simple(Order::kWork, false, Choice::kPack)},
      {"sjf-strict", Simple(Order::kWork, true, Choice::kSpread)},
      {"fifo-eft", Simple(Order::kArrival, true, Choice::kPrice)},
      {"sjf-eft", Simple(Order::kWork, false, Choice::kPrice)},
      {"ljf-eft", Simple(Order::kLongestWork, false, Choice::kPrice)},
      {"work-memory", Simple(Order::kWorkMemory, false, Choice::kPrice)},
      {"work-subgraphs", Simple(Order::kWorkSubgraphs, false, Choice::kPrice)},
      {"sbt-eft", Simple(Order::kBestTime, false, Choice::kPrice)},
      {"sbt-mc", Mc(Simple(Order::kBestTime, false, Choice::kPrice))},
      {"greedy-hold-2", Hold(Simple(Order::kArrival, false, Choice::kPrice), 2)},
      {"sbt-eft-hold-2", Hold(Simple(Order::kBestTime, false, Choice::kPrice), 2)},
      {"sbt-mc-hold-1", Hold(Mc(Simple(Order::kBestTime, false, Choice::kPrice)), 1)},
      {"sbt-mc-hold-1.5", Hold(Mc(Simple(Order::kBestTime, false, Choice::kPrice)), 1.5)},
      {"rule", TenParameterRule()},
  };
  return rules;
}

}  // namespace

const std::vector<std::string>& BaselineNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, options] : Rules()) all.push_back(name);
    all.push_back("min-min");
    all.push_back("random");
    return all;
  }();
  return names;
}

std::unique_ptr<Scheduler> MakeBaseline(const std::string& name) {
  for (const auto& [known, options] : Rules()) {
    if (known == name) return std::make_unique<RuleScheduler>(name, options);
  }
  if (name == "min-min") return std::make_unique<MinMinScheduler>();
  if (name == "random") return std::make_unique<RandomScheduler>(1);
  const std::string nearest = NearestName(name, BaselineNames());
  throw Invalid("unknown scheduler '{}'{} (known: {})", name, nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                fmt::join(BaselineNames(), ", "));
}

}  // namespace weir
