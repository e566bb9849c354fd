#include "env/metrics/condition.h"

#include <gtest/gtest.h>

#include <cmath>

#include "env/core/error.h"

namespace weir {
namespace {

Condition::Type TypeOf(const Condition::Name& name) {
  if (name.subject.empty() && name.metric == "cluster") return Condition::Type::kString;
  if (name.metric == "nothing") throw Invalid("unknown {}", name.metric);
  return Condition::Type::kNumber;
}
Condition::Value Lookup(const Condition::Name& name) {
  if (name == Condition::Name{"", "cluster"}) return std::string("edge8");
  if (name == Condition::Name{"", "load"}) return 0.7;
  if (name == Condition::Name{"greedy", "mean_jct"}) return 100.0;
  if (name == Condition::Name{"sbt-mc-hold-1.5", "mean_jct"}) return 60.0;
  if (name == Condition::Name{"policy:out/my.weirpolicy", "mean_jct"}) return 50.0;
  return std::nan("");
}
bool Holds(const std::string& text) {
  return Condition::Parse(text, TypeOf).Holds(Lookup);
}

TEST(ConditionTest, Evaluates) {
  for (const char* text :
       {"greedy.mean_jct > sbt-mc-hold-1.5.mean_jct", "greedy.mean_jct == 100", "100 - 40 <= sbt-mc-hold-1.5.mean_jct",
        "2 + 3 * 4 == 14 and (2 + 3) * 4 == 20", "10 - 4 - 3 == 3 and 16 / 4 / 2 == 2", "-2 * -3 == 6", "1 < 0 or not 2 < 1",
        "1 < 2 or 1 < 2 and 1 > 2", "cluster == 'edge8' and load < 1e0", "cluster != \"small\"",
        "'policy:out/my.weirpolicy'.mean_jct / greedy.mean_jct < .51", "other.x != other.x", "not other.x <= 1",
        "not not 1 == 1"}) {
    EXPECT_TRUE(Holds(text)) << text;
    EXPECT_FALSE(Holds(std::string("not (") + text + ")")) << text;
  }
}

TEST(ConditionTest, RefusesWithThePlaceAndTheReason) {
  auto error = [](const std::string& text) {
    try {
      Condition::Parse(text, TypeOf);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("a.b >"), "condition 'a.b >': expected a number, a name or '(' at position 6, got 'the end'");
  EXPECT_EQ(error("a.b > 1 1"), "condition 'a.b > 1 1': expected an operator or the end at position 9, got '1'");
  EXPECT_EQ(error("(a.b > 1"), "condition '(a.b > 1': expected ')' at position 9, got 'the end'");
  EXPECT_EQ(error("a.b"), "condition 'a.b': expected a comparison such as a.mean_jct > b.mean_jct");
  EXPECT_EQ(error("cluster > 'x'"), "condition 'cluster > 'x'': '>' can't be applied to a text and a text");
  EXPECT_EQ(error("cluster == 1"), "condition 'cluster == 1': '==' can't be applied to a text and a number");
  EXPECT_EQ(error("1 < 2 < 3"), "condition '1 < 2 < 3': expected an operator or the end at position 7, got '< 3'");
  EXPECT_EQ(error("1 and 2"), "condition '1 and 2': 'and' can't be applied to a number and a number");
  EXPECT_EQ(error("'x < 1"), "condition ''x < 1': expected a closing quote at position 1, got ''x < 1'");
  EXPECT_EQ(error("a.nothing > 1"), "unknown nothing");
  EXPECT_EQ(error(std::string(100000, '(')), "condition: nested more than 200 deep");
  EXPECT_EQ(error(std::string(100000, '-') + "1 > 1"), "condition: nested more than 200 deep");
}

}  // namespace
}  // namespace weir
