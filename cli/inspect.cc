// weir inspect MODEL: what a model costs to train, before any cluster sees it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/verbs.h"
#include "env/core/units.h"
#include "partitioner/front_end.h"

namespace weir::cli {
namespace {

using partitioner::OperatorGraph;
using partitioner::Tensor;

struct Options {
  ModelOptions model;
  bool json = false, operators = false;
};

std::string ShapeText(const Tensor& tensor) {
  return tensor.shape ? fmt::format("[{}]", fmt::join(*tensor.shape, ",")) : std::string("?");
}

struct Totals {
  std::int64_t activation_bytes = 0, saved_bytes = 0, parameter_bytes = 0;
};

Totals Sum(const OperatorGraph& graph) {
  Totals totals;
  for (const auto& tensor : graph.tensors) totals.activation_bytes += tensor.producer >= 0 ? tensor.bytes : 0;
  for (const auto& op : graph.operators) totals.saved_bytes += op.saved_bytes;
  for (const auto& p : graph.parameters) totals.parameter_bytes += p.trainable ? p.elements * partitioner::DTypeSize(p.dtype) : 0;
  return totals;
}

nlohmann::ordered_json TensorJson(const Tensor& tensor) {
  nlohmann::ordered_json out = {{"name", tensor.name}, {"dtype", partitioner::DTypeName(tensor.dtype)}};
  out["shape"] = tensor.shape ? nlohmann::ordered_json(*tensor.shape) : nlohmann::ordered_json(nullptr);
  return out;
}

void PrintJson(const OperatorGraph& graph, bool operators) {
  const Totals totals = Sum(graph);
  nlohmann::ordered_json out = {{"schema_version", 1},
                                {"model", graph.name},
                                {"format", graph.format},
                                {"fingerprint", graph.Fingerprint()},
                                {"batch", graph.batch},
                                {"work_unit", graph.measured ? "ns" : "FLOP"},
                                {"operators", graph.operators.size()},
                                {"macs", graph.TotalMacs()},
                                {"gmacs", static_cast<double>(graph.TotalMacs()) / 1e9},
                                {"forward_flop", graph.TotalForwardFlop()},
                                {"backward_flop", graph.TotalBackwardFlop()},
                                {"parameters", graph.TrainableElements()},
                                {"parameter_bytes", totals.parameter_bytes},
                                {"buffers", graph.BufferElements()},
                                {"activation_bytes", totals.activation_bytes},
                                {"saved_bytes", totals.saved_bytes}};
  out["inputs"] = out["outputs"] = nlohmann::ordered_json::array();
  for (int t : graph.inputs) out["inputs"].push_back(TensorJson(graph.tensors[t]));
  for (int t : graph.outputs) out["outputs"].push_back(TensorJson(graph.tensors[t]));
  out["warnings"] = graph.warnings;
  if (operators) {
    out["operator_list"] = nlohmann::ordered_json::array();
    for (const auto& op : graph.operators) {
      nlohmann::ordered_json entry = {{"name", op.name},
                                      {"kind", op.kind},
                                      {"macs", op.macs},
                                      {"forward_flop", op.forward_flop},
                                      {"backward_flop", op.backward_flop},
                                      {"saved_bytes", op.saved_bytes},
                                      {"opaque", op.opaque}};
      entry["outputs"] = nlohmann::ordered_json::array();
      for (int t : op.outputs) entry["outputs"].push_back(TensorJson(graph.tensors[t]));
      out["operator_list"].push_back(std::move(entry));
    }
  }
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void PrintTable(const OperatorGraph& graph, bool operators) {
  const Totals totals = Sum(graph);
  auto row = [](const char* label, const std::string& value) { std::printf("%-12s %s\n", label, value.c_str()); };
  row("model", fmt::format("{} ({}, batch {})", graph.name, graph.format, graph.batch));
  row("operators", std::to_string(graph.operators.size()));
  if (graph.measured) {
    row("time",
        fmt::format("{:.3f} ms forward, {:.3f} ms backward (measured; no counts)",
                    static_cast<double>(graph.TotalForwardFlop()) / 1e6, static_cast<double>(graph.TotalBackwardFlop()) / 1e6));
  } else {
    row("MACs", fmt::format("{} ({:.4f} G)", graph.TotalMacs(), static_cast<double>(graph.TotalMacs()) / 1e9));
    row("FLOP",
        fmt::format("{} forward, {} backward (1 MAC = 2 FLOP)", FormatCount(static_cast<double>(graph.TotalForwardFlop())),
                    FormatCount(static_cast<double>(graph.TotalBackwardFlop()))));
  }
  row("parameters", fmt::format("{} ({})", graph.TrainableElements(), FormatBytes(static_cast<double>(totals.parameter_bytes))));
  row("buffers", std::to_string(graph.BufferElements()));
  row("activations", fmt::format("{}, {} kept for the backward pass", FormatBytes(static_cast<double>(totals.activation_bytes)),
                                 FormatBytes(static_cast<double>(totals.saved_bytes))));
  for (int t : graph.inputs) {
    const Tensor& tensor = graph.tensors[t];
    row("input", fmt::format("{} {}{}", tensor.name, partitioner::DTypeName(tensor.dtype), ShapeText(tensor)));
  }
  for (int t : graph.outputs) {
    const Tensor& tensor = graph.tensors[t];
    row("output", fmt::format("{} {}{}", tensor.name, partitioner::DTypeName(tensor.dtype), ShapeText(tensor)));
  }
  for (const std::string& warning : graph.warnings) row("warning", warning);
  if (!operators) return;
  std::printf("\n%5s %-22s %14s %14s %12s  %s\n", "#", "operator", "MACs", graph.measured ? "time fwd+bwd" : "FLOP fwd+bwd",
              "saved", "output, name");
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const auto& op = graph.operators[i];
    std::printf("%5zu %-22s %14lld %14s %12s  %s %s%s\n", i, op.kind.c_str(), static_cast<long long>(op.macs),
                (graph.measured ? fmt::format("{:.3f} ms", static_cast<double>(op.forward_flop + op.backward_flop) / 1e6)
                                : FormatCount(static_cast<double>(op.forward_flop + op.backward_flop)))
                    .c_str(),
                FormatBytes(static_cast<double>(op.saved_bytes)).c_str(),
                op.outputs.empty() ? "-" : ShapeText(graph.tensors[op.outputs[0]]).c_str(), op.name.c_str(),
                op.opaque ? " (opaque)" : "");
  }
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "Print what a model file holds and what training it costs");
  static Options options;
  options.model.AddTo(verb);
  verb->add_flag("--json", options.json, "Print JSON");
  verb->add_flag("--operators", options.operators, "List the operators");
  verb->callback([] {
    const OperatorGraph graph = partitioner::LoadModel(options.model.path, options.model.ToLoadOptions());
    options.json ? PrintJson(graph, options.operators) : PrintTable(graph, options.operators);
  });
}

}  // namespace weir::cli
