// Which inputs of which operators hold weights. Decides, with where a tensor comes from, between parameter, buffer and constant.
#ifndef WEIR_PARTITIONER_ONNX_SLOTS_H_
#define WEIR_PARTITIONER_ONNX_SLOTS_H_

#include <cstddef>
#include <string>

namespace weir::partitioner {

enum class Slot {
  kWeight,   // holds weights by definition: Conv 1, Gemm 1, LayerNormalization 1, ...
  kBuffer,   // BatchNorm's running mean and variance
  kSetting,  // shapes, axes, limits, scales: never trained
  kData,     // anything else; an initialiser that comes here is trained (Add as a bias), a Constant node's output isn't
};

Slot SlotOf(const std::string& op_type, std::size_t input);

// Only moves or converts elements of input 0: a weight read through it is still a weight.
bool IsMovement(const std::string& op_type);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_SLOTS_H_
