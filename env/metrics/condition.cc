#include "env/metrics/condition.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "env/core/error.h"

namespace weir {

using Type = Condition::Type;

struct Condition::Node {
  std::string op;  // "number", "string", "name", or the operator; "neg" and "not" have one operand
  Type type = Type::kNumber;
  double number = 0;
  std::string string;
  Name name;
  std::vector<std::shared_ptr<const Node>> operands;

  double Number(const Lookup& lookup) const {
    if (op == "number") return number;
    if (op == "name") return std::get<double>(lookup(name));
    const double a = operands[0]->Number(lookup);
    if (op == "neg") return -a;
    const double b = operands[1]->Number(lookup);
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    return op == "*" ? a * b : a / b;
  }
  std::string String(const Lookup& lookup) const { return op == "string" ? string : std::get<std::string>(lookup(name)); }
  bool Truth(const Lookup& lookup) const {
    if (op == "not") return !operands[0]->Truth(lookup);
    if (op == "and") return operands[0]->Truth(lookup) && operands[1]->Truth(lookup);
    if (op == "or") return operands[0]->Truth(lookup) || operands[1]->Truth(lookup);
    if (operands[0]->type == Type::kString) return (operands[0]->String(lookup) == operands[1]->String(lookup)) == (op == "==");
    const double a = operands[0]->Number(lookup), b = operands[1]->Number(lookup);
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    if (op == ">=") return a >= b;
    return op == "==" ? a == b : a != b;
  }
};

class ConditionParser {
 public:
  using Node = Condition::Node;
  using NodePtr = std::shared_ptr<const Node>;

  ConditionParser(const std::string& text, const Condition::TypeOf& type_of) : text_(text), type_of_(type_of) {}

  NodePtr Parse() {
    NodePtr root = Or();
    SkipBlanks();
    if (at_ < text_.size()) Fail("an operator or the end");
    if (root->type != Type::kTruth) throw Invalid("condition '{}': expected a comparison such as a.mean_jct > b.mean_jct", text_);
    return root;
  }

 private:
  static constexpr int kMostDepth = 200;

  [[noreturn]] void Fail(const std::string& expected) const {
    throw Invalid("condition '{}': expected {} at position {}, got '{}'", text_, expected, at_ + 1,
                  at_ < text_.size() ? text_.substr(at_, 20) : "the end");
  }
  void SkipBlanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  static bool IsNameChar(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':' || c == '.' || c == '-';
  }
  bool Take(std::string_view token) {
    SkipBlanks();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const bool word = std::isalpha(static_cast<unsigned char>(token[0]));
    if (word && at_ + token.size() < text_.size() && IsNameChar(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  static const char* Say(Type type) {
    return type == Type::kNumber ? "a number" : type == Type::kString ? "a text" : "a condition";
  }
  NodePtr Make(std::string op, Type type, std::vector<NodePtr> operands, std::initializer_list<Type> allowed) {
    for (const NodePtr& operand : operands) {
      bool fits = operand->type == operands[0]->type;
      bool known = false;
      for (Type t : allowed) known = known || t == operand->type;
      if (!fits || !known) {
        throw Invalid("condition '{}': '{}' can't be applied to {}{}", text_, op == "neg" ? "-" : op, Say(operands[0]->type),
                      operands.size() > 1 ? fmt::format(" and {}", Say(operands[1]->type)) : std::string());
      }
    }
    auto node = std::make_shared<Node>();
    node->op = std::move(op);
    node->type = type;
    node->operands = std::move(operands);
    return node;
  }

  NodePtr Or() {
    if (++depth_ > kMostDepth) throw Invalid("condition: nested more than {} deep", kMostDepth);
    NodePtr left = And();
    while (Take("or")) left = Make("or", Type::kTruth, {left, And()}, {Type::kTruth});
    --depth_;
    return left;
  }
  NodePtr And() {
    NodePtr left = Not();
    while (Take("and")) left = Make("and", Type::kTruth, {left, Not()}, {Type::kTruth});
    return left;
  }
  NodePtr Not() {
    if (Take("not")) {
      if (++depth_ > kMostDepth) throw Invalid("condition: nested more than {} deep", kMostDepth);
      NodePtr operand = Not();
      --depth_;
      return Make("not", Type::kTruth, {operand}, {Type::kTruth});
    }
    NodePtr left = Sum();
    for (const char* op : {"<=", ">=", "==", "!=", "<", ">"}) {
      if (!Take(op)) continue;
      const bool equality = op[0] == '=' || op[0] == '!';
      if (equality) return Make(op, Type::kTruth, {left, Sum()}, {Type::kNumber, Type::kString});
      return Make(op, Type::kTruth, {left, Sum()}, {Type::kNumber});
    }
    return left;
  }
  NodePtr Sum() {
    NodePtr left = Product();
    while (true) {
      if (Take("+")) {
        left = Make("+", Type::kNumber, {left, Product()}, {Type::kNumber});
      } else if (Take("-")) {
        left = Make("-", Type::kNumber, {left, Product()}, {Type::kNumber});
      } else {
        return left;
      }
    }
  }
  NodePtr Product() {
    NodePtr left = Sign();
    while (true) {
      if (Take("*")) {
        left = Make("*", Type::kNumber, {left, Sign()}, {Type::kNumber});
      } else if (Take("/")) {
        left = Make("/", Type::kNumber, {left, Sign()}, {Type::kNumber});
      } else {
        return left;
      }
    }
  }
  NodePtr Sign() {
    if (Take("-")) {
      if (++depth_ > kMostDepth) throw Invalid("condition: nested more than {} deep", kMostDepth);
      NodePtr operand = Sign();
      --depth_;
      return Make("neg", Type::kNumber, {operand}, {Type::kNumber});
    }
    if (Take("(")) {
      NodePtr inner = Or();
      if (!Take(")")) Fail("')'");
      return inner;
    }
    SkipBlanks();
    auto node = std::make_shared<Node>();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') {
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), node->number);
      if (error != std::errc()) Fail("a number");
      at_ = static_cast<std::size_t>(end - text_.data());
      node->op = "number";
      return node;
    }
    if (c == '\'' || c == '"') {
      const std::size_t end = text_.find(c, at_ + 1);
      if (end == std::string::npos) Fail("a closing quote");
      std::string quoted = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      if (at_ >= text_.size() || text_[at_] != '.') {
        node->op = "string";
        node->type = Type::kString;
        node->string = std::move(quoted);
        return node;
      }
      ++at_;
      const std::size_t begin = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      node->name = {std::move(quoted), text_.substr(begin, at_ - begin)};
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
      const std::string word = text_.substr(begin, at_ - begin);
      const std::size_t dot = word.rfind('.');
      node->name =
          dot == std::string::npos ? Condition::Name{"", word} : Condition::Name{word.substr(0, dot), word.substr(dot + 1)};
    } else {
      Fail("a number, a name or '('");
    }
    node->op = "name";
    node->type = type_of_(node->name);
    return node;
  }

  const std::string& text_;
  const Condition::TypeOf& type_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Condition Condition::Parse(const std::string& text, const TypeOf& type_of) {
  Condition condition;
  condition.text_ = text;
  condition.root_ = ConditionParser(condition.text_, type_of).Parse();
  return condition;
}

bool Condition::Holds(const Lookup& lookup) const {
  return root_->Truth(lookup);
}

}  // namespace weir
