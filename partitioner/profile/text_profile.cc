#include "partitioner/profile/text_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <queue>
#include <set>

#include "env/core/error.h"
#include "env/core/file.h"

namespace weir::partitioner {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr std::size_t kMaxLine = 64 << 10;
constexpr std::size_t kMaxNodes = 2'000'000;
constexpr double kMaxValue = 1e15;  // ms or bytes

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string Shown(std::string_view text) {
  std::string out(text.substr(0, 60));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out + (text.size() > 60 ? "..." : "");
}

struct Node {
  int line = 0;
  std::string name, description;
  double forward_ms = 0, backward_ms = 0, activation_bytes = 0, parameter_bytes = 0;
};

struct Arc {
  int line = 0;
  std::string from, to;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  OperatorGraph Parse() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const auto end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      ParseLine(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    if (nodes_.empty())
      throw Invalid("{}: no node, expected lines such as 'node1 -- Conv2d(...) -- forward_compute_time=...'", path_);
    return Build();
  }

 private:
  void ParseLine(std::string_view line) {
    if (line.size() > kMaxLine)
      throw Invalid("{}:{}: a line of {} bytes, expected at most {}", path_, line_, line.size(), kMaxLine);
    const std::string_view content = Trim(line);
    if (content.empty() || content[0] == '#') return;
    const auto first = content.find(kSeparator), last = content.rfind(kSeparator);
    if (first == std::string_view::npos) {
      throw Invalid("{}:{}: '{}' is neither 'NODE -- DESCRIPTION -- FIELDS' nor 'NODE -- NODE'", path_, line_, Shown(content));
    }
    const std::string name(Trim(content.substr(0, first)));
    if (name.empty()) throw Invalid("{}:{}: the node has no name", path_, line_);
    if (first == last) {
      arcs_.push_back({line_, name, std::string(Trim(content.substr(first + kSeparator.size())))});
      return;
    }
    Node node;
    node.line = line_;
    node.name = name;
    node.description = Trim(content.substr(first + kSeparator.size(), last - first - kSeparator.size()));
    ParseFields(content.substr(last + kSeparator.size()), &node);
    if (!index_.emplace(name, static_cast<int>(nodes_.size())).second) {
      throw Invalid("{}:{}: '{}' is defined twice, first in line {}", path_, line_, Shown(name), nodes_[index_[name]].line);
    }
    if (nodes_.size() == kMaxNodes) throw Invalid("{}:{}: more than {} nodes", path_, line_, kMaxNodes);
    nodes_.push_back(std::move(node));
  }

  void ParseFields(std::string_view text, Node* node) {
    const std::map<std::string_view, double*> fields = {{"forward_compute_time", &node->forward_ms},
                                                        {"backward_compute_time", &node->backward_ms},
                                                        {"activation_size", &node->activation_bytes},
                                                        {"parameter_size", &node->parameter_bytes}};
    std::set<std::string_view> seen;
    while (!text.empty()) {
      const auto comma = text.find(',');
      const std::string_view field = Trim(text.substr(0, comma));
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
      const auto equals = field.find('=');
      if (equals == std::string_view::npos) throw Invalid("{}:{}: '{}' isn't 'field=value'", path_, line_, Shown(field));
      const auto it = fields.find(Trim(field.substr(0, equals)));
      if (it == fields.end()) continue;  // later profilers add fields
      if (!seen.insert(it->first).second) throw Invalid("{}:{}: {} is given twice", path_, line_, it->first);
      *it->second = Number(it->first, Trim(field.substr(equals + 1)));
    }
    for (const auto& [name, value] : fields) {
      if (!seen.contains(name)) throw Invalid("{}:{}: {} is missing", path_, line_, name);
    }
  }

  double Number(std::string_view name, std::string_view text) {
    double sum = 0;
    const bool list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    std::string_view rest = list ? text.substr(1, text.size() - 2) : text;
    while (true) {
      const auto semicolon = list ? rest.find(';') : std::string_view::npos;
      const std::string_view item = Trim(rest.substr(0, semicolon));
      double value = 0;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
      if (error != std::errc() || end != item.data() + item.size() || !std::isfinite(value) || value < 0 || value > kMaxValue) {
        throw Invalid("{}:{}: {} is '{}', expected a number from 0 to {:g}", path_, line_, name, Shown(text), kMaxValue);
      }
      sum += value;
      if (semicolon == std::string_view::npos) break;
      rest = rest.substr(semicolon + 1);
    }
    return sum;
  }

  OperatorGraph Build() {
    const int n = static_cast<int>(nodes_.size());
    std::vector<std::vector<int>> successors(n), predecessors(n);
    std::set<std::pair<int, int>> known;
    for (const Arc& arc : arcs_) {
      int ends[2] = {};
      for (int side : {0, 1}) {
        const std::string& name = side == 0 ? arc.from : arc.to;
        const auto it = index_.find(name);
        if (it == index_.end()) throw Invalid("{}:{}: no node is called '{}'", path_, arc.line, Shown(name));
        ends[side] = it->second;
      }
      if (!known.emplace(ends[0], ends[1]).second) continue;
      successors[ends[0]].push_back(ends[1]);
      predecessors[ends[1]].push_back(ends[0]);
    }
    const std::vector<int> order = Sort(successors, predecessors);
    OperatorGraph graph;
    graph.name = path_.substr(path_.find_last_of('/') + 1);
    graph.format = "profile";
    graph.measured = true;
    std::vector<int> tensor_of(n, -1);
    for (int i : order) {
      const Node& node = nodes_[i];
      Operator op;
      op.name = node.name;
      op.kind = node.description.substr(0, node.description.find('('));
      if (op.kind.empty()) op.kind = "?";
      const bool loading = predecessors[i].empty() && node.parameter_bytes == 0 && op.kind.starts_with("Input");
      if (!loading) {
        op.forward_flop = std::llround(node.forward_ms * 1e6);
        op.backward_flop = std::llround(node.backward_ms * 1e6);
        op.saved_bytes = std::llround(node.activation_bytes);
      }
      std::vector<int> inputs = predecessors[i];
      std::sort(inputs.begin(), inputs.end(), [&](int a, int b) { return tensor_of[a] < tensor_of[b]; });
      for (int p : inputs) op.inputs.push_back(tensor_of[p]);
      tensor_of[i] = static_cast<int>(graph.tensors.size());
      op.outputs = {tensor_of[i]};
      Tensor tensor;
      tensor.name = node.name;
      tensor.bytes = std::llround(node.activation_bytes);
      tensor.has_gradient = !loading;
      tensor.is_output = successors[i].empty();
      if (tensor.is_output) graph.outputs.push_back(tensor_of[i]);
      graph.tensors.push_back(std::move(tensor));
      if (node.parameter_bytes > 0) {
        Parameter parameter;
        parameter.name = node.name + ".parameters";
        parameter.elements = (std::llround(node.parameter_bytes) + 3) / 4;  // fp32
        parameter.shape = {parameter.elements};
        op.parameters = {static_cast<int>(graph.parameters.size())};
        graph.parameters.push_back(std::move(parameter));
      }
      graph.operators.push_back(std::move(op));
    }
    graph.Finalize();
    return graph;
  }

  // Topologically, the earlier line first.
  std::vector<int> Sort(const std::vector<std::vector<int>>& successors, const std::vector<std::vector<int>>& predecessors) {
    const int n = static_cast<int>(nodes_.size());
    std::vector<int> missing(n), order;
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < n; ++i) {
      missing[i] = static_cast<int>(predecessors[i].size());
      if (missing[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (int v : successors[i]) {
        if (--missing[v] == 0) ready.push(v);
      }
    }
    if (static_cast<int>(order.size()) == n) return order;
    // Every node left has a predecessor that is left: going back from one of them must close a circle.
    int at = 0;
    while (missing[at] == 0) ++at;
    std::vector<int> walk, seen_at(n, -1);
    while (seen_at[at] < 0) {
      seen_at[at] = static_cast<int>(walk.size());
      walk.push_back(at);
      for (int p : predecessors[at]) {
        if (missing[p] > 0) {
          at = p;
          break;
        }
      }
    }
    std::vector<std::string> names;
    for (std::size_t i = walk.size(); i-- > static_cast<std::size_t>(seen_at[at]);) names.push_back(nodes_[walk[i]].name);
    const std::size_t length = names.size();
    if (length > 8) names.resize(8);
    throw Invalid("{}:{}: the graph has a cycle of {} nodes: {}{}", path_, nodes_[at].line, length, fmt::join(names, " -> "),
                  length > 8 ? " -> ..." : "");
  }

  std::string_view text_;
  const std::string& path_;
  int line_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string, int> index_;
  std::vector<Arc> arcs_;
};

}  // namespace

OperatorGraph ParseTextProfile(std::string_view text, const std::string& path) {
  return Parser(text, path).Parse();
}

OperatorGraph LoadTextProfile(const std::string& path) {
  return ParseTextProfile(ReadFile(path), path);
}

}  // namespace weir::partitioner
