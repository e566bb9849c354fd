#include "partitioner/torchscript/lowering.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/remove_exceptions.h>
#include <torch/csrc/jit/passes/remove_mutation.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "env/core/error.h"
#include "partitioner/torchscript/operator_runner.h"

namespace weir::partitioner {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::IValue;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = torch::jit::prim;
namespace attr = torch::jit::attr;

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Turns attribute reads into graph inputs (tensors, once each whatever the number of paths to it) or constants.
class AttributeLowering {
 public:
  AttributeLowering(Graph* graph, LoweredModel* model) : graph_(graph), model_(model) {}

  void Run(Block* block, std::unordered_map<Value*, std::pair<IValue, std::string>> objects) {
    std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());  // a copy: the list changes on the way
    for (Node* node : nodes) {
      if (node->kind() == prim::GetAttr && objects.count(node->input())) {
        const auto& [object, path] = objects.at(node->input());
        const std::string name = path.empty() ? node->s(attr::name) : path + "." + node->s(attr::name);
        IValue value = object.toObject()->getAttr(node->s(attr::name));
        if (value.isObject()) {
          objects[node->output()] = {value, name};
        } else if (value.isTensor() && value.toTensor().defined()) {
          node->output()->replaceAllUsesWith(WeightInput(value.toTensor(), name, node->output()));
        } else {
          torch::jit::WithInsertPoint here(node);
          if (value.isTensorList()) {  // an LSTM's flat weights: the same tensors as its attributes
            std::vector<Value*> elements;
            for (const at::Tensor& tensor : value.toTensorVector()) {
              elements.push_back(WeightInput(tensor, fmt::format("{}[{}]", name, elements.size()), nullptr));
            }
            node->output()->replaceAllUsesWith(
                graph_->insertNode(graph_->createList(c10::TensorType::get(), elements))->output());
            continue;
          }
          if (auto constant = torch::jit::tryInsertConstant(*graph_, value)) node->output()->replaceAllUsesWith(*constant);
        }
      }
      for (Block* inner : node->blocks()) Run(inner, objects);
    }
  }

 private:
  Value* WeightInput(const at::Tensor& tensor, const std::string& name, Value* like) {
    auto [entry, is_new] = index_.emplace(tensor.unsafeGetTensorImpl(), model_->weights.size());
    // Loading ties the attributes of one tensor, but not those with the elements of a list: these share memory only.
    if (is_new && tensor.numel() > 0) {
      const auto same = by_memory_.emplace(std::pair(tensor.data_ptr(), tensor.sizes().vec()), model_->weights.size()).first;
      is_new = same->second == model_->weights.size();
      entry->second = same->second;
    }
    if (is_new) {
      LoweredWeight weight;
      weight.value = graph_->addInput();
      if (like) {
        weight.value->copyMetadata(like);
      } else {
        weight.value->setType(c10::TensorType::get());
      }
      weight.tensor = tensor;
      weight.trainable = tensor.requires_grad();
      weight.shape = tensor.sizes().vec();
      model_->weights.push_back(std::move(weight));
    }
    LoweredWeight& weight = model_->weights[entry->second];
    if (std::find(weight.names.begin(), weight.names.end(), name) == weight.names.end()) weight.names.push_back(name);
    return weight.value;
  }

  Graph* graph_;
  LoweredModel* model_;
  std::unordered_map<at::TensorImpl*, std::size_t> index_;
  std::map<std::pair<void*, std::vector<std::int64_t>>, std::size_t> by_memory_;
};

// BatchNorm's size check and the like: loops that nothing reads and that change nothing. Dead code elimination keeps them.
void DropIdleLoops(Block* block) {
  std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) {
    for (Block* inner : node->blocks()) DropIdleLoops(inner);
    const bool idle = node->kind() == prim::Loop || node->kind() == prim::If;
    if (!idle) continue;
    const bool used = std::any_of(node->outputs().begin(), node->outputs().end(), [](Value* v) { return v->hasUses(); });
    bool effects = false;
    std::vector<Block*> stack(node->blocks().begin(), node->blocks().end());
    while (!stack.empty()) {
      Block* b = stack.back();
      stack.pop_back();
      for (Node* n : b->nodes()) {
        effects |= n->hasSideEffects() && n->kind() != prim::RaiseException;
        const auto* schema = n->maybeSchema();
        effects |= schema && schema->is_mutable();
        for (Block* inner : n->blocks()) stack.push_back(inner);
      }
    }
    if (!used && !effects) node->destroy();
  }
}

// Lists of tensors that grow by append (DenseNet) become one list construction for each reader, so that only tensors connect
// operators. Lists that a block touches, or that change in another way, stay as they are: their users are then kept together.
void UnrollAppends(Graph* graph) {
  std::vector<Node*> lists;
  for (Node* node : graph->nodes()) {
    if (node->kind() == prim::ListConstruct) lists.push_back(node);
  }
  for (Node* list : lists) {
    std::vector<Node*> users;  // in order
    bool simple = true, grows = false;
    for (const auto& use : list->output()->uses()) {
      const bool append = use.user->kind() == torch::jit::aten::append;
      const auto* schema = use.user->maybeSchema();
      simple &= use.user->owningBlock() == graph->block() && use.user->kind() != prim::Return &&
                (append || (schema && !schema->is_mutable()));
      simple &= !append || (use.offset == 0 && !use.user->output()->hasUses());
      grows |= append;
      users.push_back(use.user);
    }
    if (!simple || !grows) continue;
    std::sort(users.begin(), users.end(), [](Node* a, Node* b) { return a != b && a->isBefore(b); });
    users.erase(std::unique(users.begin(), users.end()), users.end());
    std::vector<Value*> elements(list->inputs().begin(), list->inputs().end());
    for (Node* user : users) {
      if (user->kind() == torch::jit::aten::append) {
        elements.push_back(user->input(1));
        user->destroy();
        continue;
      }
      torch::jit::WithInsertPoint here(user);
      const auto element_type = list->output()->type()->expectRef<c10::ListType>().getElementType();
      Value* now = graph->insertNode(graph->createList(element_type, elements))->output();
      user->replaceInputWith(list->output(), now);
    }
    list->destroy();
  }
}

void Simplify(std::shared_ptr<Graph>& graph) {
  for (int round = 0; round < 4; ++round) {
    torch::jit::EliminateExceptions(graph);
    torch::jit::ConstantPropagation(graph);
    torch::jit::UnrollConstantLoops(graph);
    torch::jit::PeepholeOptimize(graph);
    torch::jit::EliminateDeadCode(graph);
  }
  torch::jit::RemoveListMutation(graph);
  UnrollAppends(graph.get());
  DropIdleLoops(graph->block());
  torch::jit::LowerSimpleTuples(graph);
  torch::jit::ConstantPropagation(graph);
  torch::jit::PeepholeOptimize(graph);
  torch::jit::EliminateDeadCode(graph);
  torch::jit::RemoveTensorMutation(graph);
  torch::jit::EliminateDeadCode(graph);
  torch::jit::ConstantPooling(graph);
}

bool IsTensor(const Value* value) {
  return value->type()->isSubtypeOf(*c10::TensorType::get());
}

bool ChangesInput(const Node* node) {
  const auto* schema = node->maybeSchema();
  return schema && schema->is_mutable();
}

// Neither changes its inputs, nor has effects, nor draws random numbers; nor does anything in its blocks.
bool IsPure(const Node* node) {
  if (ChangesInput(node) || DrawsRandomNumbers(node) || (node->hasSideEffects() && node->kind() != prim::RaiseException))
    return false;
  for (const Block* block : node->blocks()) {
    for (const Node* inner : block->nodes()) {
      if (!IsPure(inner)) return false;
    }
  }
  return true;
}

// Lists, sizes, integers, pieces of a tensor as a list: nodes without a tensor output of their own. They are cheap, and copied to
// every operator that needs them.
bool IsAuxiliary(const Node* node) {
  return !node->outputs().empty() && IsPure(node) && std::none_of(node->outputs().begin(), node->outputs().end(), IsTensor);
}

// A weight that is read as an element of a list has no attribute of its own name: it takes those of the parameters in its memory.
void NameListWeights(const torch::jit::Module& module, LoweredModel* model) {
  for (LoweredWeight& weight : model->weights) {
    std::vector<std::string> names;
    for (const std::string& name : weight.names) {
      if (name.back() != ']') names.push_back(name);
    }
    if (names.size() == weight.names.size()) continue;
    auto add = [&](const std::string& name, const at::Tensor& tensor) {
      const bool same =
          tensor.numel() > 0 && tensor.data_ptr() == weight.tensor.data_ptr() && tensor.sizes() == weight.tensor.sizes();
      if (same && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const auto& p : module.named_parameters()) add(p.name, p.value);
    for (const auto& b : module.named_buffers()) add(b.name, b.value);
    if (names.empty()) throw Invalid("'{}' is no parameter or buffer of the model", weight.names.front());
    weight.names = std::move(names);
  }
}

bool IsMessage(const Node* node) {
  return node->kind() == prim::RaiseException || node->kind() == prim::Print || node->kind() == torch::jit::aten::warn ||
         node->kind() == prim::Constant;
}

}  // namespace

LoweredModel LowerTorchScript(const std::string& content, const std::string& path) {
  LoweredModel model;
  try {
    std::istringstream stream(content);
    torch::jit::Module module = torch::jit::load(stream, c10::Device(c10::kCPU));
    module.train();
    auto method = module.find_method("forward");
    if (!method) throw Invalid("{}: expected a model with forward(), found none", path);
    model.graph = method->graph()->copy();
    torch::jit::Inline(*model.graph);
    AttributeLowering(model.graph.get(), &model).Run(model.graph->block(), {{model.graph->inputs()[0], {module._ivalue(), ""}}});
    torch::jit::EliminateDeadCode(model.graph);
    if (model.graph->inputs()[0]->hasUses()) {
      throw Invalid("{}: forward() uses the module itself ({}), which is not supported", path,
                    model.graph->inputs()[0]->uses()[0].user->kind().toDisplayString());
    }
    model.graph->eraseInput(0);
    NameListWeights(module, &model);
    Simplify(model.graph);
  } catch (const c10::Error& e) {
    throw Invalid("{}: not a TorchScript model: {}", path, FirstLine(e.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Invalid("{}: not a TorchScript model: {}", path, FirstLine(e.what()));
  }
  const std::size_t num_inputs = model.graph->inputs().size() - model.weights.size();
  for (std::size_t i = 0; i < num_inputs; ++i) {
    Value* input = model.graph->inputs()[i];
    if (!IsTensor(input)) throw Invalid("{}: forward() must take tensors, got {} for input {}", path, input->type()->str(), i);
    model.inputs.push_back(input);
  }
  if (num_inputs != 1) throw Invalid("{}: forward() must take one tensor, got {} inputs", path, num_inputs);
  // Weights that only messages or folded branches used are gone from the graph.
  for (std::size_t i = model.weights.size(); i-- > 0;) {
    if (model.weights[i].value->hasUses()) continue;
    model.graph->eraseInput(num_inputs + i);
    model.weights.erase(model.weights.begin() + i);
  }
  for (Value* output : model.graph->outputs()) {
    Node* node = output->node();
    const bool tuple = node->kind() == prim::TupleConstruct || node->kind() == prim::ListConstruct;
    for (Value* v : tuple ? node->inputs() : at::ArrayRef<Value*>(output)) {
      if (IsTensor(v)) model.outputs.push_back(v);
    }
  }
  if (model.outputs.empty()) throw Invalid("{}: forward() must return a tensor or a tuple of tensors", path);
  std::vector<std::vector<Node*>> primary;
  for (Node* node : model.graph->nodes()) {
    if (IsMessage(node) || IsAuxiliary(node)) continue;
    primary.push_back({node});
  }
  model.operator_graph.format = "torchscript";
  model.operator_graph.name = path.substr(path.find_last_of('/') + 1);
  BuildOperatorGraph(std::move(primary), &model);
  return model;
}

namespace {

// Only tensors may pass from operator to operator. Where something else does (a tuple that an If returns, a list that is
// changed), all operators from its first to its last user become one.
std::vector<std::vector<Node*>> MergeAroundNonTensors(std::vector<std::vector<Node*>> primary) {
  std::unordered_map<const Node*, int> owner;
  for (std::size_t i = 0; i < primary.size(); ++i) {
    for (Node* n : primary[i]) owner[n] = static_cast<int>(i);
  }
  std::vector<int> reach(primary.size());  // last operator that must be merged with this one
  std::iota(reach.begin(), reach.end(), 0);
  std::unordered_map<const Value*, int> first_user;  // of lists that some operator changes
  std::unordered_set<const Value*> changed;
  std::function<void(const Node*)> collect = [&](const Node* n) {
    for (const Block* block : n->blocks()) {
      for (const Node* inner : block->nodes()) collect(inner);
    }
    if (!ChangesInput(n)) return;
    for (const Value* v : n->inputs()) {
      if (!IsTensor(v)) changed.insert(v);
    }
  };
  for (const auto& nodes : primary) {
    for (const Node* n : nodes) collect(n);
  }
  for (std::size_t i = 0; i < primary.size(); ++i) {
    const int here = static_cast<int>(i);
    std::unordered_set<const Node*> taken;
    std::function<void(const Node*)> visit = [&](const Node* node) {
      if (!taken.insert(node).second) return;
      for (const Value* v : Reads(node)) {
        const Node* producer = v->node();
        if (producer->kind() == prim::Constant || producer->kind() == prim::Param) continue;
        auto from = owner.find(producer);
        if (from == owner.end()) {
          if (changed.count(v)) {
            const int first = first_user.try_emplace(v, here).first->second;
            reach[first] = std::max(reach[first], here);
          }
          visit(producer);
        } else if (!IsTensor(v)) {
          reach[from->second] = std::max(reach[from->second], here);
        }
      }
    };
    for (const Node* n : primary[i]) visit(n);
  }
  std::vector<std::vector<Node*>> merged;
  int open_until = -1;
  for (std::size_t i = 0; i < primary.size(); ++i) {
    if (static_cast<int>(i) > open_until) merged.emplace_back();
    merged.back().insert(merged.back().end(), primary[i].begin(), primary[i].end());
    open_until = std::max(open_until, reach[i]);
  }
  return merged;
}

}  // namespace

void BuildOperatorGraph(std::vector<std::vector<Node*>> primary, LoweredModel* model) {
  primary = MergeAroundNonTensors(std::move(primary));
  OperatorGraph& graph = model->operator_graph;
  std::unordered_map<const Node*, int> owner;  // primary node -> operator
  for (std::size_t i = 0; i < primary.size(); ++i) {
    for (Node* n : primary[i]) owner[n] = static_cast<int>(i);
  }
  std::unordered_map<const Value*, int> weight_of, tensor_of;
  for (std::size_t i = 0; i < model->weights.size(); ++i) {
    const LoweredWeight& w = model->weights[i];
    weight_of[w.value] = static_cast<int>(i);
    Parameter p;
    p.name = w.names.front();
    p.shape = w.shape;
    p.elements = ElementCount(w.shape, p.name);
    p.trainable = w.trainable;
    graph.parameters.push_back(std::move(p));
  }
  auto add_tensor = [&](Value* v, std::string name) {
    auto [entry, is_new] = tensor_of.emplace(v, static_cast<int>(graph.tensors.size()));
    if (is_new) {
      Tensor t;
      t.name = std::move(name);
      graph.tensors.push_back(std::move(t));
      model->tensors.push_back(v);
    }
    return entry->second;
  };
  for (std::size_t i = 0; i < model->inputs.size(); ++i)
    graph.inputs.push_back(add_tensor(model->inputs[i], "input" + std::to_string(i)));

  std::vector<const Value*> mutated_values;
  for (std::size_t i = 0; i < primary.size(); ++i) {
    LoweredOperator lowered;
    Operator op;
    std::unordered_set<const Node*> taken;
    std::vector<std::string> kinds;
    std::function<void(Node*)> take = [&](Node* node) {
      if (!taken.insert(node).second) return;
      for (Value* v : Reads(node)) {
        if (auto w = weight_of.find(v); w != weight_of.end()) {
          if (std::find(op.parameters.begin(), op.parameters.end(), w->second) == op.parameters.end())
            op.parameters.push_back(w->second);
          continue;
        }
        if (v->node()->kind() == prim::Constant) continue;
        auto from = owner.find(v->node());
        if (from != owner.end() && from->second == static_cast<int>(i)) continue;  // inside this operator
        const bool from_operator = from != owner.end() || v->node()->kind() == prim::Param;
        if (from_operator && IsTensor(v)) {
          op.inputs.push_back(add_tensor(v, v->debugName()));
        } else {
          take(v->node());  // auxiliary: recomputed here
        }
      }
      lowered.nodes.push_back(node);
    };
    for (Node* node : primary[i]) {
      take(node);
      if (kinds.empty() || kinds.back() != node->kind().toQualString()) kinds.push_back(node->kind().toQualString());
      for (Value* v : node->outputs()) {
        bool leaves = false;
        for (const auto& use : v->uses()) {
          auto to = owner.find(use.user);
          leaves |= to == owner.end() || to->second != static_cast<int>(i);
        }
        if (IsTensor(v) && leaves) op.outputs.push_back(add_tensor(v, v->debugName()));
      }
      const auto* schema = node->maybeSchema();
      if (schema && schema->is_mutable()) {
        for (std::size_t a = 0; a < schema->arguments().size() && a < node->inputs().size(); ++a) {
          const auto* alias = schema->arguments()[a].alias_info();
          if (alias && alias->isWrite()) mutated_values.push_back(node->inputs()[a]);
        }
      }
    }
    op.kind = kinds.size() > 4 ? fmt::format("{}+{} more+{}", kinds.front(), kinds.size() - 2, kinds.back())
                               : fmt::format("{}", fmt::join(kinds, "+"));
    op.name = op.kind + "_" + std::to_string(i);
    graph.operators.push_back(std::move(op));
    model->operators.push_back(std::move(lowered));
  }
  model->tensor_mutated.assign(graph.tensors.size(), false);
  for (const Value* value : mutated_values) {
    auto t = tensor_of.find(value);
    if (t == tensor_of.end()) continue;
    model->tensor_mutated[t->second] = true;
  }
  for (Value* v : model->outputs) {
    auto t = tensor_of.find(v);
    if (t != tensor_of.end()) graph.outputs.push_back(t->second);
  }
  graph.Finalize();
  // Users of a tensor that is changed in place stay with its producer.
  std::vector<int> parent(primary.size());
  std::iota(parent.begin(), parent.end(), 0);
  auto find = [&](int x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
  };
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!model->tensor_mutated[t]) continue;
    for (int reader : graph.tensors[t].readers) {
      parent[find(reader)] = find(graph.tensors[t].readers.front());
      if (graph.tensors[t].producer >= 0) parent[find(reader)] = find(graph.tensors[t].producer);
    }
  }
  std::map<int, std::vector<int>> groups;
  for (std::size_t i = 0; i < primary.size(); ++i) groups[find(static_cast<int>(i))].push_back(static_cast<int>(i));
  for (auto& [root, members] : groups) {
    if (members.size() > 1) graph.together.push_back(members);
  }
}

std::vector<std::int64_t> TorchScriptInputShape(const std::string& content, const std::string& path, const LoweredModel& model) {
  torch::jit::ExtraFilesMap extra = {{"weir.json", ""}};
  std::istringstream stream(content);
  torch::jit::load(stream, c10::Device(c10::kCPU), extra);
  if (!extra["weir.json"].empty()) {
    const auto json = nlohmann::json::parse(extra["weir.json"], nullptr, false);
    if (!json.is_object() || !json.contains("input") || !json["input"].is_array()) {
      throw Invalid("{}: extra file weir.json must be {{\"input\": [C,H,W]}}", path);
    }
    return json["input"].get<std::vector<std::int64_t>>();
  }
  for (const Operator& op : model.operator_graph.operators) {
    for (int p : op.parameters) {
      const auto& shape = model.operator_graph.parameters[p].shape;
      if (shape.size() == 4 && shape[1] == 3) return {3, 224, 224};
      if (shape.size() == 4 && shape[1] == 1) return {1, 28, 28};
      if (shape.size() == 2) return {shape[1]};
      break;
    }
    if (!op.parameters.empty()) break;
  }
  throw Invalid("{}: the input shape isn't known: give it with --input CxHxW", path);
}

}  // namespace weir::partitioner
