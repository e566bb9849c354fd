#include "worker/runtime/model_device.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/cuda.h>

#include <algorithm>

#include "env/core/error.h"

namespace weir::worker {
namespace {

void Move(torch::jit::Block* block, const at::Device& device) {
  for (torch::jit::Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) Move(inner, device);
    if (node->kind() != torch::jit::prim::Constant || !node->hasAttribute(torch::jit::attr::value)) continue;
    const auto kind = node->kindOf(torch::jit::attr::value);
    if (kind == torch::jit::AttributeKind::t) {
      node->t_(torch::jit::attr::value, node->t(torch::jit::attr::value).to(device));
    } else if (kind == torch::jit::AttributeKind::s && node->output()->type()->kind() == c10::TypeKind::DeviceObjType) {
      node->s_(torch::jit::attr::value, device.str());
    }
  }
}

}  // namespace

at::Device DeviceOf(const std::string& name) {
  try {
    const at::Device device(name);
    if (device.is_cpu()) return at::Device(at::kCPU);
    if (device.is_cuda() && torch::cuda::is_available() &&
        std::max<int>(device.index(), 0) < static_cast<int>(torch::cuda::device_count()))
      return at::Device(at::kCUDA, std::max<at::DeviceIndex>(device.index(), 0));
  } catch (const c10::Error&) {
  }
  throw Invalid("device '{}' isn't here, expected cpu{}", name,
                torch::cuda::is_available() ? fmt::format(" or cuda:0 to cuda:{}", torch::cuda::device_count() - 1) : "");
}

void MoveConstants(const partitioner::LoweredModel& model, const at::Device& device) {
  if (!device.is_cpu()) Move(model.graph->block(), device);
}

}  // namespace weir::worker
