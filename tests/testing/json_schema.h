// Validates JSON against the keywords of JSON Schema (draft 2020-12) that docs/job.schema.json uses. Any other keyword is an
// error: none is silently passed over.
#ifndef WEIR_TESTS_TESTING_JSON_SCHEMA_H_
#define WEIR_TESTS_TESTING_JSON_SCHEMA_H_

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

namespace weir::testing {

class JsonSchema {
 public:
  using Json = nlohmann::json;
  // Throws std::runtime_error for a keyword or a reference that it doesn't know, wherever it stands.
  explicit JsonSchema(Json root) : root_(std::move(root)) { Check(root_); }

  const Json& root() const { return root_; }
  // The first reason why `value` isn't valid; "" where it is.
  std::string WhyInvalid(const Json& value) const { return Why(root_, value, ""); }
  // What a "#/$defs/..." names.
  const Json& Definition(const std::string& reference) const {
    if (reference.rfind("#/", 0) != 0) throw std::runtime_error("reference '" + reference + "' leaves the file");
    return root_.at(Json::json_pointer(reference.substr(1)));
  }

 private:
  void Check(const Json& schema) const {
    static const std::set<std::string> kAnnotations = {"$schema", "$id", "title", "description", "default", "examples"},
                                       kAssertions = {"type",    "enum",    "const",    "minimum",
                                                      "maximum", "pattern", "minItems", "required"},
                                       kLists = {"oneOf", "anyOf", "allOf"}, kMaps = {"properties", "$defs"},
                                       kSchemas = {"items", "if", "then", "additionalProperties"};
    if (schema.is_boolean()) return;
    for (const auto& [keyword, value] : schema.items()) {
      if (kLists.count(keyword) || kMaps.count(keyword)) {
        for (const Json& s : value) Check(s);
      } else if (kSchemas.count(keyword)) {
        Check(value);
      } else if (keyword == "$ref") {
        Definition(value);
      } else if (!kAnnotations.count(keyword) && !kAssertions.count(keyword)) {
        throw std::runtime_error("keyword '" + keyword + "' isn't known");
      }
    }
  }

  static bool HasType(const Json& value, const Json& type) {
    if (type.is_array()) {
      for (const Json& t : type) {
        if (HasType(value, t)) return true;
      }
      return false;
    }
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "integer") {
      return value.is_number_integer() || (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
    }
    throw std::runtime_error("type " + type.dump() + " isn't known");
  }

  std::string Why(const Json& schema, const Json& value, const std::string& at) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : at + " isn't known";
    const auto matching = [&](const Json& list) {
      int count = 0;
      for (const Json& s : list) count += Why(s, value, at).empty();
      return count;
    };
    for (const auto& [keyword, rule] : schema.items()) {
      std::string why;
      if (keyword == "$ref") {
        why = Why(Definition(rule), value, at);
      } else if (keyword == "type") {
        if (!HasType(value, rule)) why = at + " isn't of type " + rule.dump();
      } else if (keyword == "enum") {
        if (std::find(rule.begin(), rule.end(), value) == rule.end()) why = at + " isn't one of " + rule.dump();
      } else if (keyword == "const") {
        if (value != rule) why = at + " isn't " + rule.dump();
      } else if (keyword == "minimum") {
        if (value.is_number() && value < rule) why = at + " < " + rule.dump();
      } else if (keyword == "maximum") {
        if (value.is_number() && value > rule) why = at + " > " + rule.dump();
      } else if (keyword == "pattern") {
        if (value.is_string() && !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
          why = at + " doesn't match " + rule.dump();
      } else if (keyword == "minItems") {
        if (value.is_array() && value.size() < rule) why = at + " has too few items";
      } else if (keyword == "items") {
        for (std::size_t i = 0; value.is_array() && i < value.size() && why.empty(); ++i)
          why = Why(rule, value[i], at + "[" + std::to_string(i) + "]");
      } else if (keyword == "required") {
        for (const Json& key : rule) {
          if (value.is_object() && !value.contains(key.get<std::string>())) why = at + " lacks " + key.dump();
        }
      } else if (keyword == "properties" || keyword == "additionalProperties") {
        const Json none = Json::object();
        const Json& known = keyword == "properties" ? rule : schema.contains("properties") ? schema["properties"] : none;
        if (!value.is_object()) continue;
        for (const auto& [key, child] : value.items()) {
          if (known.contains(key) != (keyword == "properties")) continue;
          why = Why(keyword == "properties" ? rule[key] : rule, child, at + "." + key);
          if (!why.empty()) break;
        }
      } else if (keyword == "oneOf") {
        if (const int n = matching(rule); n != 1) why = at + " matches " + std::to_string(n) + " of the alternatives";
      } else if (keyword == "anyOf") {
        if (matching(rule) == 0) why = at + " matches none of the alternatives";
      } else if (keyword == "allOf") {
        for (const Json& s : rule) {
          if (why.empty()) why = Why(s, value, at);
        }
      } else if (keyword == "if") {
        if (schema.contains("then") && Why(rule, value, at).empty()) why = Why(schema["then"], value, at);
      }
      if (!why.empty()) return why;
    }
    return "";
  }

  Json root_;
};

}  // namespace weir::testing

#endif  // WEIR_TESTS_TESTING_JSON_SCHEMA_H_
