#include "worker/runtime/snapshot.h"

#include <ATen/Functions.h>
#include <zstd.h>

#include <cstring>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"

namespace weir::worker {
namespace {

constexpr char kMagic[] = "WEIRSNAP";
constexpr std::size_t kMagicBytes = 8;
constexpr unsigned long long kMostBytes = 1ull << 40;

bool KnownType(int type) {
  return type >= 0 && type < static_cast<int>(at::ScalarType::NumOptions) && type != static_cast<int>(at::ScalarType::Undefined);
}

}  // namespace

std::string EncodeSnapshot(const Snapshot& snapshot) {
  wire::SnapshotHeader header = snapshot.header;
  header.set_version(1);
  header.clear_tensors();
  std::vector<at::Tensor> tensors;
  const auto add = [&](int id, const Snapshot::WeightState& weight, const std::string& state, const at::Tensor& tensor) {
    wire::SnapshotTensor* t = header.add_tensors();
    t->set_weight(id);
    t->set_name(weight.name);
    t->set_state(state);
    tensors.push_back(tensor.detach().cpu().contiguous());
    t->set_dtype(static_cast<int>(tensor.scalar_type()));
    for (std::int64_t d : tensor.sizes()) t->add_sizes(d);
    if (!state.empty()) t->set_step(weight.step);
  };
  for (const auto& [id, weight] : snapshot.weights) {
    add(id, weight, "", weight.value);
    for (const auto& [state, tensor] : weight.optimizer) add(id, weight, state, tensor);
  }
  const std::string head = header.SerializeAsString();
  std::string raw;
  std::size_t bytes = 4 + head.size();
  for (const at::Tensor& t : tensors) bytes += t.nbytes();
  raw.reserve(bytes);
  const auto length = static_cast<std::uint32_t>(head.size());
  raw.append(reinterpret_cast<const char*>(&length), 4);
  raw += head;
  for (const at::Tensor& t : tensors) raw.append(static_cast<const char*>(t.data_ptr()), t.nbytes());
  std::string out(kMagicBytes + ZSTD_compressBound(raw.size()), '\0');
  std::memcpy(out.data(), kMagic, kMagicBytes);
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);  // weights hardly shrink: speed counts
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const std::size_t size = ZSTD_compress2(context, out.data() + kMagicBytes, out.size() - kMagicBytes, raw.data(), raw.size());
  ZSTD_freeCCtx(context);
  WEIR_CHECK(!ZSTD_isError(size)) << ZSTD_getErrorName(size);
  out.resize(kMagicBytes + size);
  return out;
}

void ReadSnapshot(const std::string& path, const std::string& fingerprint, std::int64_t iteration, Snapshot* snapshot) {
  const auto require = [&](bool good, const std::string& reason) {
    if (!good) throw DamagedSnapshot{path, reason};
  };
  std::string file;
  try {
    file = ReadFile(path, std::size_t{1} << 40);
  } catch (const Error& e) {
    throw DamagedSnapshot{path, e.what()};
  }
  require(file.size() > kMagicBytes && std::memcmp(file.data(), kMagic, kMagicBytes) == 0, "not a checkpoint file");
  const unsigned long long size = ZSTD_getFrameContentSize(file.data() + kMagicBytes, file.size() - kMagicBytes);
  // A zstd frame can claim any size; one of at most 128 KiB a block of 3 bytes is all that the file can hold.
  require(size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN && size >= 4 && size < kMostBytes &&
              size / (128 << 10) <= file.size(),
          "its size can't be read");
  std::string raw(size, '\0');
  const std::size_t got = ZSTD_decompress(raw.data(), raw.size(), file.data() + kMagicBytes, file.size() - kMagicBytes);
  require(!ZSTD_isError(got) && got == size, ZSTD_isError(got) ? ZSTD_getErrorName(got) : "shorter than it says");
  std::uint32_t length = 0;
  std::memcpy(&length, raw.data(), 4);
  wire::SnapshotHeader header;
  require(length <= raw.size() - 4 && header.ParseFromArray(raw.data() + 4, static_cast<int>(length)),
          "its header can't be read");
  require(header.version() == 1, fmt::format("version {}, expected 1", header.version()));
  require(header.fingerprint() == fingerprint, "of another model");
  require(header.iteration() == iteration, fmt::format("of iteration {}, expected {}", header.iteration(), iteration));
  std::size_t at = 4 + length;
  for (const wire::SnapshotTensor& t : header.tensors()) {
    require(KnownType(t.dtype()), "unknown type of tensor");
    const auto type = static_cast<at::ScalarType>(t.dtype());
    std::uint64_t bytes = c10::elementSize(type);
    for (std::int64_t d : t.sizes())
      require(d >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes), "sizes");
    require(bytes <= raw.size() - at, "a tensor is cut off");
    at::Tensor tensor = at::empty(std::vector<std::int64_t>(t.sizes().begin(), t.sizes().end()), at::TensorOptions(type));
    std::memcpy(tensor.data_ptr(), raw.data() + at, bytes);
    at += bytes;
    Snapshot::WeightState& weight = snapshot->weights[t.weight()];
    weight.name = t.name();
    if (t.state().empty()) {
      weight.value = tensor;
    } else {
      weight.optimizer[t.state()] = tensor;
      weight.step = t.step();
    }
  }
  require(at == raw.size(), "bytes follow the last tensor");
  if (header.has_history() || snapshot->header.fingerprint().empty()) snapshot->header = header;
  snapshot->header.clear_tensors();
}

}  // namespace weir::worker
