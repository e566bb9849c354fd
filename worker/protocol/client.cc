#include "worker/protocol/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "env/core/file.h"
#include "env/core/units.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

constexpr std::size_t kChunkBytes = 1u << 20;

std::string Seconds(Milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

Client::Client(std::string address, Milliseconds timeout, std::string what)
    : address_(std::move(address)),
      timeout_(timeout),
      what_(std::move(what)),
      dealer_(std::make_unique<Dealer>(context_, address_)) {}

void Client::ThrowDamaged() const {
  throw Failure(ExitCode::kUnreachable, "{} at {}: its answer can't be read", what_, address_);
}

std::string Client::CallRaw(MessageType type, std::string_view body, MessageType reply_type) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  auto left = [&] {
    return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now()));
  };
  auto no_answer = [&] {
    dealer_ = std::make_unique<Dealer>(context_, address_);
    return Failure(ExitCode::kUnreachable, "{} at {}: no answer within {}", what_, address_, Seconds(timeout_));
  };
  // Waits in slices, so that a cancelled call ends soon.
  auto slice = [&] {
    if (cancel_ && cancel_->load()) throw Failure(ExitCode::kInterrupted, "{} at {}: interrupted", what_, address_);
    return std::min(left(), Milliseconds(100));
  };
  const std::string request = EncodeFrame(type, body);
  while (!dealer_->Send(request, slice())) {
    if (left().count() == 0) throw no_answer();
  }
  while (true) {
    const std::optional<std::string> bytes = dealer_->Receive(slice());
    if (!bytes && left().count() == 0) throw no_answer();
    if (!bytes) continue;
    std::string error;
    std::optional<Frame> frame = DecodeFrame(*bytes, &error);
    if (!frame) throw Failure(ExitCode::kUnreachable, "{} at {}: its answer can't be read: {}", what_, address_, error);
    if (frame->type == reply_type) return std::move(frame->body);
    if (frame->type == MessageType::kErrorReply) {
      wire::ErrorReply reply;
      if (!reply.ParseFromString(frame->body)) ThrowDamaged();
      throw Error(static_cast<ExitCode>(reply.exit_code()), reply.error());
    }
  }
}

ArtifactClient::ArtifactClient(std::string address, Milliseconds timeout, const std::atomic<bool>* cancel)
    : client_(std::move(address), timeout, "artifact store") {
  client_.set_cancel(cancel);
}

std::string ArtifactClient::PutFile(const std::string& path) {
  return PutContent(ReadFile(path));
}

std::string ArtifactClient::PutContent(std::string_view content) {
  const std::string hash = ContentHash(content);
  wire::ArtifactPut put;
  put.set_hash(hash);
  put.set_total(content.size());
  std::uint64_t at = 0;
  for (bool probe = true;; probe = false) {  // the first one carries no data: it asks what is there already
    put.set_offset(at);
    put.set_data(probe ? std::string() : std::string(content.substr(at, kChunkBytes)));
    const auto reply = client_.Call<wire::ArtifactPutReply>(MessageType::kArtifactPut, put, MessageType::kArtifactPutReply);
    if (!reply.error().empty())
      throw Failure(ExitCode::kInfrastructure, "artifact store at {}: {}", client_.address(), reply.error());
    if (reply.complete()) return hash;
    if (reply.received() > content.size() || (!probe && reply.received() == at)) {
      throw Failure(ExitCode::kInfrastructure, "artifact store at {}: upload doesn't proceed", client_.address());
    }
    at = reply.received();
  }
}

std::string ArtifactClient::GetContent(const std::string& hash) {
  std::string content;
  wire::ArtifactGet get;
  get.set_hash(hash);
  get.set_max_bytes(kChunkBytes);
  do {
    get.set_offset(content.size());
    const auto reply = client_.Call<wire::ArtifactGetReply>(MessageType::kArtifactGet, get, MessageType::kArtifactGetReply);
    if (!reply.error().empty()) throw Failure(ExitCode::kNotFound, "artifact store at {}: {}", client_.address(), reply.error());
    if (reply.offset() != content.size() || (reply.data().empty() && reply.total() > content.size())) {
      throw Failure(ExitCode::kInfrastructure, "artifact store at {}: download of {} doesn't proceed", client_.address(), hash);
    }
    content += reply.data();
    if (content.size() >= reply.total()) break;
  } while (true);
  if (ContentHash(content) != hash)
    throw Failure(ExitCode::kInfrastructure, "artifact {}: the content doesn't match its hash", hash);
  return content;
}

void ArtifactClient::GetFile(const std::string& hash, const std::string& path) {
  WriteFileAtomically(path, GetContent(hash));
}

std::string ArtifactAddress(Client* client) {
  const auto info = client->Call<wire::InfoReply>(MessageType::kInfoRequest, wire::InfoRequest(), MessageType::kInfoReply);
  return ReachableFrom(info.artifact_address(), client->address());
}

}  // namespace weir::worker
