// The operator graph of one model at one batch size: what every front end produces and every cut works on.
// Operators are in topological order. A tensor is a hyperedge: one producer, any number of readers. Parameters and constants
// are no tensors here: they never cross a cut. All counts are checked 64-bit integers.
// 1 MAC (multiply-add) = 2 FLOP.
#ifndef WEIR_PARTITIONER_GRAPH_OPERATOR_GRAPH_H_
#define WEIR_PARTITIONER_GRAPH_OPERATOR_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::partitioner {

enum class DType { kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool, kOther };
std::string_view DTypeName(DType type);
std::int64_t DTypeSize(DType type);  // bytes an element; kOther counts 1

// An activation or a model input.
struct Tensor {
  std::string name;
  std::optional<std::vector<std::int64_t>> shape;  // nullopt: unknown
  DType dtype = DType::kFloat32;
  std::int64_t bytes = 0;     // of the whole tensor at this batch; 0 when the shape is unknown
  bool has_gradient = false;  // a gradient of the same size flows back when this tensor is cut in training
  int producer = -1;          // operator index; -1: model input
  std::vector<int> readers;   // operator indices, ascending, each once
  bool is_output = false;     // of the model
};

// A weight or a buffer (BatchNorm statistics).
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;
  std::int64_t elements = 0;
  bool trainable = true;     // false: a buffer
  std::vector<int> readers;  // operator indices, ascending, each once; more than one: tied
};

struct Operator {
  std::string name;                // unique in the graph
  std::string kind;                // "Conv" or "aten::conv2d"
  std::vector<int> inputs;         // tensor ids, in order; a tensor may appear twice
  std::vector<int> outputs;        // tensor ids
  std::vector<int> parameters;     // parameter ids, in order
  std::int64_t macs = 0;           // forward, of convolutions and matrix products
  std::int64_t forward_flop = 0;   // 2·macs plus the elementwise work
  std::int64_t backward_flop = 0;  // gradients of inputs and of weights
  std::int64_t saved_bytes = 0;    // activations kept for the backward pass
  bool opaque = false;             // no rule for this operator: counted as free, named in a warning
};

struct OperatorGraph {
  std::string name;       // usually the file's name
  std::string format;     // "onnx", "torchscript" or "profile"
  bool measured = false;  // forward_flop and backward_flop are nanoseconds on the device of a profile
  std::int64_t batch = 1;
  std::vector<Operator> operators;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
  std::vector<int> inputs;                 // tensor ids of the model's inputs
  std::vector<int> outputs;                // tensor ids of the model's outputs
  std::vector<std::vector<int>> together;  // operators that must stay in one part (tied parameters, in-place views)
  std::vector<std::string> warnings;       // one line each

  std::int64_t TotalMacs() const;
  std::int64_t TotalForwardFlop() const;
  std::int64_t TotalBackwardFlop() const;
  std::int64_t TrainableElements() const;  // parameters, buffers excluded
  std::int64_t BufferElements() const;

  // Fills producer/readers from the operators' lists, adds tied parameters' readers to `together`, and aborts (WEIR_CHECK)
  // where an index is out of range, an operator reads a later one's output, or a tensor has two producers.
  void Finalize();
  // A stable text form, one line an operator: for golden tests, and hashed by Fingerprint().
  std::string ToText() const;
  // ContentHash of ToText(): two processes that read the same file agree on it.
  std::string Fingerprint() const;
};

// Bytes of the operator's inputs, outputs and weights: what its forward pass reads and writes.
std::int64_t TouchedBytes(const OperatorGraph& graph, const Operator& op);

// a·b and a+b, or Error(kInvalid) "<what>: count overflows 64 bits".
std::int64_t CheckedMul(std::int64_t a, std::int64_t b, std::string_view what);
std::int64_t CheckedAdd(std::int64_t a, std::int64_t b, std::string_view what);
// Product of the dimensions. Throws Error(kInvalid) on overflow or a negative dimension.
std::int64_t ElementCount(const std::vector<std::int64_t>& shape, std::string_view what);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_GRAPH_OPERATOR_GRAPH_H_
