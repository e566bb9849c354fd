// The equation of an Einsum node, e.g. "bhid,bhjd->bhij".
#ifndef WEIR_PARTITIONER_ONNX_EINSUM_H_
#define WEIR_PARTITIONER_ONNX_EINSUM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weir::partitioner {

struct Einsum {
  std::vector<std::string> terms;  // labels of each input, one letter a dimension
  std::string result;              // explicit, or the labels that occur once in alphabetical order
};

// nullopt: not an equation, or one with an ellipsis.
std::optional<Einsum> ParseEinsum(const std::string& equation);
// Sizes by label; nullopt where the inputs don't fit the terms.
std::optional<std::map<char, std::int64_t>> EinsumSizes(const Einsum& einsum,
                                                        const std::vector<std::vector<std::int64_t>>& inputs);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_EINSUM_H_
