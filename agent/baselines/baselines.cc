#include "agent/baselines/baselines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "agent/baselines/batch.h"
#include "agent/baselines/preempting.h"
#include "agent/baselines/rule.h"
#include "agent/baselines/virtual_order.h"
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

const RuleOptions kGreedy = Simple(Order::kArrival, false, Choice::kPrice);
const RuleOptions kSbtEft = Simple(Order::kBestTime, false, Choice::kPrice);

using Maker = std::function<std::unique_ptr<Scheduler>(const std::string& name)>;
struct Entry {
  std::string name;
  Maker make;
};

Maker Rule(RuleOptions options) {
  return [options](const std::string& name) { return std::make_unique<RuleScheduler>(name, options); };
}
Maker Preempting(RuleOptions options, PreemptOptions preempt) {
  return [=](const std::string& name) { return std::make_unique<PreemptingRule>(name, options, preempt); };
}

// Names that carry a number: "greedy-hold-2" is "greedy-hold-" with 2.
struct Family {
  std::string prefix;
  double low, high;
  std::function<std::unique_ptr<Scheduler>(const std::string& name, double value)> make;
};
const std::vector<Family>& Families() {
  const auto rule = [](const std::string& name, RuleOptions options) -> std::unique_ptr<Scheduler> {
    return std::make_unique<RuleScheduler>(name, options);
  };
  static const std::vector<Family> families = {
      {"greedy-hold-", 0, 1e6, [rule](auto& name, double k) { return rule(name, Hold(kGreedy, k)); }},
      {"sbt-eft-hold-", 0, 1e6, [rule](auto& name, double k) { return rule(name, Hold(kSbtEft, k)); }},
      {"sbt-mc-hold-", 0, 1e6, [rule](auto& name, double k) { return rule(name, Hold(Mc(kSbtEft), k)); }},
      // Shortest remaining work first, EFT; the best busy worker is reserved (A(w) := b) where the idle one is worse than sigma
      // times as good.
      {"srpt-wait-", 0, 1e6,
       [rule](auto& name, double sigma) { return rule(name, Hold(Simple(Order::kWork, false, Choice::kPrice), sigma)); }},
      {"tetris-", 0, 1e6, [](auto& name, double epsilon) { return std::make_unique<TetrisScheduler>(name, epsilon); }},
      {"wfair-", -10, 10,
       [](auto& name, double a) {
         return std::make_unique<VirtualOrderScheduler>(name, VirtualOrderScheduler::Sharing::kWeighted, a);
       }},
  };
  return families;
}

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all = {
        {"fifo", Rule(Simple(Order::kArrival, true, Choice::kSpread))},
        {"sjf", Rule(Simple(Order::kWork, false, Choice::kSpread))},
        {"greedy", Rule(kGreedy)},
        {"fifo-pack", Rule(Simple(Order::kArrival, true, Choice::kPack))},
        {"sjf-pack", Rule(Simple(Order::kWork, false, Choice::kPack))},
        {"sjf-strict", Rule(Simple(Order::kWork, true, Choice::kSpread))},
        {"fifo-eft", Rule(Simple(Order::kArrival, true, Choice::kPrice))},
        {"sjf-eft", Rule(Simple(Order::kWork, false, Choice::kPrice))},
        {"ljf-eft", Rule(Simple(Order::kLongestWork, false, Choice::kPrice))},
        {"work-memory", Rule(Simple(Order::kWorkMemory, false, Choice::kPrice))},
        {"work-subgraphs", Rule(Simple(Order::kWorkSubgraphs, false, Choice::kPrice))},
        {"sbt-eft", Rule(kSbtEft)},
        {"sbt-mc", Rule(Mc(kSbtEft))},
        {"rule", Rule(TunedRule())},
        {"rule-hand", Rule(HandSetRule())},
        {"rule-preempt", Preempting(TunedPreemptingRule().rule, TunedPreemptingRule().preempt)},
        {"sbt-eft-preempt", Preempting(kSbtEft, PreemptOptions{})},
        {"srpt-eft", [](auto&) { return std::make_unique<SrptScheduler>(); }},
        {"las", [](auto& name) { return std::make_unique<LasScheduler>(name, 900, false); }},
        {"las-2d", [](auto& name) { return std::make_unique<LasScheduler>(name, 900, true); }},
        {"heft", Rule(Simple(Order::kArrival, false, Choice::kHeft))},
        {"sjf-heft", Rule(Simple(Order::kWork, false, Choice::kHeft))},
        {"peft", Rule(Simple(Order::kArrival, false, Choice::kPeft))},
        {"min-min", [](auto&) { return std::make_unique<MinMinScheduler>(MinMinScheduler::Rule::kMinMin); }},
        {"max-min", [](auto&) { return std::make_unique<MinMinScheduler>(MinMinScheduler::Rule::kMaxMin); }},
        {"sufferage", [](auto&) { return std::make_unique<MinMinScheduler>(MinMinScheduler::Rule::kSufferage); }},
        {"assignment", [](auto&) { return std::make_unique<AssignmentScheduler>(); }},
        {"a-srpt",
         [](auto& name) {
           return std::make_unique<VirtualOrderScheduler>(name, VirtualOrderScheduler::Sharing::kShortestRemaining);
         }},
        {"random", [](auto&) { return std::make_unique<RandomScheduler>(1); }},
    };
    // The members of families that comparisons use.
    for (const char* name : {"greedy-hold-2", "sbt-eft-hold-2", "sbt-mc-hold-1", "sbt-mc-hold-1.5", "srpt-wait-2", "tetris-0.5",
                             "wfair--1", "wfair-0"}) {
      all.push_back({name, nullptr});
    }
    return all;
  }();
  return entries;
}

std::unique_ptr<Scheduler> FromFamily(const std::string& name) {
  for (const Family& family : Families()) {
    if (!name.starts_with(family.prefix)) continue;
    double value = 0;
    const char *begin = name.data() + family.prefix.size(), *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (begin == end || error != std::errc() || stop != end) continue;
    if (!(value >= family.low && value <= family.high)) {
      throw Invalid("scheduler '{}': its number must be from {} to {}", name, family.low, family.high);
    }
    return family.make(name, value);
  }
  return nullptr;
}

}  // namespace

const std::vector<std::string>& BaselineNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : Entries()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

std::unique_ptr<Scheduler> MakeBaseline(const std::string& name) {
  for (const Entry& entry : Entries()) {
    if (entry.name == name && entry.make) return entry.make(name);
  }
  if (auto scheduler = FromFamily(name)) return scheduler;
  const std::string nearest = NearestName(name, BaselineNames());
  throw Invalid("unknown scheduler '{}'{} (known: {})", name, nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                fmt::join(BaselineNames(), ", "));
}

bool IsBaseline(const std::string& name) {
  for (const Entry& entry : Entries()) {
    if (entry.name == name) return true;
  }
  return FromFamily(name) != nullptr;
}

}  // namespace weir
