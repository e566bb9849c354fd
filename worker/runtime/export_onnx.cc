#include "worker/runtime/export_onnx.h"

#include <algorithm>
#include <map>

#include "partitioner/onnx/weir_onnx.pb.h"

namespace weir::worker {
namespace {

// The type numbers of TensorProto.DataType.
int OnnxType(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kLong:
      return 7;
    case at::kHalf:
      return 10;
    case at::kDouble:
      return 11;
    case at::kBFloat16:
      return 16;
    default:
      return 0;
  }
}

bool Fill(const at::Tensor& weight, const std::string& name, weir_onnx::TensorProto* proto) {
  const at::Tensor dense = weight.detach().cpu().contiguous();
  const int type = OnnxType(dense.scalar_type());
  if (type == 0) return false;
  proto->Clear();
  proto->set_name(name);
  proto->set_data_type(type);
  for (std::int64_t d : dense.sizes()) proto->add_dims(d);
  proto->set_raw_data(dense.data_ptr(), dense.nbytes());
  return true;
}

}  // namespace

std::string ExportOnnx(const partitioner::LoweredModel& model, const std::string& content,
                       const std::vector<at::Tensor>& weights) {
  weir_onnx::ModelProto proto;
  if (!proto.ParseFromString(content)) return "";
  weir_onnx::GraphProto& graph = *proto.mutable_graph();
  std::map<std::string, int> initializer, input, node;
  for (int i = 0; i < graph.initializer_size(); ++i) initializer[graph.initializer(i).name()] = i;
  for (int i = 0; i < graph.input_size(); ++i) input[graph.input(i).name()] = i;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (graph.node(i).output_size() == 1) node[graph.node(i).output(0)] = i;
  }
  std::vector<int> replaced;
  for (std::size_t w = 0; w < model.weights.size(); ++w) {
    if (!weights[w].defined()) return "";
    const std::string& name = model.weights[w].names.front();
    if (const auto found = initializer.find(name); found != initializer.end()) {
      if (!Fill(weights[w], name, graph.mutable_initializer(found->second))) return "";
      continue;
    }
    const auto made = node.find(name);
    if (!input.count(name) && made == node.end()) return "";
    if (!Fill(weights[w], name, graph.add_initializer())) return "";
    if (made != node.end()) replaced.push_back(made->second);
  }
  std::sort(replaced.rbegin(), replaced.rend());
  for (int i : replaced) graph.mutable_node()->DeleteSubrange(i, 1);
  return proto.SerializeAsString();
}

}  // namespace weir::worker
