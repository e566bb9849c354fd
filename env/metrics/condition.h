// Conditions over results, such as "policy.mean_jct > 1.02 * greedy.mean_jct and load < 0.9":
//
//   condition  := conjunction ("or" conjunction)*
//   conjunction:= negation ("and" negation)*
//   negation   := "not" negation | sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?
//   sum        := product (("+" | "-") product)*
//   product    := sign (("*" | "/") sign)*
//   sign       := "-" sign | NUMBER | STRING | VARIABLE | SUBJECT "." METRIC | "(" condition ")"
//   SUBJECT, VARIABLE := a letter, then letters, digits, _ : . - (a metric stands after the last dot); or, with other characters,
//   a
//                 subject in quotes: 'policy:out/my.weirpolicy'.mean_jct
//   STRING     := '...' or "..." (compared by == and != alone)
// Blanks stand around a minus between names: "a.x - b.x". Comparisons with an undefined number (0/0) don't hold, but for !=.
#ifndef WEIR_ENV_METRICS_CONDITION_H_
#define WEIR_ENV_METRICS_CONDITION_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace weir {

class Condition {
 public:
  struct Name {
    std::string subject;  // empty: a variable
    std::string metric;   // the metric, or the variable
    bool operator==(const Name&) const = default;
  };
  using Value = std::variant<double, std::string>;
  using Lookup = std::function<Value(const Name&)>;
  enum class Type { kNumber, kString, kTruth };
  // Type of a name; throws Error(kInvalid) for one that is unknown.
  using TypeOf = std::function<Type(const Name&)>;

  // Throws Error(kInvalid) naming the place in the text: a syntax error, an unknown name, operands of the wrong type, or an
  // expression that is no condition ("policy.mean_jct").
  static Condition Parse(const std::string& text, const TypeOf& type_of);

  bool Holds(const Lookup& lookup) const;
  const std::string& text() const { return text_; }

 private:
  struct Node;
  friend class ConditionParser;
  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace weir

#endif  // WEIR_ENV_METRICS_CONDITION_H_
