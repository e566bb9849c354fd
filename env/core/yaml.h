// A typed view of a YAML file: every error names file:line and the field, unknown keys are refused with the nearest known
// name, units are explicit. Inputs are bounded (4 MiB, depth 64, no aliases) before they are parsed further.
#ifndef WEIR_ENV_CORE_YAML_H_
#define WEIR_ENV_CORE_YAML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/core/units.h"

namespace weir {

// A node of a document. Cheap to copy; keeps the document alive.
// A map remembers which keys were asked for; Finish() throws for the first one that nobody asked for.
class Yaml {
 public:
  // Throws Error(kInvalid) with file:line where the text is no YAML or breaks a bound.
  static Yaml ParseFile(const std::string& path);
  // `source` is the name used in errors in place of a path.
  static Yaml ParseText(const std::string& text, const std::string& source);

  bool IsMap() const;
  bool IsList() const;
  bool IsScalar() const;
  bool IsNull() const;
  const std::string& field() const;  // "workers[2].memory"; "" for the root
  std::string where() const;         // "configs/small.yaml:12"

  // Child of a map. Required throws when it is missing. REQUIRES (throws otherwise): this is a map.
  Yaml Required(std::string_view key) const;
  std::optional<Yaml> Optional(std::string_view key) const;
  std::vector<std::string> Keys() const;  // of a map, in file order
  std::vector<Yaml> Items() const;        // of a list; throws if it is none
  void Finish() const;                    // throws on an unknown key of this map

  std::string AsString() const;
  bool AsBool() const;
  std::int64_t AsInt(std::int64_t low, std::int64_t high) const;  // inclusive bounds
  double AsDouble(double low, double high) const;                 // finite, inclusive bounds; a bare number
  double AsQuantity(Unit unit) const;                             // SI
  // Index of the scalar in `allowed`; throws naming all of them.
  std::size_t AsEnum(const std::vector<std::string>& allowed) const;

  // Shorthands for a key with a default.
  std::string String(std::string_view key, std::string fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::int64_t Int(std::string_view key, std::int64_t fallback, std::int64_t low, std::int64_t high) const;
  double Double(std::string_view key, double fallback, double low, double high) const;
  double Quantity(std::string_view key, double fallback, Unit unit) const;

  // Throws Error(kInvalid): "<file>:<line>: <field> must be <expected>, got <found>".
  [[noreturn]] void Fail(const std::string& expected, const std::string& found) const;
  [[noreturn]] void Fail(const std::string& expected) const;  // found = the scalar's text or its kind

 private:
  struct Document;
  struct State;
  explicit Yaml(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// The entry of `known` within edit distance 2 (or a third of the length) of `name`, or "".
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace weir

#endif  // WEIR_ENV_CORE_YAML_H_
