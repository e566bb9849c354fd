#include "cli/model_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "env/core/error.h"

namespace weir::cli {

void ModelOptions::AddTo(CLI::App* verb) {
  verb->add_option("model", path, "ONNX, TorchScript or text profile (docs/operators.md)")->required();
  verb->add_option("-b,--batch", batch, "Samples in one forward pass (0: what the file fixes)")->capture_default_str();
  verb->add_option("--input", input, "Shape of one sample where the file leaves it open, e.g. 3x224x224");
  verb->add_flag("--strict", strict, "Refuse operators without a rule");
}

partitioner::LoadOptions ModelOptions::ToLoadOptions() const {
  if (batch < 0) throw Invalid("--batch must be >= 0, got {}", batch);
  partitioner::LoadOptions options;
  options.batch = batch;
  options.strict = strict;
  if (!input.empty()) {
    options.input_shape.emplace();
    const char *at = input.data(), *end = at + input.size();
    while (true) {
      std::int64_t value = 0;
      auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc() || value < 1 || (next != end && *next != 'x')) {
        throw Invalid("--input must be a shape such as 3x224x224, got '{}'", input);
      }
      options.input_shape->push_back(value);
      if (next == end) break;
      at = next + 1;
    }
  }
  return options;
}

}  // namespace weir::cli
