#include "worker/runtime/export_model.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cctype>
#include <set>
#include <sstream>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir::worker {

using partitioner::LoweredModel;

namespace {

std::string Save(torch::jit::Module& module, const std::vector<std::int64_t>& sample_shape) {
  torch::jit::ExtraFilesMap extra = {{"weir.json", fmt::format("{{\"input\": [{}]}}", fmt::join(sample_shape, ", "))}};
  std::ostringstream out;
  module.save(out, extra);
  return out.str();
}

// The tensor attribute at a dotted path.
at::Tensor Attribute(torch::jit::Module module, const std::string& path) {
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    module = module.attr(path.substr(begin, dot - begin)).toModule();
    begin = dot + 1;
  }
  return module.attr(path.substr(begin)).toTensor();
}

// The tensor attribute at a dotted path, replaced.
void SetAttribute(torch::jit::Module module, const std::string& path, const at::Tensor& tensor) {
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    module = module.attr(path.substr(begin, dot - begin)).toModule();
    begin = dot + 1;
  }
  module.setattr(path.substr(begin), tensor);
}

std::string FromTorchScript(const LoweredModel& model, const std::string& content, const std::vector<at::Tensor>& weights,
                            const std::vector<std::int64_t>& sample_shape) {
  std::istringstream stream(content);
  torch::jit::Module module = torch::jit::load(stream, c10::Device(c10::kCPU));
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    at::Tensor tensor = weights[i].detach().clone();
    tensor.requires_grad_(model.weights[i].trainable);
    for (const std::string& path : model.weights[i].names) {
      // Also where a list holds it (an LSTM's flat weights): in its memory.
      torch::NoGradGuard no_grad;
      at::Tensor old = Attribute(module, path);
      if (old.defined() && old.sizes() == tensor.sizes() && old.is_non_overlapping_and_dense()) old.copy_(tensor);
      SetAttribute(module, path, tensor);
    }
  }
  module.eval();
  return Save(module, sample_shape);
}

std::string AttributeName(const std::string& name, std::set<std::string>* used) {
  std::string result;
  for (char c : name) result.push_back(std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_');
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) || result == "training" || result == "forward")
    result = "w_" + result;
  while (!used->insert(result).second) result += "_";
  return result;
}

std::string FromOnnx(const LoweredModel& model, const std::vector<at::Tensor>& weights,
                     const std::vector<std::int64_t>& sample_shape) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  const c10::QualifiedName class_name("__torch__.WeirModel");
  auto type = c10::ClassType::create(class_name, unit, /*is_module=*/true);
  unit->register_type(type);
  std::set<std::string> used;
  std::vector<std::string> names;
  type->addAttribute("training", c10::BoolType::get());
  for (const auto& w : model.weights) {
    names.push_back(AttributeName(w.names.front(), &used));
    type->addAttribute(names.back(), c10::TensorType::get(), /*is_parameter=*/w.trainable, /*is_buffer=*/!w.trainable);
  }
  torch::jit::Module module(c10::ivalue::Object::create(c10::StrongTypePtr(unit, type), type->numAttributes()));
  module._ivalue()->setAttr("training", false);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    at::Tensor tensor = weights[i].detach().clone();
    tensor.requires_grad_(model.weights[i].trainable);
    module._ivalue()->setAttr(names[i], tensor);
  }
  // The graph with weights read from `self`, dropout and BatchNorm in evaluation form.
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::Value* self = graph->addInput("self");
  self->setType(type);
  std::unordered_map<const torch::jit::Value*, torch::jit::Value*> map;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    map[model.inputs[i]] = graph->addInput("x" + std::to_string(i));
    map[model.inputs[i]]->setType(c10::TensorType::get());
  }
  torch::jit::WithInsertPoint at_end(graph->return_node());
  for (std::size_t i = 0; i < model.weights.size(); ++i) map[model.weights[i].value] = graph->insertGetAttr(self, names[i]);
  torch::jit::Value* no = graph->insertConstant(false);
  for (torch::jit::Node* node : model.graph->nodes()) {
    torch::jit::Node* clone = graph->insertNode(graph->createClone(node, [&](torch::jit::Value* v) { return map.at(v); }));
    for (std::size_t o = 0; o < node->outputs().size(); ++o) map[node->outputs()[o]] = clone->outputs()[o];
    if (const auto* schema = clone->maybeSchema()) {
      for (std::size_t a = 0; a < schema->arguments().size() && a < clone->inputs().size(); ++a) {
        const std::string& name = schema->arguments()[a].name();
        if (name == "train" || name == "training") clone->replaceInput(a, no);
      }
    }
  }
  graph->registerOutput(map.at(model.outputs.front()));
  torch::jit::EliminateDeadCode(graph);
  auto* function = unit->create_function(c10::QualifiedName(class_name, "forward"), graph);
  type->addMethod(function);
  return Save(module, sample_shape);
}

}  // namespace

std::string ExportTorchScript(const LoweredModel& model, const std::string& content, const std::vector<at::Tensor>& weights,
                              const std::vector<std::int64_t>& sample_shape) {
  WEIR_CHECK_EQ(weights.size(), model.weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) WEIR_CHECK(weights[i].defined()) << model.weights[i].names.front();
  return model.operator_graph.format == "torchscript" ? FromTorchScript(model, content, weights, sample_shape)
                                                      : FromOnnx(model, weights, sample_shape);
}

}  // namespace weir::worker
