#include "env/core/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "env/core/error.h"
#include "env/core/file.h"

namespace weir {
namespace {

constexpr std::size_t kMaxBytes = 4u << 20;
constexpr int kMaxDepth = 64;

// Walks the events once, before a tree is built: refuses aliases and deep nesting, which could exhaust memory or the stack.
class BoundsChecker : public YAML::EventHandler {
 public:
  explicit BoundsChecker(const std::string& source) : source_(source) {}
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Invalid("{}:{}: aliases are not allowed here", source_, mark.line + 1);
  }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Enter(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override { Enter(mark); }
  void OnMapEnd() override { --depth_; }

 private:
  void Enter(const YAML::Mark& mark) {
    if (++depth_ > kMaxDepth) throw Invalid("{}:{}: nested more than {} levels deep", source_, mark.line + 1, kMaxDepth);
  }
  const std::string& source_;
  int depth_ = 0;
};

// Bracket depth as text: yaml-cpp's parser recurses once per level, so a deep file must be refused before it is parsed.
void CheckBracketDepth(const std::string& text, const std::string& source) {
  int depth = 0, line = 1;
  for (char c : text) {
    if (c == '\n') ++line;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > 4 * kMaxDepth) throw Invalid("{}:{}: nested more than {} levels deep", source, line, kMaxDepth);
  }
}

std::string_view KindName(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map:
      return "a map";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Scalar:
      return "a value";
    default:
      return "nothing";
  }
}

}  // namespace

struct Yaml::Document {
  std::string source;
};

struct Yaml::State {
  std::shared_ptr<Document> document;
  YAML::Node node;
  std::string field;
  std::vector<std::string> asked;
};

Yaml Yaml::ParseFile(const std::string& path) {
  return ParseText(ReadFile(path, kMaxBytes), path);
}

Yaml Yaml::ParseText(const std::string& text, const std::string& source) {
  if (text.size() > kMaxBytes) throw Invalid("{}: larger than {} bytes", source, kMaxBytes);
  CheckBracketDepth(text, source);
  try {
    BoundsChecker checker(source);
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(checker)) throw Invalid("{}:1: the file is empty", source);
    if (parser.HandleNextDocument(checker))
      throw Invalid("{}: expected one YAML document, found a second one (after '---')", source);
    auto state = std::make_shared<State>();
    state->document = std::make_shared<Document>(Document{source});
    state->node = YAML::Load(text);
    if (state->node.IsMap()) {
      for (const auto& entry : state->node) {
        if (!entry.first.IsScalar()) throw Invalid("{}:{}: a key must be a plain word", source, entry.first.Mark().line + 1);
      }
    }
    return Yaml(state);
  } catch (const YAML::Exception& e) {
    throw Invalid("{}:{}: not valid YAML: {}", source, e.mark.line + 1, e.msg);
  }
}

bool Yaml::IsMap() const {
  return state_->node.IsMap();
}
bool Yaml::IsList() const {
  return state_->node.IsSequence();
}
bool Yaml::IsScalar() const {
  return state_->node.IsScalar();
}
bool Yaml::IsNull() const {
  return state_->node.IsNull();
}
const std::string& Yaml::field() const {
  return state_->field;
}
std::string Yaml::where() const {
  return fmt::format("{}:{}", state_->document->source, state_->node.Mark().line + 1);
}

void Yaml::Fail(const std::string& expected, const std::string& found) const {
  throw Invalid("{}: {} must be {}, got {}", where(), state_->field.empty() ? "the document" : state_->field, expected, found);
}

void Yaml::Fail(const std::string& expected) const {
  Fail(expected, state_->node.IsScalar() ? "'" + state_->node.Scalar() + "'" : std::string(KindName(state_->node)));
}

std::optional<Yaml> Yaml::Optional(std::string_view key) const {
  if (!state_->node.IsMap()) Fail("a map");
  state_->asked.emplace_back(key);
  int count = 0;
  std::optional<Yaml> result;
  for (const auto& entry : state_->node) {
    if (entry.first.Scalar() != key) continue;
    if (++count > 1) throw Invalid("{}:{}: '{}' is given twice", state_->document->source, entry.first.Mark().line + 1, key);
    auto child = std::make_shared<State>();
    child->document = state_->document;
    child->node = entry.second;
    child->field = state_->field.empty() ? std::string(key) : state_->field + "." + std::string(key);
    result = Yaml(child);
  }
  return result;
}

Yaml Yaml::Required(std::string_view key) const {
  std::optional<Yaml> child = Optional(key);
  if (!child) {
    throw Invalid("{}: {}'{}' is missing", where(), state_->field.empty() ? "" : state_->field + ": ", key);
  }
  return *child;
}

std::vector<std::string> Yaml::Keys() const {
  if (!state_->node.IsMap()) Fail("a map");
  std::vector<std::string> keys;
  for (const auto& entry : state_->node) keys.push_back(entry.first.Scalar());
  return keys;
}

std::vector<Yaml> Yaml::Items() const {
  if (!state_->node.IsSequence()) Fail("a list");
  std::vector<Yaml> items;
  for (std::size_t i = 0; i < state_->node.size(); ++i) {
    auto child = std::make_shared<State>();
    child->document = state_->document;
    child->node = state_->node[i];
    child->field = fmt::format("{}[{}]", state_->field, i);
    items.push_back(Yaml(child));
  }
  return items;
}

void Yaml::Finish() const {
  if (!state_->node.IsMap()) Fail("a map");
  for (const auto& entry : state_->node) {
    const std::string& key = entry.first.Scalar();
    if (std::find(state_->asked.begin(), state_->asked.end(), key) != state_->asked.end()) continue;
    std::vector<std::string> known = state_->asked;
    std::string nearest = NearestName(key, known);
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    throw Invalid("{}:{}: unknown key '{}'{}{}", state_->document->source, entry.first.Mark().line + 1,
                  state_->field.empty() ? key : state_->field + "." + key,
                  nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                  nearest.empty() ? fmt::format(" (known: {})", fmt::join(known, ", ")) : "");
  }
}

std::string Yaml::AsString() const {
  if (!state_->node.IsScalar()) Fail("text");
  return state_->node.Scalar();
}

bool Yaml::AsBool() const {
  if (state_->node.IsScalar()) {
    const std::string& text = state_->node.Scalar();
    if (text == "true") return true;
    if (text == "false") return false;
  }
  Fail("true or false");
}

std::int64_t Yaml::AsInt(std::int64_t low, std::int64_t high) const {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  if (!state_->node.IsScalar()) Fail(expected);
  const std::string& text = state_->node.Scalar();
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) Fail(expected);
  return value;
}

double Yaml::AsDouble(double low, double high) const {
  const std::string expected =
      std::isfinite(high) ? fmt::format("a number from {} to {}", low, high) : fmt::format("a number >= {}", low);
  if (!state_->node.IsScalar()) Fail(expected);
  const std::string& text = state_->node.Scalar();
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < low || value > high)
    Fail(expected);
  return value;
}

double Yaml::AsQuantity(Unit unit) const {
  if (!state_->node.IsScalar()) Fail(std::string(DescribeUnit(unit)));
  std::optional<double> value = ParseQuantity(state_->node.Scalar(), unit);
  if (!value) Fail(std::string(DescribeUnit(unit)));
  return *value;
}

std::size_t Yaml::AsEnum(const std::vector<std::string>& allowed) const {
  const std::string expected = fmt::format("one of {}", fmt::join(allowed, ", "));
  if (!state_->node.IsScalar()) Fail(expected);
  auto found = std::find(allowed.begin(), allowed.end(), state_->node.Scalar());
  if (found == allowed.end()) Fail(expected);
  return found - allowed.begin();
}

std::string Yaml::String(std::string_view key, std::string fallback) const {
  auto child = Optional(key);
  return child ? child->AsString() : fallback;
}
bool Yaml::Bool(std::string_view key, bool fallback) const {
  auto child = Optional(key);
  return child ? child->AsBool() : fallback;
}
std::int64_t Yaml::Int(std::string_view key, std::int64_t fallback, std::int64_t low, std::int64_t high) const {
  auto child = Optional(key);
  return child ? child->AsInt(low, high) : fallback;
}
double Yaml::Double(std::string_view key, double fallback, double low, double high) const {
  auto child = Optional(key);
  return child ? child->AsDouble(low, high) : fallback;
}
double Yaml::Quantity(std::string_view key, double fallback, Unit unit) const {
  auto child = Optional(key);
  return child ? child->AsQuantity(unit) : fallback;
}

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substitute = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace weir
