#include "partitioner/onnx/raw_model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <queue>
#include <set>

#include "env/core/error.h"
#include "partitioner/onnx/tensor_reader.h"
#include "partitioner/onnx/weir_onnx.pb.h"

namespace weir::partitioner {
namespace {

constexpr int kMaxNodes = 2'000'000;
constexpr int kMaxFunctionDepth = 16;

class Reader {
 public:
  Reader(std::string name, std::string folder) : name_(std::move(name)), folder_(std::move(folder)) {}

  RawModel Read(std::string_view bytes) {
    if (bytes.empty()) throw Invalid("{}: the file is empty, expected an ONNX model", name_);
    if (bytes.size() > static_cast<std::size_t>(INT_MAX)) {
      throw Invalid("{}: {} bytes, more than the 2 GiB of one protobuf message: keep weights as external data", name_,
                    bytes.size());
    }
    weir_onnx::ModelProto proto;
    google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedInputStream stream(&array);
    stream.SetTotalBytesLimit(INT_MAX);
    if (!proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
      throw Invalid("{}: not an ONNX model, or cut short (protobuf parsing failed, file of {} bytes)", name_, bytes.size());
    }
    if (!proto.has_ir_version() || proto.ir_version() <= 0 || !proto.has_graph()) {
      throw Invalid("{}: not an ONNX model (no IR version or no graph)", name_);
    }
    if (proto.graph().node_size() == 0) throw Invalid("{}: the model has no nodes", name_);
    if (proto.opset_import_size() == 0) throw Invalid("{}: the model imports no operator set", name_);
    model_.ir_version = static_cast<int>(std::min<std::int64_t>(proto.ir_version(), INT_MAX));
    std::map<std::string, int> opsets;
    for (const auto& import : proto.opset_import()) {
      const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
      opsets[domain] = static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, INT_MAX));
    }
    model_.opset = opsets.count("") ? opsets[""] : 0;
    for (const auto& function : proto.functions()) functions_[{function.domain(), function.name()}] = &function;
    weir_onnx::GraphProto& graph = *proto.mutable_graph();
    for (auto& tensor : *graph.mutable_initializer()) {
      const std::string tensor_name = tensor.name();
      model_.initializers[tensor_name] = DecodeTensor(tensor, name_ + ": initialiser '" + tensor_name + "'", folder_);
    }
    for (const auto& input : graph.input()) {
      if (!model_.initializers.count(input.name())) model_.inputs.push_back(Input(input));
    }
    for (const auto& output : graph.output()) model_.outputs.push_back(output.name());
    if (model_.outputs.empty()) throw Invalid("{}: the model has no outputs", name_);
    for (auto& node : *graph.mutable_node()) AddNode(node, opsets, 0, &model_.nodes);
    Sort();
    return std::move(model_);
  }

 private:
  RawInput Input(const weir_onnx::ValueInfoProto& info) {
    RawInput input;
    input.name = info.name();
    if (!info.has_type() || !info.type().has_tensor_type()) throw Invalid("{}: input '{}' is not a tensor", name_, input.name);
    const auto& type = info.type().tensor_type();
    input.dtype = DTypeOfCode(type.elem_type());
    input.has_shape = type.has_shape();
    for (const auto& dim : type.shape().dim()) {
      RawInput::Dim out;
      if (dim.has_dim_value() && dim.dim_value() > 0) out.value = dim.dim_value();
      if (dim.has_dim_param()) out.symbol = dim.dim_param();
      input.dims.push_back(out);
    }
    return input;
  }

  OnnxAttribute Attribute(weir_onnx::AttributeProto& proto, const std::string& where) {
    OnnxAttribute out;
    int type = proto.type();
    if (type == 0) {  // very old files leave the type out
      type = proto.has_f()          ? 1
             : proto.has_i()        ? 2
             : proto.has_s()        ? 3
             : proto.has_t()        ? 4
             : proto.floats_size()  ? 6
             : proto.ints_size()    ? 7
             : proto.strings_size() ? 8
                                    : 0;
    }
    switch (type) {
      case 1:
        out.kind = OnnxAttribute::Kind::kFloat;
        out.f = proto.f();
        break;
      case 2:
        out.kind = OnnxAttribute::Kind::kInt;
        out.i = proto.i();
        break;
      case 3:
        out.kind = OnnxAttribute::Kind::kString;
        out.s = proto.s();
        break;
      case 4:
        out.kind = OnnxAttribute::Kind::kTensor;
        out.tensor = DecodeTensor(*proto.mutable_t(), where + " attribute '" + proto.name() + "'", folder_);
        break;
      case 6:
        out.kind = OnnxAttribute::Kind::kFloats;
        out.floats.assign(proto.floats().begin(), proto.floats().end());
        break;
      case 7:
        out.kind = OnnxAttribute::Kind::kInts;
        out.ints.assign(proto.ints().begin(), proto.ints().end());
        break;
      case 8:
        out.kind = OnnxAttribute::Kind::kStrings;
        out.strings.assign(proto.strings().begin(), proto.strings().end());
        break;
      default:
        out.kind = OnnxAttribute::Kind::kOther;
        break;
    }
    return out;
  }

  // Outer values that a graph attribute reads.
  void Captures(const weir_onnx::GraphProto& graph, std::set<std::string> inner, std::set<std::string>* out) {
    for (const auto& input : graph.input()) inner.insert(input.name());
    for (const auto& tensor : graph.initializer()) inner.insert(tensor.name());
    for (const auto& node : graph.node()) inner.insert(node.output().begin(), node.output().end());
    auto read = [&](const std::string& value) {
      if (!value.empty() && !inner.count(value)) out->insert(value);
    };
    for (const auto& node : graph.node()) {
      for (const std::string& value : node.input()) read(value);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) Captures(attribute.g(), inner, out);
        for (const auto& g : attribute.graphs()) Captures(g, inner, out);
      }
    }
    for (const auto& output : graph.output()) read(output.name());
  }

  void AddNode(weir_onnx::NodeProto& proto, const std::map<std::string, int>& opsets, int depth, std::vector<RawNode>* to) {
    if (++num_nodes_ > kMaxNodes) throw Invalid("{}: more than {} nodes", name_, kMaxNodes);
    auto function = functions_.find({proto.domain(), proto.op_type()});
    if (function != functions_.end()) {
      Inline(proto, *function->second, depth, to);
      return;
    }
    RawNode node;
    node.op_type = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    node.name = proto.name();
    auto opset = opsets.find(node.domain);
    if (opset != opsets.end()) node.opset = opset->second;
    const std::string where = fmt::format("{}: node '{}' ({})", name_, node.name, node.op_type);
    if (opset == opsets.end() && node.domain.empty()) throw Invalid("{}: the model doesn't import the ONNX operator set", where);
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    std::set<std::string> captured;
    for (auto& attribute : *proto.mutable_attribute()) {
      if (attribute.has_g()) Captures(attribute.g(), {}, &captured);
      for (const auto& g : attribute.graphs()) Captures(g, {}, &captured);
      node.attributes[attribute.name()] = Attribute(attribute, where);
    }
    if (node.domain.empty() && node.op_type == "If") {
      for (auto& attribute : *proto.mutable_attribute()) {
        const bool then = attribute.name() == "then_branch";
        if ((then || attribute.name() == "else_branch") && attribute.has_g()) {
          node.branches[then ? 0 : 1] = Branch(*attribute.mutable_g(), opsets, depth);
        }
      }
    }
    node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
    to->push_back(std::move(node));
  }

  std::shared_ptr<const RawBranch> Branch(weir_onnx::GraphProto& graph, const std::map<std::string, int>& opsets, int depth) {
    if (depth >= kMaxFunctionDepth) throw Invalid("{}: graph '{}' nests deeper than {}", name_, graph.name(), kMaxFunctionDepth);
    const std::string prefix = fmt::format("{}#{}/", graph.name().empty() ? "branch" : graph.name(), num_calls_++);
    std::set<std::string> inner;
    for (const auto& tensor : graph.initializer()) inner.insert(tensor.name());
    for (const auto& node : graph.node()) inner.insert(node.output().begin(), node.output().end());
    inner.erase("");
    RenameInside(graph, inner, prefix);
    auto branch = std::make_shared<RawBranch>();
    for (auto& tensor : *graph.mutable_initializer()) {
      model_.initializers[tensor.name()] =
          DecodeTensor(tensor, fmt::format("{}: initialiser '{}'", name_, tensor.name()), folder_);
    }
    for (auto& node : *graph.mutable_node()) {
      node.set_name(prefix + node.name());
      AddNode(node, opsets, depth + 1, &branch->nodes);
    }
    for (const auto& output : graph.output()) branch->outputs.push_back(output.name());
    return branch;
  }

  // Gives the names in `names` a prefix wherever the graph, or a graph inside it, uses them.
  static void RenameInside(weir_onnx::GraphProto& graph, const std::set<std::string>& names, const std::string& prefix) {
    auto rename = [&](std::string* value) {
      if (names.count(*value)) *value = prefix + *value;
    };
    for (auto& tensor : *graph.mutable_initializer()) rename(tensor.mutable_name());
    for (auto& output : *graph.mutable_output()) rename(output.mutable_name());
    for (auto& node : *graph.mutable_node()) {
      for (std::string& value : *node.mutable_input()) rename(&value);
      for (std::string& value : *node.mutable_output()) rename(&value);
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) RenameInside(*attribute.mutable_g(), names, prefix);
        for (auto& g : *attribute.mutable_graphs()) RenameInside(g, names, prefix);
      }
    }
  }

  // Replaces a call of a model-local function by its body, with fresh names.
  void Inline(const weir_onnx::NodeProto& call, const weir_onnx::FunctionProto& function, int depth, std::vector<RawNode>* to) {
    if (depth >= kMaxFunctionDepth)
      throw Invalid("{}: function '{}' nests deeper than {}", name_, function.name(), kMaxFunctionDepth);
    const std::string prefix = fmt::format("{}#{}/", function.name(), num_calls_++);
    std::map<std::string, std::string> names;
    for (int i = 0; i < function.input_size(); ++i) names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < function.output_size(); ++i) {
      if (i < call.output_size() && !call.output(i).empty()) names[function.output(i)] = call.output(i);
    }
    auto rename = [&](const std::string& value) {
      if (value.empty()) return value;
      return names.try_emplace(value, prefix + value).first->second;
    };
    std::map<std::string, int> opsets;
    for (const auto& import : function.opset_import()) {
      opsets[import.domain() == "ai.onnx" ? "" : import.domain()] = static_cast<int>(import.version());
    }
    for (const auto& body : function.node()) {
      weir_onnx::NodeProto node = body;
      node.set_name(prefix + body.name());
      for (std::string& value : *node.mutable_input()) value = rename(value);
      for (std::string& value : *node.mutable_output()) value = rename(value);
      for (int i = node.attribute_size() - 1; i >= 0; --i) {
        auto& attribute = *node.mutable_attribute(i);
        if (!attribute.has_ref_attr_name()) continue;
        const weir_onnx::AttributeProto* actual = nullptr;
        for (const auto& a : function.attribute_proto()) actual = a.name() == attribute.ref_attr_name() ? &a : actual;
        for (const auto& a : call.attribute()) actual = a.name() == attribute.ref_attr_name() ? &a : actual;
        if (actual == nullptr) {
          node.mutable_attribute()->DeleteSubrange(i, 1);
        } else {
          const std::string attribute_name = attribute.name();
          attribute = *actual;
          attribute.set_name(attribute_name);
        }
      }
      AddNode(node, opsets, depth + 1, to);
    }
  }

  void Sort() {
    const int n = static_cast<int>(model_.nodes.size());
    std::map<std::string, int> producer;
    for (int i = 0; i < n; ++i) {
      for (const std::string& value : model_.nodes[i].outputs) {
        if (value.empty()) continue;
        if (!producer.emplace(value, i).second) throw Invalid("{}: value '{}' is produced twice", name_, value);
        if (model_.initializers.count(value))
          throw Invalid("{}: value '{}' is both an initialiser and a node's output", name_, value);
      }
    }
    std::set<std::string> given;
    for (const RawInput& input : model_.inputs) {
      given.insert(input.name);
      if (producer.count(input.name)) throw Invalid("{}: value '{}' is both an input and a node's output", name_, input.name);
    }
    std::vector<int> missing(n, 0);
    std::vector<std::vector<int>> readers(n);
    for (int i = 0; i < n; ++i) {
      for (const std::string& value : model_.nodes[i].inputs) {
        if (value.empty()) continue;
        auto it = producer.find(value);
        if (it != producer.end()) {
          ++missing[i];
          readers[it->second].push_back(i);
        } else if (!given.count(value) && !model_.initializers.count(value)) {
          throw Invalid("{}: node '{}' ({}) reads '{}', which nothing produces", name_, NodeName(i), model_.nodes[i].op_type,
                        value);
        }
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < n; ++i) {
      if (missing[i] == 0) ready.push(i);
    }
    std::vector<RawNode> sorted;
    sorted.reserve(n);
    std::vector<bool> done(n, false);
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      done[i] = true;
      for (int r : readers[i]) {
        if (--missing[r] == 0) ready.push(r);
      }
      sorted.push_back(model_.nodes[i]);
    }
    if (static_cast<int>(sorted.size()) < n) throw Invalid("{}: the nodes form a cycle: {}", name_, Cycle(producer, done));
    for (const std::string& output : model_.outputs) {
      if (!producer.count(output) && !given.count(output) && !model_.initializers.count(output)) {
        throw Invalid("{}: output '{}' is produced by nothing", name_, output);
      }
    }
    model_.nodes = std::move(sorted);
  }

  std::string NodeName(int i) const {
    const RawNode& node = model_.nodes[i];
    return !node.name.empty() ? node.name : node.outputs.empty() ? node.op_type : node.outputs[0];
  }

  // Walks back from an unfinished node through unfinished ones until one repeats: "p -> q -> p".
  std::string Cycle(const std::map<std::string, int>& producer, const std::vector<bool>& done) const {
    int at = static_cast<int>(std::find(done.begin(), done.end(), false) - done.begin());
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const std::string& value : model_.nodes[at].inputs) {
        auto it = producer.find(value);
        if (it != producer.end() && !done[it->second]) {
          at = it->second;
          break;
        }
      }
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::reverse(path.begin(), path.end());
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    std::string text;
    for (int i : path) text += fmt::format("{} ({}) -> ", NodeName(i), model_.nodes[i].op_type);
    return text + NodeName(path.front());
  }

  std::string name_, folder_;
  RawModel model_;
  std::map<std::pair<std::string, std::string>, const weir_onnx::FunctionProto*> functions_;
  int num_calls_ = 0;
  int num_nodes_ = 0;
};

}  // namespace

RawModel ReadRawModel(std::string_view bytes, const std::string& name, const std::string& folder) {
  return Reader(name, folder).Read(bytes);
}

}  // namespace weir::partitioner
