#include "agent/policy/policy_file.h"

#include <cmath>
#include <cstring>

#include "agent/policy/network.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/mdp/observation.h"

namespace weir {
namespace {

constexpr std::string_view kMagic = "WEIRPOL\n";
constexpr std::size_t kHashBytes = 64;
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

template <typename T>
void Put(std::string* out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}
void PutString(std::string* out, std::string_view text) {
  Put(out, static_cast<std::uint32_t>(text.size()));
  out->append(text);
}

class Reader {
 public:
  Reader(std::string_view content, const std::string& source) : content_(content), source_(source) {}
  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, Bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string String() { return std::string(Bytes(Get<std::uint32_t>())); }
  std::string_view Bytes(std::size_t n) {
    if (content_.size() - at_ < n) {
      throw Invalid("{}: truncated policy file: expected {} more bytes at offset {}, found {}", source_, n, at_,
                    content_.size() - at_);
    }
    at_ += n;
    return content_.substr(at_ - n, n);
  }
  std::size_t left() const { return content_.size() - at_; }

 private:
  std::string_view content_;
  const std::string& source_;
  std::size_t at_ = 0;
};

std::string AllFeatureNames() {
  std::string text;
  for (const auto* names : {&GlobalFeatureNames(), &WorkerFeatureNames(), &JobFeatureNames(), &CandidateFeatureNames()}) {
    for (const std::string& name : *names) text += name + ' ';
    text += '\n';
  }
  return text;
}

}  // namespace

std::string EncodePolicy(const PolicyFile& policy) {
  std::string out(kMagic);
  Put(&out, kPolicyFormatVersion);
  for (int value : {kFeatureSchemaVersion, kGlobalFeatures, kWorkerFeatures, kJobFeatures, kCandidateFeatures,
                    policy.info.sizes.embed, policy.info.sizes.hidden, policy.info.sizes.head}) {
    Put(&out, static_cast<std::uint32_t>(value));
  }
  Put(&out, policy.info.seed);
  PutString(&out, AllFeatureNames());
  PutString(&out, policy.info.config);
  PutString(&out, policy.info.record);
  Put(&out, static_cast<std::uint64_t>(policy.weights.size()));
  out.append(reinterpret_cast<const char*>(policy.weights.data()), policy.weights.size() * sizeof(float));
  return out + ContentHash(out);
}

PolicyFile DecodePolicy(std::string_view content, const std::string& source) {
  Reader in(content, source);
  if (content.substr(0, kMagic.size()) != kMagic)
    throw Invalid("{}: not a policy file: expected it to start with WEIRPOL", source);
  in.Bytes(kMagic.size());
  const auto format = in.Get<std::uint32_t>();
  if (format != kPolicyFormatVersion) {
    throw Invalid("{}: policy format version must be {}, found {}", source, kPolicyFormatVersion, format);
  }
  if (in.left() < kHashBytes) throw Invalid("{}: truncated policy file: {} bytes", source, content.size());
  const std::string_view body = content.substr(0, content.size() - kHashBytes);
  const std::string_view stored = content.substr(body.size());
  const std::string computed = ContentHash(body);
  if (stored != computed) {
    std::string shown(stored.substr(0, 12));
    for (char& c : shown) c = std::isxdigit(static_cast<unsigned char>(c)) ? c : '?';
    throw Invalid("{}: damaged or truncated policy file: its content hash should be {}, found {}", source, shown,
                  computed.substr(0, 12));
  }
  PolicyFile policy;
  policy.info.format_version = static_cast<int>(format);
  policy.info.schema_version = static_cast<int>(in.Get<std::uint32_t>());
  if (policy.info.schema_version != kFeatureSchemaVersion) {
    throw Invalid("{}: feature schema version must be {}, found {}: train the policy anew (weir train)", source,
                  kFeatureSchemaVersion, policy.info.schema_version);
  }
  const struct {
    const char* name;
    int expected;
  } counts[] = {
      {"global", kGlobalFeatures}, {"worker", kWorkerFeatures}, {"job", kJobFeatures}, {"candidate", kCandidateFeatures}};
  for (const auto& count : counts) {
    const auto found = in.Get<std::uint32_t>();
    if (found != static_cast<std::uint32_t>(count.expected)) {
      throw Invalid("{}: number of {} features must be {}, found {}", source, count.name, count.expected, found);
    }
  }
  for (int* size : {&policy.info.sizes.embed, &policy.info.sizes.hidden, &policy.info.sizes.head}) {
    const auto found = in.Get<std::uint32_t>();
    if (found < 1 || found > 1024) throw Invalid("{}: layer sizes must be 1 to 1024, found {}", source, found);
    *size = static_cast<int>(found);
  }
  policy.info.seed = in.Get<std::uint64_t>();
  if (in.String() != AllFeatureNames())
    throw Invalid("{}: feature names differ from those of this build: train the policy anew", source);
  policy.info.config = in.String();
  policy.info.record = in.String();
  const auto count = in.Get<std::uint64_t>();
  const WeightLayout layout(policy.info.sizes);
  if (count != layout.total) throw Invalid("{}: number of weights must be {}, found {}", source, layout.total, count);
  policy.weights.resize(count);
  std::memcpy(policy.weights.data(), in.Bytes(count * sizeof(float)).data(), count * sizeof(float));
  if (in.left() != kHashBytes) throw Invalid("{}: {} bytes too many after the weights", source, in.left() - kHashBytes);
  for (float weight : policy.weights) {
    if (!std::isfinite(weight)) throw Invalid("{}: weights must be finite, found {}", source, weight);
  }
  policy.info.parameters = static_cast<long>(layout.trained);
  policy.info.hash = ContentHash(content).substr(0, 12);
  return policy;
}

PolicyFile ReadPolicyFile(const std::string& path) {
  return DecodePolicy(ReadFile(path, kMaxBytes), path);
}
PolicyInfo ReadPolicyInfo(const std::string& path) {
  return ReadPolicyFile(path).info;
}

std::string WritePolicyFile(const std::string& path, const PolicyFile& policy) {
  const std::string content = EncodePolicy(policy);
  WriteFileAtomically(path, content);
  return ContentHash(content).substr(0, 12);
}

}  // namespace weir
