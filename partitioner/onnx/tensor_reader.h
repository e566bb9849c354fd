// Elements of one TensorProto, wherever the file keeps them. Private to the ONNX front end.
#ifndef WEIR_PARTITIONER_ONNX_TENSOR_READER_H_
#define WEIR_PARTITIONER_ONNX_TENSOR_READER_H_

#include <memory>
#include <string>

#include "partitioner/onnx/onnx_model.h"

namespace weir_onnx {
class TensorProto;
}

namespace weir::partitioner {

DType DTypeOfCode(int onnx_data_type);

// Moves raw data out of `proto`. External data must lie in `folder`: no absolute path, no "..", no link that leads out.
// Throws Error(kInvalid) starting with `where`: an overflow of the dimensions, too few or too many elements.
std::shared_ptr<const OnnxData> DecodeTensor(weir_onnx::TensorProto& proto, const std::string& where, const std::string& folder);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_TENSOR_READER_H_
