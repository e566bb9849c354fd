#include "env/core/yaml.h"

#include <gtest/gtest.h>

#include <functional>

#include "env/core/error.h"

namespace weir {
namespace {

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "(no error)";
}

TEST(YamlTest, NamesFileLineAndField) {
  Yaml root = Yaml::ParseText("workers:\n  - name: a\n    memory: -1\n", "c.yaml");
  Yaml worker = root.Required("workers").Items()[0];
  EXPECT_EQ(MessageOf([&] { worker.Required("memory").AsQuantity(Unit::kBytes); }),
            "c.yaml:3: workers[0].memory must be a size such as 512MB or 4GiB, got '-1'");
  EXPECT_EQ(MessageOf([&] { worker.Required("flops"); }), "c.yaml:2: workers[0]: 'flops' is missing");
}

TEST(YamlTest, RefusesUnknownKeysWithTheNearestName) {
  Yaml root = Yaml::ParseText("name: x\nepohcs: 3\n", "job.yaml");
  root.Required("name");
  root.Int("epochs", 1, 1, 10);
  EXPECT_EQ(MessageOf([&] { root.Finish(); }), "job.yaml:2: unknown key 'epohcs', did you mean 'epochs'?");
}

TEST(YamlTest, RefusesEmptyDeepAliasedAndDuplicateInput) {
  EXPECT_EQ(MessageOf([] { Yaml::ParseText("", "e.yaml"); }), "e.yaml:1: the file is empty");
  EXPECT_NE(MessageOf([] { Yaml::ParseText(std::string(100000, '['), "d.yaml"); }).find("nested more than"), std::string::npos);
  EXPECT_NE(MessageOf([] { Yaml::ParseText("a: &x 1\nb: *x\n", "a.yaml"); }).find("a.yaml:2: aliases"), std::string::npos);
  EXPECT_EQ(MessageOf([] { Yaml::ParseText("a: 1\na: 2\n", "t.yaml").Required("a"); }), "t.yaml:2: 'a' is given twice");
  EXPECT_NE(MessageOf([] { Yaml::ParseText("a: 1\n---\na: 2\n", "s.yaml"); }).find("s.yaml: expected one YAML document"),
            std::string::npos);
  EXPECT_NE(MessageOf([] { Yaml::ParseText("a: [1\n", "b.yaml"); }).find("b.yaml:"), std::string::npos);
}

TEST(YamlTest, ChecksNumbersAndBounds) {
  Yaml root = Yaml::ParseText("a: 1.5x\nb: 11\nc: nan\nd: maybe\n", "n.yaml");
  EXPECT_EQ(MessageOf([&] { root.Required("a").AsDouble(0, 2); }), "n.yaml:1: a must be a number from 0 to 2, got '1.5x'");
  EXPECT_EQ(MessageOf([&] { root.Required("b").AsInt(0, 10); }), "n.yaml:2: b must be a whole number from 0 to 10, got '11'");
  EXPECT_NE(MessageOf([&] { root.Required("c").AsDouble(0, 2); }).find("got 'nan'"), std::string::npos);
  EXPECT_NE(MessageOf([&] { root.Required("d").AsBool(); }).find("true or false"), std::string::npos);
}

}  // namespace
}  // namespace weir
