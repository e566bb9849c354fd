#include "partitioner/onnx/einsum.h"

#include <algorithm>
#include <cctype>

namespace weir::partitioner {

std::optional<Einsum> ParseEinsum(const std::string& equation) {
  std::string text;
  for (char c : equation) {
    if (c != ' ') text += c;
  }
  const auto arrow = text.find("->");
  Einsum einsum;
  std::string left = text.substr(0, arrow);
  for (std::size_t begin = 0; begin <= left.size();) {
    const auto comma = std::min(left.find(',', begin), left.size());
    einsum.terms.push_back(left.substr(begin, comma - begin));
    begin = comma + 1;
  }
  auto letters = [](const std::string& s) {
    return std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  };
  std::map<char, int> times;
  for (const std::string& term : einsum.terms) {
    if (!letters(term)) return std::nullopt;
    for (char c : term) ++times[c];
  }
  if (arrow != std::string::npos) {
    einsum.result = text.substr(arrow + 2);
    if (!letters(einsum.result)) return std::nullopt;
    for (char c : einsum.result) {
      if (!times.contains(c) || std::count(einsum.result.begin(), einsum.result.end(), c) > 1) return std::nullopt;
    }
  } else {
    for (const auto& [label, count] : times) {
      if (count == 1) einsum.result += label;
    }
  }
  return einsum;
}

std::optional<std::map<char, std::int64_t>> EinsumSizes(const Einsum& einsum,
                                                        const std::vector<std::vector<std::int64_t>>& inputs) {
  if (inputs.size() != einsum.terms.size()) return std::nullopt;
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != einsum.terms[i].size()) return std::nullopt;
    for (std::size_t d = 0; d < inputs[i].size(); ++d) {
      auto [it, fresh] = sizes.emplace(einsum.terms[i][d], inputs[i][d]);
      if (!fresh && it->second != inputs[i][d]) {
        if (it->second != 1 && inputs[i][d] != 1) return std::nullopt;
        it->second = std::max(it->second, inputs[i][d]);
      }
    }
  }
  return sizes;
}

}  // namespace weir::partitioner
