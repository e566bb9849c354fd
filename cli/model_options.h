// The options that every verb reading a model file shares: MODEL --batch B --input CxHxW --strict.
#ifndef WEIR_CLI_MODEL_OPTIONS_H_
#define WEIR_CLI_MODEL_OPTIONS_H_

#include <cstdint>
#include <string>

#include "partitioner/load_options.h"

namespace CLI {
class App;
}

namespace weir::cli {

struct ModelOptions {
  std::string path;
  std::int64_t batch = 1;
  std::string input;  // "3x224x224"
  bool strict = false;

  void AddTo(CLI::App* verb);
  // Throws Error(kInvalid) for an --input that isn't numbers joined by x.
  partitioner::LoadOptions ToLoadOptions() const;
};

}  // namespace weir::cli

#endif  // WEIR_CLI_MODEL_OPTIONS_H_
