// An ONNX model, parsed and normalised at one batch size: what the operator graph is made from and what the runtime lowers.
//
// Normalised means: nodes in topological order, dead ones dropped; Constant, ConstantOfShape, Identity of weights and whatever
// computes constants (shape arithmetic) folded away, so every node left does work at run time; shapes known; a batch that the
// file had fixed in an input (and in Reshape or Expand constants) replaced by the requested one; each value has a role.
// Operator i of ToOperatorGraph() is nodes[i].
#ifndef WEIR_PARTITIONER_ONNX_ONNX_MODEL_H_
#define WEIR_PARTITIONER_ONNX_ONNX_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/graph/operator_graph.h"
#include "partitioner/load_options.h"

namespace weir::partitioner {

// The elements of a tensor, row-major, little-endian as in the file.
struct OnnxData {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::string bytes;           // elements x DTypeSize(dtype); empty when `fill` is set
  std::optional<double> fill;  // every element has this value (ConstantOfShape): never spelt out, may be gigabytes

  std::int64_t elements() const;
  // All elements converted. REQUIRES: an integer or bool (Ints) or any real (Reals) dtype, at most 2^31 elements.
  std::vector<std::int64_t> Ints() const;
  std::vector<double> Reals() const;
};

struct OnnxAttribute {
  enum class Kind { kInt, kFloat, kString, kInts, kFloats, kStrings, kTensor, kOther };  // kOther: graphs, sparse tensors
  Kind kind = Kind::kOther;
  std::int64_t i = 0;
  float f = 0;
  std::string s;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  std::shared_ptr<const OnnxData> tensor;
};

enum class OnnxRole {
  kInput,       // data: fed anew for each batch
  kActivation,  // computed by a node
  kParameter,   // trained: a float tensor that feeds a weight slot
  kBuffer,      // BatchNorm running mean or variance
  kConstant,    // fixed; always has data
};

struct OnnxValue {
  std::string name;  // unique
  OnnxRole role = OnnxRole::kActivation;
  DType dtype = DType::kFloat32;
  std::optional<std::vector<std::int64_t>> shape;  // nullopt: behind an operator without a rule
  // Of kConstant, and of kParameter and kBuffer where the file carries weights. Null: weights were left out of the file (a graph
  // input without initialiser). `data->fill` set: constant weights (ConstantOfShape), which can't be trained as they are.
  std::shared_ptr<const OnnxData> data;
  int producer = -1;          // node index; -1 unless kActivation
  int batch_axis = -1;        // the one dimension that goes with the batch; -1: none, several, or not asked for
  bool has_gradient = false;  // float, and downstream of a parameter; true for parameters themselves
};

struct OnnxNode {
  std::string name;     // unique; the file's where it has one
  std::string op_type;  // "Conv"
  std::string domain;   // "" for the ONNX operators
  int opset = 0;        // version of its domain that the file imports: decides between attribute and input forms
  std::map<std::string, OnnxAttribute> attributes;
  // Value ids; -1: an optional input left out, or an output that nobody reads (BatchNorm's running statistics and Dropout's mask
  // are usually -1). Trailing -1 are kept.
  std::vector<int> inputs;
  std::vector<int> outputs;
  bool opaque = false;     // no rule: output shapes unknown, counted as free
  bool tied_copy = false;  // an Identity put in for a weight that is read far apart: its output may cross a cut

  const OnnxAttribute* Find(std::string_view attribute) const;  // null where absent
  std::int64_t Int(std::string_view attribute, std::int64_t otherwise) const;
  float Float(std::string_view attribute, float otherwise) const;
  std::string String(std::string_view attribute, std::string_view otherwise) const;
  std::vector<std::int64_t> Ints(std::string_view attribute, std::vector<std::int64_t> otherwise = {}) const;
};

struct OnnxModel {
  std::string name;        // the file's name without folder
  std::int64_t batch = 1;  // bound
  int ir_version = 0;
  int opset = 0;  // of the default domain
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> values;
  std::vector<int> inputs;            // value ids of the data inputs, in file order
  std::vector<int> outputs;           // value ids of the outputs, in file order (BatchNorm's running statistics excluded)
  std::vector<std::string> warnings;  // one line each

  // Value id, or -1.
  int FindValue(std::string_view value_name) const;
};

// Where OnnxModel's values went in the operator graph. -1: not there.
struct OnnxGraphMap {
  std::vector<int> tensor_of_value;     // by value id: inputs and activations
  std::vector<int> parameter_of_value;  // by value id: parameters and buffers
  std::vector<int> value_of_tensor;     // by tensor id
  std::vector<int> value_of_parameter;  // by parameter id
};

// Reads, checks, binds the batch, folds, infers shapes. External data is read from beside the file only.
// Throws Error(kInvalid) in one line starting with `path`.
OnnxModel LoadOnnx(const std::string& path, const LoadOptions& options = {});
// The same from memory; `name` stands for the path in messages. External data is refused.
OnnxModel ParseOnnx(std::string_view bytes, const std::string& name, const LoadOptions& options = {});

// Operator i = model.nodes[i], with costs. `map`, if given, is overwritten. Finalized.
OperatorGraph ToOperatorGraph(const OnnxModel& model, OnnxGraphMap* map = nullptr);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_ONNX_MODEL_H_
