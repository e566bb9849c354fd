// Any bytes as a text profile: refused with an Error, or a graph that can be cut.
#include <cstdint>
#include <string_view>

#include "env/core/error.h"
#include "partitioner/cut/partition.h"
#include "partitioner/profile/text_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::partitioner;
  try {
    const OperatorGraph graph = ParseTextProfile({reinterpret_cast<const char*>(data), size}, "fuzz");
    (void)graph.ToText();
    if (graph.operators.size() <= 300) (void)CutIntoParts(graph, {});
  } catch (const weir::Error&) {
  }
  return 0;
}
