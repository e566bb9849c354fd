#include "partitioner/onnx/slots.h"

namespace weir::partitioner {

Slot SlotOf(const std::string& op, std::size_t i) {
  if (op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op == "LayerNormalization" || op == "InstanceNormalization" ||
      op == "GroupNormalization" || op == "RMSNormalization") {
    return i == 0 ? Slot::kData : Slot::kWeight;
  }
  if (op == "BatchNormalization") return i == 0 ? Slot::kData : i <= 2 ? Slot::kWeight : Slot::kBuffer;
  if (op == "MatMul" || op == "PRelu") return i == 1 ? Slot::kWeight : Slot::kData;
  if (op == "LSTM" || op == "GRU" || op == "RNN")
    return i >= 1 && i <= 3 ? Slot::kWeight : i == 7 ? Slot::kWeight : i == 4 ? Slot::kSetting : Slot::kData;
  if (op == "Gather") return i == 0 ? Slot::kWeight : Slot::kSetting;
  if (op == "Pow" || op == "Reshape" || op == "Expand" || op == "Squeeze" || op == "Unsqueeze" || op == "Slice" || op == "Clip" ||
      op == "Dropout" || op == "Pad" || op == "Split" || op == "Resize" || op == "Upsample" || op == "Tile" || op == "TopK" ||
      op == "CumSum" || op.rfind("Reduce", 0) == 0) {
    return i == 0 ? Slot::kData : Slot::kSetting;
  }
  if (op == "GatherElements" || op == "GatherND" || op == "Trilu" || op == "ReverseSequence")
    return i == 0 ? Slot::kData : Slot::kSetting;
  if (op.rfind("Scatter", 0) == 0) return i == 1 ? Slot::kSetting : Slot::kData;
  if (op == "OneHot") return Slot::kSetting;
  if (op == "Range" || op == "ConstantOfShape" || op == "Equal" || op == "Greater" || op == "Less") return Slot::kSetting;
  return Slot::kData;
}

bool IsMovement(const std::string& op) {
  return op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten" || op == "Transpose" ||
         op == "Cast" || op == "Expand";
}

}  // namespace weir::partitioner
