// Tiny ONNX models built in code, for tests: serialised by the same schema that the front end parses.
#ifndef WEIR_TESTS_PARTITIONER_ONNX_ONNX_BUILDER_H_
#define WEIR_TESTS_PARTITIONER_ONNX_ONNX_BUILDER_H_

#include <string>
#include <vector>

#include "partitioner/onnx/weir_onnx.pb.h"

namespace weir::partitioner {

class OnnxBuilder {
 public:
  using Ints = std::vector<std::int64_t>;

  explicit OnnxBuilder(int opset = 17) {
    model_.set_ir_version(8);
    auto* import = model_.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    model_.mutable_graph()->set_name("test");
  }

  // A dimension of -1 is the symbol "N". `type`: ONNX's code, 1 = float, 7 = int64.
  OnnxBuilder& Input(const std::string& name, const Ints& shape, int type = 1) {
    auto* input = model_.mutable_graph()->add_input();
    input->set_name(name);
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (auto d : shape) {
      auto* dim = tensor->mutable_shape()->add_dim();
      d < 0 ? dim->set_dim_param("N") : dim->set_dim_value(d);
    }
    return *this;
  }
  OnnxBuilder& Output(const std::string& name) {
    model_.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  // A float initialiser of ones.
  OnnxBuilder& Weight(const std::string& name, const Ints& shape) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(1);
    std::int64_t count = 1;
    for (auto d : shape) {
      tensor->add_dims(d);
      count *= d;
    }
    for (std::int64_t i = 0; i < count; ++i) tensor->add_float_data(1);
    return *this;
  }
  OnnxBuilder& IntConstant(const std::string& name, const Ints& values) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(7);
    tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (auto v : values) tensor->add_int64_data(v);
    return *this;
  }
  OnnxBuilder& Scalar(const std::string& name, float value) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(1);
    tensor->add_float_data(value);
    return *this;
  }
  // Adds a node; attributes by the Set functions below apply to the last one.
  OnnxBuilder& Node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::string& domain = "") {
    node_ = model_.mutable_graph()->add_node();
    node_->set_op_type(op);
    node_->set_domain(domain);
    for (const auto& i : inputs) node_->add_input(i);
    for (const auto& o : outputs) node_->add_output(o);
    return *this;
  }
  OnnxBuilder& Set(const std::string& name, std::int64_t value) {
    auto* a = node_->add_attribute();
    a->set_name(name);
    a->set_type(2);
    a->set_i(value);
    return *this;
  }
  OnnxBuilder& Set(const std::string& name, const Ints& values) {
    auto* a = node_->add_attribute();
    a->set_name(name);
    a->set_type(7);
    for (auto v : values) a->add_ints(v);
    return *this;
  }
  OnnxBuilder& Set(const std::string& name, const std::string& value) {
    auto* a = node_->add_attribute();
    a->set_name(name);
    a->set_type(3);
    a->set_s(value);
    return *this;
  }
  weir_onnx::ModelProto& proto() { return model_; }
  std::string Bytes() const { return model_.SerializeAsString(); }

 private:
  weir_onnx::ModelProto model_;
  weir_onnx::NodeProto* node_ = nullptr;
};

}  // namespace weir::partitioner

#endif  // WEIR_TESTS_PARTITIONER_ONNX_ONNX_BUILDER_H_
