// From the raw file to OnnxModel: binds the batch, infers shapes and folds constants in one pass in topological order (every
// dimension is a number by then, so one pass is the fixpoint), replaces batches that the file had fixed, drops what is dead,
// gives each value its role.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/onnx/constant_folder.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/onnx/raw_model.h"
#include "partitioner/onnx/shape_rules.h"
#include "partitioner/onnx/slots.h"

namespace weir::partitioner {
namespace {

using Shape = std::vector<std::int64_t>;

bool IsFloat(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kFloat16 || t == DType::kBFloat16;
}

enum class Origin { kInput, kInitializer, kFill, kConstantNode, kComputed };

struct Value {
  TypedShape type;
  std::shared_ptr<const OnnxData> data;
  Origin origin = Origin::kComputed;
};

// One pass over the graph at one batch.
struct Pass {
  std::unordered_map<std::string, Value> values;
  std::unordered_map<std::string, std::string> alias;  // outputs of Identity on weights
  struct Kept {
    OnnxNode node;  // inputs and outputs by name below
    std::vector<std::string> inputs, outputs;
  };
  std::vector<Kept> kept;
};

class Normaliser {
 public:
  Normaliser(RawModel raw, std::string name, const LoadOptions& options)
      : raw_(std::move(raw)), name_(std::move(name)), options_(options) {
    IndexReaders(raw_.nodes);
  }

  OnnxModel Run() {
    if (options_.batch < 0) throw Invalid("{}: batch must be >= 0, got {}", name_, options_.batch);
    ChooseDataInputs();
    BindBatch();
    Pass reference;
    if (file_batch_ > 0 && file_batch_ != batch_) {
      reference = Infer(file_batch_, nullptr);
      pass_ = Infer(batch_, &reference);
    } else {
      pass_ = Infer(batch_, nullptr);
    }
    if (options_.batch_axes)
      FindBatchAxes(file_batch_ > 0 && file_batch_ != batch_ + 1 ? (reference.values.empty() ? &pass_ : &reference) : nullptr);
    return Build();
  }

 private:
  struct Reader {
    const RawNode* node;
    std::size_t input;
  };

  // Branches of an If count as readers themselves: the If may vanish.
  void IndexReaders(const std::vector<RawNode>& nodes) {
    for (const RawNode& node : nodes) {
      const bool branches = node.branches[0] || node.branches[1];
      for (std::size_t i = 0; i < (branches ? std::min<std::size_t>(1, node.inputs.size()) : node.inputs.size()); ++i) {
        if (!node.inputs[i].empty()) readers_[node.inputs[i]].push_back({&node, i});
      }
      for (const auto& branch : node.branches) {
        if (branch) IndexReaders(branch->nodes);
      }
    }
  }

  // ---- inputs ----

  // The strongest slot that a value reaches, through operators that only move elements.
  Slot Reached(const std::string& value, int depth = 0) const {
    Slot best = Slot::kSetting;
    bool any = false;
    auto it = readers_.find(value);
    if (it == readers_.end() || depth > 8) return Slot::kData;
    for (const Reader& reader : it->second) {
      Slot slot = reader.node->domain.empty() ? SlotOf(reader.node->op_type, reader.input) : Slot::kData;
      if (slot == Slot::kData && reader.node->domain.empty() && IsMovement(reader.node->op_type) &&
          !reader.node->outputs.empty()) {
        slot = Reached(reader.node->outputs[0], depth + 1);
      }
      if (slot == Slot::kWeight) return slot;
      if (slot == Slot::kBuffer) best = slot;
      if (slot == Slot::kData && best == Slot::kSetting) best = slot;
      any = true;
    }
    return any ? best : Slot::kData;
  }

  // Splits graph inputs without initialiser into data and weights that were left out of the file.
  void ChooseDataInputs() {
    bool has_weights = false;
    const RawInput* first = nullptr;
    for (const RawInput& input : raw_.inputs) {
      const bool symbolic = std::any_of(input.dims.begin(), input.dims.end(), [](const RawInput::Dim& d) { return d.value < 0; });
      const Slot slot = Reached(input.name);
      if (!IsFloat(input.dtype) || symbolic || !input.has_shape) {
        data_inputs_.insert(input.name);
        if (!first) first = &input;
      } else if (slot == Slot::kWeight || slot == Slot::kBuffer) {
        has_weights = true;
      }
    }
    for (const RawInput& input : raw_.inputs) {
      const Slot slot = Reached(input.name);
      if (data_inputs_.count(input.name) || slot == Slot::kWeight || slot == Slot::kBuffer) continue;
      const bool like_first = first == nullptr || (input.dims.size() == first->dims.size() && !input.dims.empty() &&
                                                   input.dims[0].value == first->dims[0].value);
      if (!has_weights || like_first) {
        data_inputs_.insert(input.name);
        if (!first) first = &input;
      }
    }
    if (data_inputs_.empty() && !raw_.inputs.empty()) data_inputs_.insert(raw_.inputs[0].name);
  }

  void BindBatch() {
    bool first = true;
    for (RawInput& input : raw_.inputs) {
      if (!data_inputs_.count(input.name)) continue;
      if (!input.has_shape) {
        if (!first || !options_.input_shape)
          throw Invalid("{}: input '{}' has no shape: give the shape of one sample", name_, input.name);
        input.dims.assign(options_.input_shape->size() + 1, RawInput::Dim());
      }
      if (first && options_.input_shape) {
        const Shape& given = *options_.input_shape;
        if (given.size() + 1 != input.dims.size()) {
          throw Invalid("{}: input '{}' has {} dimensions after the batch, got a shape of {}", name_, input.name,
                        std::max<std::size_t>(input.dims.size(), 1) - 1, given.size());
        }
        for (std::size_t d = 0; d < given.size(); ++d) {
          if (given[d] < 1) throw Invalid("{}: input '{}': dimensions must be >= 1, got {}", name_, input.name, given[d]);
          const std::int64_t fixed = input.dims[d + 1].symbol.empty() ? input.dims[d + 1].value : -1;
          if (fixed > 0 && fixed != given[d]) {
            throw Invalid("{}: input '{}' has {} in dimension {} of a sample, got {} (a shape of [{}])", name_, input.name, fixed,
                          d, given[d], fmt::join(given, ", "));
          }
          if (!input.dims[d + 1].symbol.empty()) symbols_[input.dims[d + 1].symbol] = given[d];
          input.dims[d + 1].value = given[d];
        }
      }
      if (first) {
        if (!input.dims.empty()) file_batch_ = input.dims[0].value;
        batch_ = options_.batch > 0 ? options_.batch : std::max<std::int64_t>(file_batch_, 1);
        if (!input.dims.empty() && !input.dims[0].symbol.empty() && file_batch_ < 0) batch_symbol_ = input.dims[0].symbol;
      }
      first = false;
    }
    if (first) batch_ = std::max<std::int64_t>(options_.batch, 1);
  }

  Shape Bound(const RawInput& input, std::int64_t batch) const {
    Shape shape;
    for (std::size_t d = 0; d < input.dims.size(); ++d) {
      const RawInput::Dim& dim = input.dims[d];
      std::int64_t value = dim.value;
      if (data_inputs_.count(input.name)) {
        if (d == 0 && (value < 0 || value == file_batch_)) value = batch;
        if (value < 0 && !dim.symbol.empty() && dim.symbol == batch_symbol_) value = batch;
        if (value < 0 && symbols_.count(dim.symbol)) value = symbols_.at(dim.symbol);
      }
      if (value < 0) {
        throw Invalid("{}: input '{}': dimension {}{} is open: give the shape of one sample", name_, input.name, d,
                      dim.symbol.empty() ? "" : " ('" + dim.symbol + "')");
      }
      shape.push_back(value);
    }
    return shape;
  }

  // ---- the pass ----

  std::string Where(const RawNode& node) const {
    return fmt::format("{}: node '{}' ({})", name_,
                       !node.name.empty()     ? node.name
                       : node.outputs.empty() ? ""
                                              : node.outputs[0],
                       node.op_type);
  }

  void CheckSize(const std::string& value, const TypedShape& type) const {
    if (!type.shape) return;
    const std::string what = fmt::format("{}: tensor '{}'", name_, value);
    CheckedMul(ElementCount(*type.shape, what), 8, what);
  }

  Pass Infer(std::int64_t batch, const Pass* reference) {
    Pass pass;
    for (const auto& [value, data] : raw_.initializers) {
      pass.values[value] = {{data->dtype, data->shape}, data, Origin::kInitializer};
    }
    for (const RawInput& input : raw_.inputs) {
      Value value{{input.dtype, Bound(input, batch)}, nullptr, Origin::kInput};
      CheckSize(input.name, value.type);
      pass.values[input.name] = std::move(value);
    }
    for (const RawNode& raw : raw_.nodes) Visit(raw, batch, reference, &pass);
    return pass;
  }

  void Visit(const RawNode& raw, std::int64_t batch, const Pass* reference, Pass* pass) {
    OnnxNode node;
    node.name = raw.name;
    node.op_type = raw.op_type;
    node.domain = raw.domain;
    node.opset = raw.opset;
    node.attributes = raw.attributes;
    node.outputs.assign(raw.outputs.size(), 0);
    std::vector<std::string> names = raw.inputs;
    for (std::string& value : names) {
      auto it = pass->alias.find(value);
      if (it != pass->alias.end()) value = it->second;
    }
    const std::string where = Where(raw);
    if (TakeBranch(raw, names, where, batch, reference, pass)) return;
    node.opaque = !HasShapeRule(node.domain, node.op_type);
    std::vector<RuleInput> inputs;
    std::vector<const OnnxData*> data;
    bool foldable = !node.opaque, any = false;
    auto gather = [&] {
      inputs.clear();
      data.clear();
      foldable = !node.opaque;
      any = false;
      for (const std::string& value : names) {
        if (value.empty()) {
          inputs.push_back({});
          data.push_back(nullptr);
          continue;
        }
        const Value& v = pass->values.at(value);
        inputs.push_back({true, v.type, v.data.get()});
        data.push_back(v.data.get());
        any = true;
        foldable = foldable && v.data && !IsWeight(v);
      }
    };
    gather();
    // A weight read through Identity is the weight itself.
    if (node.domain.empty() && node.op_type == "Identity" && names.size() == 1 && raw.outputs.size() == 1 && !names[0].empty()) {
      const Value& source = pass->values.at(names[0]);
      const bool weight_input = source.origin == Origin::kInput && !data_inputs_.count(names[0]);
      if ((source.data && IsWeight(source)) || weight_input) {
        pass->alias[raw.outputs[0]] = names[0];
        pass->values[raw.outputs[0]] = source;
        return;
      }
    }
    if (reference) {
      Rebatch(raw, batch, *reference, inputs, &names, pass);
      gather();
    }
    std::vector<TypedShape> types(raw.outputs.size());
    if (!node.opaque) {
      types = InferShapes(node, inputs, where);
    } else {
      for (TypedShape& type : types) {
        if (!inputs.empty() && inputs[0].present) type.dtype = inputs[0].type.dtype;
      }
    }
    for (std::size_t i = 0; i < types.size(); ++i) CheckSize(raw.outputs[i], types[i]);

    if (raw.outputs.size() >= 1 && !raw.outputs[0].empty() && !node.opaque) {
      Value folded{types[0], nullptr, Origin::kComputed};
      if (node.op_type == "Constant") {
        folded.data = ConstantData(node, types[0]);
        folded.origin = Origin::kConstantNode;
      } else if (node.op_type == "ConstantOfShape" && types[0].shape) {
        auto fill = std::make_shared<OnnxData>();
        const OnnxAttribute* value = node.Find("value");
        fill->dtype = types[0].dtype;
        fill->shape = *types[0].shape;
        fill->fill = value && value->tensor && value->tensor->elements() > 0 ? value->tensor->Reals().at(0) : 0.0;
        folded.data = fill;
        folded.origin = Origin::kFill;
      } else if ((node.op_type == "Shape" || node.op_type == "Size") && inputs.size() == 1 && inputs[0].type.shape) {
        Shape shape = *inputs[0].type.shape;
        if (node.op_type == "Size") {
          auto count = IntVector({ElementCount(shape, where)});
          count.shape = {};
          folded.data = std::make_shared<OnnxData>(std::move(count));
        } else {
          const auto rank = static_cast<std::int64_t>(shape.size());
          const std::int64_t start = node.Int("start", 0),
                             begin = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
          shape.erase(shape.begin(), shape.begin() + begin);
          shape.resize(static_cast<std::size_t>(types[0].shape->at(0)));
          folded.data = std::make_shared<OnnxData>(IntVector(shape));
        }
      } else if (foldable && any && types[0].shape && raw.outputs.size() == 1) {
        if (auto result = Fold(node, data, *types[0].shape, types[0].dtype)) {
          folded.data = std::make_shared<OnnxData>(std::move(*result));
          folded.origin = OriginOfFold(names, *pass);
        }
      }
      if (folded.data) {
        pass->values[raw.outputs[0]] = std::move(folded);
        return;
      }
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!raw.outputs[i].empty()) pass->values[raw.outputs[i]] = {types[i], nullptr, Origin::kComputed};
    }
    pass->kept.push_back({std::move(node), std::move(names), raw.outputs});
  }

  // An If whose condition is constant: the branch that is taken stands in its place.
  bool TakeBranch(const RawNode& raw, const std::vector<std::string>& names, const std::string& where, std::int64_t batch,
                  const Pass* reference, Pass* pass) {
    if (!raw.branches[0] || !raw.branches[1] || names.empty() || names[0].empty()) return false;
    const Value& condition = pass->values.at(names[0]);
    if (!condition.data || condition.data->elements() != 1) return false;
    const double taken = condition.data->fill ? *condition.data->fill : condition.data->Reals().at(0);
    const RawBranch& branch = *raw.branches[taken != 0 ? 0 : 1];
    if (branch.outputs.size() != raw.outputs.size()) {
      throw Invalid("{}: a branch has {} outputs, expected {}", where, branch.outputs.size(), raw.outputs.size());
    }
    for (const RawNode& inner : branch.nodes) {
      for (const std::string& value : inner.inputs) {
        if (!value.empty() && !pass->values.count(value))
          throw Invalid("{}: node '{}' reads '{}', which nothing before it produces", where, inner.name, value);
      }
      Visit(inner, batch, reference, pass);
    }
    for (std::size_t i = 0; i < raw.outputs.size(); ++i) {
      if (!raw.outputs[i].empty() && !pass->values.count(branch.outputs[i]))
        throw Invalid("{}: output '{}' of a branch is produced by nothing", where, branch.outputs[i]);
      RawNode identity;
      identity.name = raw.name + "/" + std::to_string(i);
      identity.op_type = "Identity";
      identity.opset = raw.opset;
      identity.inputs = {branch.outputs[i]};
      identity.outputs = {raw.outputs[i]};
      if (!raw.outputs[i].empty()) Visit(identity, batch, reference, pass);
    }
    return true;
  }

  static std::shared_ptr<const OnnxData> ConstantData(const OnnxNode& node, const TypedShape& type) {
    if (const OnnxAttribute* a = node.Find("value"); a && a->tensor) return a->tensor;
    if (const OnnxAttribute* a = node.Find("value_ints")) return std::make_shared<OnnxData>(IntVector(a->ints));
    if (const OnnxAttribute* a = node.Find("value_int")) {
      OnnxData out = IntVector({a->i});
      out.shape = {};
      return std::make_shared<OnnxData>(std::move(out));
    }
    auto out = std::make_shared<OnnxData>();
    out->dtype = DType::kFloat32;
    out->shape = *type.shape;
    std::vector<float> floats;
    if (const OnnxAttribute* a = node.Find("value_floats")) floats = a->floats;
    if (const OnnxAttribute* a = node.Find("value_float")) floats = {a->f};
    out->bytes.assign(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
    return out;
  }

  // A float initialiser of several elements: never folded, so that it stays one tensor to train.
  static bool IsWeight(const Value& v) {
    return v.origin == Origin::kInitializer && IsFloat(v.type.dtype) && v.data && v.data->elements() > 1;
  }

  static Origin OriginOfFold(const std::vector<std::string>& names, const Pass& pass) {
    Origin origin = Origin::kConstantNode;
    if (!names.empty() && !names[0].empty() && pass.values.at(names[0]).data->fill) origin = Origin::kFill;
    return origin;
  }

  // The dimension of each value that changes with the batch, where it is one.
  void FindBatchAxes(const Pass* reference) {
    Pass other;
    try {
      other = Infer(batch_ + 1, reference);
    } catch (const Error&) {
      return;  // the file only works at its own batch
    }
    for (const auto& [name, value] : pass_.values) {
      const auto it = other.values.find(name);
      if (it == other.values.end() || !value.type.shape || !it->second.type.shape) continue;
      const Shape &a = *value.type.shape, &b = *it->second.type.shape;
      int axis = -1, count = 0;
      for (std::size_t d = 0; d < a.size() && a.size() == b.size(); ++d) {
        if (a[d] == b[d]) continue;
        axis = static_cast<int>(d);
        ++count;
      }
      if (count == 1) batch_axis_[name] = axis;
    }
  }

  // ---- batches that the file had fixed ----

  // Where the file wrote its batch into the target of a Reshape, Expand or Resize, gives the node a target for the new batch.
  void Rebatch(const RawNode& raw, std::int64_t batch, const Pass& reference, const std::vector<RuleInput>& inputs,
               std::vector<std::string>* names, Pass* pass) {
    const bool reshape = raw.op_type == "Reshape", expand = raw.op_type == "Expand", resize = raw.op_type == "Resize";
    const std::size_t at = resize ? 3 : 1;
    if (!raw.domain.empty() || (!reshape && !expand && !resize) || inputs.size() <= at || !inputs[at].present || !inputs[at].data)
      return;
    auto before = reference.values.find(raw.outputs.at(0));
    if (before == reference.values.end() || !before->second.type.shape || !inputs[0].type.shape) return;
    const Shape was = *before->second.type.shape;  // the output at the file's batch
    Shape target = inputs[at].data->Ints();
    const std::int64_t f = file_batch_;
    bool changed = false;
    if (reshape) {
      auto input_before = reference.values.find(raw.inputs.at(0));
      if (input_before == reference.values.end() || !input_before->second.type.shape) return;
      const std::string what = Where(raw);
      const std::int64_t elements = ElementCount(*inputs[0].type.shape, what);
      if (elements == ElementCount(*input_before->second.type.shape, what)) return;
      auto fits = [&](const Shape& candidate) {
        std::int64_t known = 1;
        bool open = false;
        for (std::size_t d = 0; d < candidate.size(); ++d) {
          if (candidate[d] == -1)
            open = true;
          else
            known = CheckedMul(
                known, candidate[d] == 0 && d < inputs[0].type.shape->size() ? (*inputs[0].type.shape)[d] : candidate[d], what);
        }
        return open ? known > 0 && elements % known == 0 : known == elements;
      };
      const Shape original = target;
      const bool literal = !target.empty() && target[0] == f && !was.empty() && was[0] == f;
      if (literal) {
        // [f, ...]: the first dimension is the batch if the others then keep their sizes.
        Shape candidate = target;
        candidate[0] = batch;
        Shape out = was;
        out[0] = batch;
        if (fits(candidate) && ElementCount(out, what) == elements) target = candidate, changed = true;
      }
      if (!changed && !fits(original)) {
        // One dimension held a multiple of the batch: heads or positions folded into it.
        int found = -1;
        for (std::size_t d = 0; d < target.size(); ++d) {
          if (target[d] <= 0 || f == 1 || target[d] % f != 0) continue;
          Shape candidate = target;
          candidate[d] = target[d] / f * batch;
          if (fits(candidate)) {
            found = static_cast<int>(d);
            break;
          }
        }
        if (found < 0) {
          throw Invalid("{}: target [{}] fixes the file's batch of {}: export the model with an open batch, or use that batch",
                        what, fmt::join(original, ","), f);
        }
        target[found] = target[found] / f * batch;
        changed = true;
      }
    } else if (!target.empty() && target[0] == f && f > 1 && !was.empty() && was[0] == f) {
      target[0] = batch;
      changed = true;
    } else if (resize && !target.empty() && target[0] == f && !was.empty() && was[0] == f) {
      target[0] = batch;
      changed = true;
    }
    if (!changed) return;
    const std::string fresh = raw.outputs[0] + "#shape";
    auto data = std::make_shared<OnnxData>(IntVector(target));
    pass->values[fresh] = {{DType::kInt64, data->shape}, data, Origin::kConstantNode};
    (*names)[at] = fresh;
  }

  // ---- the result ----

  OnnxModel Build() {
    OnnxModel model;
    model.name = std::filesystem::path(name_).filename().string();
    model.batch = batch_;
    model.ir_version = raw_.ir_version;
    model.opset = raw_.opset;
    model.warnings = raw_.warnings;
    if (raw_.opset > kNewestOpset) {
      model.warnings.push_back(fmt::format("opset {} is newer than {}: operators are read by the rules of {}", raw_.opset,
                                           kNewestOpset, kNewestOpset));
    }
    const std::vector<std::string> outputs = ModelOutputs(&model);
    SplitTiedWeights();
    const std::vector<int> alive = AliveNodes(outputs);
    std::set<std::string> read(outputs.begin(), outputs.end());
    for (int k : alive) {
      for (const std::string& value : pass_.kept[k].inputs) read.insert(value);
    }
    std::unordered_map<std::string, int> ids;
    auto add = [&](const std::string& value) {
      auto [it, fresh] = ids.emplace(value, static_cast<int>(model.values.size()));
      if (fresh) {
        const Value& v = pass_.values.at(value);
        OnnxValue out;
        out.name = value;
        out.dtype = v.type.dtype;
        out.shape = v.type.shape;
        out.data = v.data;
        if (const auto axis = batch_axis_.find(value); axis != batch_axis_.end()) out.batch_axis = axis->second;
        model.values.push_back(std::move(out));
      }
      return it->second;
    };
    for (const RawInput& input : raw_.inputs) {
      if (!data_inputs_.count(input.name)) continue;
      if (!read.count(input.name)) {
        model.warnings.push_back(fmt::format("input '{}' is read by nothing", input.name));
        continue;
      }
      const int id = add(input.name);
      model.values[id].role = OnnxRole::kInput;
      model.inputs.push_back(id);
    }
    std::set<std::string> node_names;
    for (int k : alive) {
      Pass::Kept& kept = pass_.kept[k];
      OnnxNode node = std::move(kept.node);
      const int index = static_cast<int>(model.nodes.size());
      if (node.name.empty()) node.name = kept.outputs.empty() ? fmt::format("{}_{}", node.op_type, index) : kept.outputs[0];
      if (!node_names.insert(node.name).second) {
        node.name = fmt::format("{}#{}", node.name, index);
        node_names.insert(node.name);
      }
      node.inputs.clear();
      for (const std::string& value : kept.inputs) node.inputs.push_back(value.empty() ? -1 : add(value));
      node.outputs.clear();
      for (std::size_t i = 0; i < kept.outputs.size(); ++i) {
        const std::string& value = kept.outputs[i];
        if (value.empty() || !read.count(value)) {
          node.outputs.push_back(-1);
          continue;
        }
        const int id = add(value);
        model.values[id].role = OnnxRole::kActivation;
        model.values[id].producer = index;
        node.outputs.push_back(id);
      }
      model.nodes.push_back(std::move(node));
    }
    for (const std::string& value : outputs) model.outputs.push_back(add(value));
    GiveRoles(&model);
    FindGradients(&model);
    ReportOpaque(&model);
    return model;
  }

  // A weight that is read at both ends of the model (a tied embedding) would keep everything between in one part. From its second
  // reader on it is read through a copy, which may cross a cut like any activation, its gradient coming back.
  void SplitTiedWeights() {
    std::map<std::string, std::vector<std::size_t>> readers;
    for (std::size_t k = 0; k < pass_.kept.size(); ++k) {
      for (const std::string& value : pass_.kept[k].inputs) {
        if (value.empty()) continue;
        const Value& v = pass_.values.at(value);
        const bool weight = IsWeight(v) || (v.origin == Origin::kInput && !data_inputs_.count(value) && IsFloat(v.type.dtype));
        if (weight && (readers[value].empty() || readers[value].back() != k)) readers[value].push_back(k);
      }
    }
    const std::size_t far = std::max<std::size_t>(8, pass_.kept.size() / 4);
    std::map<std::size_t, std::vector<std::string>> copies;  // after which node
    for (const auto& [value, at] : readers) {
      if (at.back() - at.front() < far) continue;
      copies[at.front()].push_back(value);
      for (std::size_t i = 1; i < at.size(); ++i) {
        for (std::string& input : pass_.kept[at[i]].inputs) {
          if (input == value) input = value + "#copy";
        }
      }
      pass_.values[value + "#copy"] = {pass_.values.at(value).type, nullptr, Origin::kComputed};
    }
    if (copies.empty()) return;
    std::vector<Pass::Kept> kept;
    for (std::size_t k = 0; k < pass_.kept.size(); ++k) {
      kept.push_back(std::move(pass_.kept[k]));
      for (const std::string& value : copies[k]) {
        Pass::Kept copy;
        copy.node.name = value + "#copy";
        copy.node.op_type = "Identity";
        copy.node.opset = raw_.opset;
        copy.node.tied_copy = true;
        copy.inputs = {value};
        copy.outputs = {value + "#copy"};
        kept.push_back(std::move(copy));
      }
    }
    pass_.kept = std::move(kept);
  }

  // The file's outputs without BatchNorm's running statistics and without constants.
  std::vector<std::string> ModelOutputs(OnnxModel* model) const {
    std::set<std::string> statistics;
    for (const Pass::Kept& kept : pass_.kept) {
      if (kept.node.domain.empty() && kept.node.op_type == "BatchNormalization" && kept.outputs.size() > 1) {
        statistics.insert(kept.outputs.begin() + 1, kept.outputs.end());
      }
    }
    std::vector<std::string> outputs;
    for (const std::string& output : raw_.outputs) {
      if (statistics.count(output)) continue;
      const Value& value = pass_.values.at(output);
      if (value.data || (value.origin == Origin::kInput && !data_inputs_.count(output))) {
        model->warnings.push_back(fmt::format("output '{}' doesn't depend on the data: left out", output));
      } else if (std::find(outputs.begin(), outputs.end(), output) == outputs.end()) {
        outputs.push_back(output);
      }
    }
    if (outputs.empty()) throw Invalid("{}: no output depends on the data", name_);
    return outputs;
  }

  std::vector<int> AliveNodes(const std::vector<std::string>& outputs) const {
    std::set<std::string> wanted(outputs.begin(), outputs.end());
    std::vector<int> alive;
    for (int k = static_cast<int>(pass_.kept.size()) - 1; k >= 0; --k) {
      const Pass::Kept& kept = pass_.kept[k];
      if (std::none_of(kept.outputs.begin(), kept.outputs.end(),
                       [&](const std::string& o) { return !o.empty() && wanted.count(o); }))
        continue;
      alive.push_back(k);
      wanted.insert(kept.inputs.begin(), kept.inputs.end());
    }
    std::reverse(alive.begin(), alive.end());
    return alive;
  }

  void GiveRoles(OnnxModel* model) const {
    // Strongest slot by value, in the normalised graph.
    std::vector<int> weight(model->values.size(), 0), buffer(model->values.size(), 0), data(model->values.size(), 0);
    for (const OnnxNode& node : model->nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] < 0) continue;
        const Slot slot = node.domain.empty() ? SlotOf(node.op_type, i) : Slot::kData;
        (slot == Slot::kWeight ? weight : slot == Slot::kBuffer ? buffer : data)[node.inputs[i]] += slot != Slot::kSetting;
      }
    }
    for (std::size_t v = 0; v < model->values.size(); ++v) {
      OnnxValue& value = model->values[v];
      if (value.producer >= 0 || value.role == OnnxRole::kInput) continue;
      const Origin origin = pass_.values.at(value.name).origin;
      const bool single = value.data && value.data->elements() <= 1;
      value.role = OnnxRole::kConstant;
      if (!IsFloat(value.dtype)) {
        if (origin == Origin::kInput) throw Invalid("{}: input '{}' is a weight, but not of a float type", name_, value.name);
      } else if (buffer[v] && !weight[v]) {
        value.role = OnnxRole::kBuffer;
      } else if (weight[v] || origin == Origin::kInput) {
        value.role = OnnxRole::kParameter;
      } else if (data[v] && origin == Origin::kInitializer && !single && !HoldsInfinity(*value.data)) {
        value.role = OnnxRole::kParameter;
      }
    }
  }

  // An attention mask, not a bias.
  static bool HoldsInfinity(const OnnxData& data) {
    if (data.fill) return !std::isfinite(*data.fill);
    if (data.elements() > (1 << 24)) return false;
    const std::vector<double> values = data.Reals();
    return std::any_of(values.begin(), values.end(), [](double v) { return !std::isfinite(v) || v < -1e30; });
  }

  static void FindGradients(OnnxModel* model) {
    for (OnnxValue& value : model->values) value.has_gradient = value.role == OnnxRole::kParameter;
    for (const OnnxNode& node : model->nodes) {
      const bool any =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](int v) { return v >= 0 && model->values[v].has_gradient; });
      for (int v : node.outputs) {
        if (v >= 0) model->values[v].has_gradient = any && IsFloat(model->values[v].dtype);
      }
    }
  }

  void ReportOpaque(OnnxModel* model) const {
    std::map<std::string, int> opaque;
    int unknown = 0;
    std::string unknown_names;  // the first few
    for (const OnnxNode& node : model->nodes) {
      if (node.opaque) ++opaque[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
      for (int v : node.outputs) {
        if (v < 0 || model->values[v].shape) continue;
        if (++unknown <= 5) unknown_names += (unknown > 1 ? ", '" : "'") + model->values[v].name + "'";
      }
    }
    if (!opaque.empty()) {
      std::string kinds;
      int count = 0;
      for (const auto& [kind, n] : opaque) {
        kinds += fmt::format("{}{} x {}", kinds.empty() ? "" : ", ", n, kind);
        count += n;
      }
      if (options_.strict) throw Invalid("{}: {} operator(s) without a rule: {}", name_, count, kinds);
      model->warnings.push_back(fmt::format("{} operator(s) without a rule, opaque and counted as free: {}", count, kinds));
    }
    if (unknown > 0)
      model->warnings.push_back(fmt::format("{} tensor(s) of unknown shape, counted as 0 bytes: {}{}", unknown, unknown_names,
                                            unknown > 5 ? ", ..." : ""));
  }

  RawModel raw_;
  std::string name_;
  LoadOptions options_;
  std::unordered_map<std::string, std::vector<Reader>> readers_;
  std::set<std::string> data_inputs_;
  std::map<std::string, std::int64_t> symbols_;
  std::string batch_symbol_;
  std::int64_t file_batch_ = -1;  // the first data input's first dimension where the file fixes it
  std::int64_t batch_ = 1;
  std::unordered_map<std::string, int> batch_axis_;
  Pass pass_;
};

// Counts overflow and the like are found deep inside: make sure that the message starts with the path all the same.
template <typename Function>
OnnxModel WithName(const std::string& name, Function function) {
  try {
    return function();
  } catch (const Error& e) {
    if (std::string_view(e.what()).rfind(name, 0) == 0) throw;
    throw Invalid("{}: {}", name, e.what());
  } catch (const std::bad_alloc&) {
    throw Invalid("{}: needs more memory than there is", name);
  } catch (const std::exception& e) {
    throw Invalid("{}: not a usable ONNX model ({})", name, e.what());
  }
}

}  // namespace

OnnxModel LoadOnnx(const std::string& path, const LoadOptions& options) {
  return WithName(path, [&] {
    const std::string bytes = ReadFile(path);
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (folder.empty()) folder = ".";
    return Normaliser(ReadRawModel(bytes, path, folder), path, options).Run();
  });
}

OnnxModel ParseOnnx(std::string_view bytes, const std::string& name, const LoadOptions& options) {
  return WithName(name, [&] { return Normaliser(ReadRawModel(bytes, name, ""), name, options).Run(); });
}

}  // namespace weir::partitioner
