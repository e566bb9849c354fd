#include "partitioner/torchscript/operator_runner.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "env/core/check.h"
#include "env/core/rng.h"
#include "partitioner/torchscript/dropout.h"

namespace weir::partitioner {
namespace {

using torch::jit::Graph;
using torch::jit::IValue;
using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;
namespace prim = torch::jit::prim;

std::mutex& GeneratorMutex() {
  static std::mutex mutex;
  return mutex;
}

// Index of the flag that tells train from evaluation mode, or -1.
int TrainFlag(const Node* node) {
  const auto* schema = node->maybeSchema();
  if (!schema) return -1;
  const auto& arguments = schema->arguments();
  for (std::size_t i = 0; i < arguments.size() && i < node->inputs().size(); ++i) {
    if (arguments[i].name() == "train" || arguments[i].name() == "training") return static_cast<int>(i);
  }
  return -1;
}

// Nodes that only the interpreter knows (If, Loop, ListUnpack, ...) run as a graph of their own.
std::function<void(Stack&)> WrapInGraph(const Node* node, const std::vector<Value*>& reads, Mode mode) {
  auto graph = std::make_shared<Graph>();
  std::unordered_map<const Value*, Value*> map;
  for (Value* v : reads) map[v] = graph->addInput()->copyMetadata(v);
  Node* clone = graph->createClone(const_cast<Node*>(node), [&](Value* v) { return map.at(v); });
  graph->appendNode(clone);
  for (Value* output : clone->outputs()) graph->registerOutput(output);
  if (mode == Mode::kEvaluate) {
    torch::jit::WithInsertPoint at_start(*graph->nodes().begin());
    Value* no = graph->insertConstant(false);
    std::vector<Node*> all = {clone};
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (int flag = TrainFlag(all[i]); flag >= 0) all[i]->replaceInput(flag, no);
      for (auto* block : all[i]->blocks()) all.insert(all.end(), block->nodes().begin(), block->nodes().end());
    }
  }
  auto code = std::make_shared<torch::jit::Code>(graph, "operator");
  return [code](Stack& stack) { torch::jit::InterpreterState(*code).run(stack); };
}

// Dropout of elements or of whole channels: has a mask of our own (dropout.h). Other random operators draw from LibTorch's
// generator.
bool HasOwnMask(const Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::dropout") ||
         node->kind() == c10::Symbol::fromQualString("aten::dropout_") ||
         node->kind() == c10::Symbol::fromQualString("aten::feature_dropout") ||
         node->kind() == c10::Symbol::fromQualString("aten::feature_dropout_");
}

// Runs dropout(input, p, train) in place of LibTorch's: stack in, stack out.
void Dropout(Stack& stack, std::uint64_t seed, bool in_place, bool channels) {
  const bool train = stack[2].toBool();
  const double p = stack[1].toDouble();
  const at::Tensor input = stack[0].toTensor();
  stack.clear();
  if (!train || p == 0 || input.numel() == 0) {
    stack.emplace_back(input);
    return;
  }
  std::vector<std::int64_t> shape = input.sizes().vec();
  if (channels) std::fill(shape.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(shape.size())), shape.end(), 1);
  const at::Tensor mask = DropoutMask(shape, p, seed, input.device()).to(input.scalar_type());
  stack.emplace_back(in_place ? at::Tensor(input).mul_(mask) : input * mask);
}

// Fixes what the default generator of every device that takes part draws next.
void SeedGenerators(const Stack& stack, std::uint64_t seed) {
  at::Generator cpu = at::globalContext().defaultGenerator(at::kCPU);
  cpu.set_current_seed(seed);
  for (const IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().device().is_cpu()) continue;
    at::Generator generator = at::globalContext().defaultGenerator(value.toTensor().device());
    generator.set_current_seed(seed);
    return;
  }
}

}  // namespace

bool DrawsRandomNumbers(const Node* node) {
  if (node->isNondeterministic()) return true;
  for (const auto* block : node->blocks()) {
    for (const Node* inner : block->nodes()) {
      if (DrawsRandomNumbers(inner)) return true;
    }
  }
  const std::string_view kind = node->kind().toUnqualString();
  return kind.find("dropout") != std::string_view::npos || kind.find("scaled_dot_product_attention") != std::string_view::npos;
}

bool DrawsFromGenerator(const Node* node) {
  return DrawsRandomNumbers(node) && !(node->maybeOperator() != nullptr && node->blocks().empty() && HasOwnMask(node));
}

std::vector<std::uint64_t> OperatorRunner::MaskSeeds(std::uint64_t seed) const {
  std::vector<std::uint64_t> seeds;
  std::uint64_t draw = 0;
  for (const Instruction& instruction : instructions_) {
    if (!instruction.random) continue;
    if (instruction.masked) seeds.push_back(Mix64(seed, draw));
    ++draw;
  }
  return seeds;
}

std::vector<Value*> Reads(const Node* node) {
  std::vector<Value*> reads;
  std::unordered_set<const Value*> seen;
  std::unordered_set<const Node*> inside;
  std::vector<const Node*> all = {node};
  for (std::size_t i = 0; i < all.size(); ++i) {
    inside.insert(all[i]);
    for (const auto* block : all[i]->blocks()) {
      inside.insert(block->param_node());
      for (const Node* n : block->nodes()) all.push_back(n);
    }
  }
  auto add = [&](const Value* v) {
    if (v->node() != node && inside.count(v->node())) return;
    if (seen.insert(v).second) reads.push_back(const_cast<Value*>(v));
  };
  for (const Node* n : all) {
    for (const Value* v : n->inputs()) add(v);
    for (const auto* block : n->blocks()) {
      for (const Value* v : block->outputs()) add(v);
    }
  }
  return reads;
}

OperatorRunner::OperatorRunner(const LoweredModel& model, int operator_index, Mode mode) {
  const Operator& op = model.operator_graph.operators.at(operator_index);
  const LoweredOperator& lowered = model.operators.at(operator_index);
  std::unordered_map<const Value*, int> slot;
  // Constants first, then inputs, parameters and locals.
  std::vector<const Value*> constant_values;
  auto collect = [&](const Value* v) {
    if (v->node()->kind() == prim::Constant && !slot.count(v)) {
      slot[v] = static_cast<int>(constants_.size());
      constants_.push_back(*torch::jit::toIValue(v));
    }
  };
  for (Node* node : lowered.nodes) {
    for (const Value* v : Reads(node)) collect(v);
  }
  const int false_slot = static_cast<int>(constants_.size());
  constants_.emplace_back(false);
  num_slots_ = static_cast<int>(constants_.size());
  for (int t : op.inputs) {  // a tensor that stands twice has two slots; readers use the first
    slot.emplace(model.tensors[t], num_slots_);
    ++num_slots_;
  }
  for (int p : op.parameters) slot[model.weights[p].value] = num_slots_++;
  for (Node* node : lowered.nodes) {
    Instruction instruction;
    const bool plain = node->maybeOperator() != nullptr && node->blocks().empty();
    const std::vector<Value*> reads = plain || node->kind() == prim::ListConstruct
                                          ? std::vector<Value*>(node->inputs().begin(), node->inputs().end())
                                          : Reads(node);
    for (const Value* v : reads) {
      WEIR_CHECK(slot.count(v)) << "operator" << op.name << "reads" << v->debugName();
      instruction.inputs.push_back(slot.at(v));
    }
    if (plain) {
      torch::jit::Operation operation = node->getOperation();
      instruction.run = [operation](Stack& stack) mutable { operation(stack); };
      if (int flag = TrainFlag(node); mode == Mode::kEvaluate && flag >= 0) instruction.inputs[flag] = false_slot;
    } else if (node->kind() == prim::ListConstruct) {
      const c10::TypePtr element = node->output()->type()->expectRef<c10::ListType>().getElementType();
      const std::size_t count = node->inputs().size();
      instruction.run = [element, count](Stack& stack) {
        c10::impl::GenericList list(element);
        list.reserve(count);
        for (std::size_t i = stack.size() - count; i < stack.size(); ++i) list.push_back(std::move(stack[i]));
        torch::jit::drop(stack, count);
        stack.emplace_back(std::move(list));
      };
    } else {
      instruction.run = WrapInGraph(node, reads, mode);
    }
    instruction.random = mode == Mode::kTrain && DrawsRandomNumbers(node);
    if (instruction.random && plain && HasOwnMask(node)) {
      const std::string_view kind = node->kind().toUnqualString();
      const bool in_place = kind.back() == '_', channels = kind.rfind("feature_", 0) == 0;
      instruction.masked = [in_place, channels](Stack& stack, std::uint64_t s) { Dropout(stack, s, in_place, channels); };
    }
    for (const Value* v : node->outputs()) {
      slot[v] = num_slots_;
      instruction.outputs.push_back(num_slots_++);
    }
    instructions_.push_back(std::move(instruction));
  }
  for (int t : op.outputs) output_slots_.push_back(slot.at(model.tensors[t]));
}

std::vector<at::Tensor> OperatorRunner::Run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& parameters,
                                            std::uint64_t seed) const {
  // Constants stay where they are: slot i of the rest is slots[i - constants].
  const int num_constants = static_cast<int>(constants_.size());
  std::vector<IValue> slots(num_slots_ - num_constants);
  std::size_t next = 0;
  for (const at::Tensor& t : inputs) slots[next++] = t;
  for (const at::Tensor& t : parameters) slots[next++] = t;
  Stack stack;
  std::uint64_t draw = 0;
  for (const Instruction& instruction : instructions_) {
    stack.clear();
    for (int s : instruction.inputs) stack.push_back(s < num_constants ? constants_[s] : slots[s - num_constants]);
    if (instruction.masked) {
      instruction.masked(stack, Mix64(seed, draw++));
    } else if (instruction.random) {
      std::lock_guard lock(GeneratorMutex());
      SeedGenerators(stack, Mix64(seed, draw++));
      instruction.run(stack);
    } else {
      instruction.run(stack);
    }
    WEIR_CHECK_EQ(stack.size(), instruction.outputs.size());
    for (std::size_t i = 0; i < stack.size(); ++i) slots[instruction.outputs[i] - num_constants] = std::move(stack[i]);
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(output_slots_.size());
  for (int s : output_slots_) outputs.push_back((s < num_constants ? constants_[s] : slots[s - num_constants]).toTensor());
  return outputs;
}

}  // namespace weir::partitioner
