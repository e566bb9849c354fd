// Any bytes as an ONNX file: read at two batches, counted and cut. Refused with an Error, or a valid graph; nothing else.
#include <cstdint>
#include <string_view>

#include "env/core/error.h"
#include "partitioner/cut/partition.h"
#include "partitioner/onnx/onnx_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::partitioner;
  for (const std::int64_t batch : {0, 3}) {
    try {
      LoadOptions options;
      options.batch = batch;
      const OperatorGraph graph = ToOperatorGraph(ParseOnnx({reinterpret_cast<const char*>(data), size}, "fuzz", options));
      (void)graph.ToText();
      if (graph.operators.empty() || graph.operators.size() > 300) continue;
      (void)CutIntoParts(graph, {});
    } catch (const weir::Error&) {
    }
  }
  return 0;
}
