#include "env/core/event_log.h"

#include <gtest/gtest.h>

#include "env/core/file.h"

namespace weir {
namespace {

TEST(EventLogTest, WritesOneEscapedJsonObjectALine) {
  EXPECT_EQ(
      EventLog::FormatLine(12.5, "arrival",
                           {{"job", std::int64_t{17}}, {"name", std::string("a\"b\n")}, {"workers", std::vector<int>{0, 2}}}),
      R"({"t":12.5,"event":"arrival","job":17,"name":"a\"b\u000a","workers":[0,2]})");
}

TEST(EventLogTest, AppendsAcrossReopening) {
  const std::string path = ::testing::TempDir() + "event_log_test.jsonl";
  std::remove(path.c_str());
  { EventLog(path).Append(0, "start"); }
  { EventLog(path).Append(1, "stop"); }
  EXPECT_EQ(ReadFile(path), "{\"t\":0,\"event\":\"start\"}\n{\"t\":1,\"event\":\"stop\"}\n");
  std::remove(path.c_str());
}

TEST(ContentHashTest, MatchesTheBlake2b256OfTheEmptyString) {
  EXPECT_EQ(ContentHash(""), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

}  // namespace
}  // namespace weir
