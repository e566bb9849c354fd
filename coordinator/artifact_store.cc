#include "coordinator/artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/log.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 30;
constexpr std::uint64_t kMostChunk = std::uint64_t{4} << 20;

std::int64_t SizeOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<std::int64_t>(info.st_size) : -1;
}

}  // namespace

ArtifactStore::ArtifactStore(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw Failure(ExitCode::kInfrastructure, "{}: can't be made: {}", folder_, error.message());
}

bool ArtifactStore::IsHash(const std::string& hash) {
  return hash.size() == 64 &&
         std::all_of(hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string ArtifactStore::PathOf(const std::string& hash) const {
  WEIR_CHECK(IsHash(hash)) << hash;
  return folder_ + "/" + hash;
}

bool ArtifactStore::Has(const std::string& hash) const {
  return IsHash(hash) && SizeOf(PathOf(hash)) >= 0;
}

void ArtifactStore::Remove(const std::string& hash) {
  if (IsHash(hash)) ::unlink(PathOf(hash).c_str());
}

wire::ArtifactPutReply ArtifactStore::Put(const wire::ArtifactPut& put) {
  wire::ArtifactPutReply reply;
  if (!IsHash(put.hash())) {
    reply.set_error("a hash has 64 lower-case hex digits");
    return reply;
  }
  if (put.total() > kMostBytes || put.data().size() > kMostChunk) {
    reply.set_error(fmt::format("too large: at most {} bytes in chunks of at most {}", kMostBytes, kMostChunk));
    return reply;
  }
  const std::string path = PathOf(put.hash()), part = path + ".part";
  if (SizeOf(path) >= 0) {
    reply.set_received(put.total());
    reply.set_complete(true);
    return reply;
  }
  std::uint64_t received = static_cast<std::uint64_t>(std::max<std::int64_t>(SizeOf(part), 0));
  auto fail = [&](const std::string& what) {
    ::unlink(part.c_str());
    reply.set_error(what);
    return reply;
  };
  if (received > put.total()) {
    ::unlink(part.c_str());
    received = 0;
  }
  if (put.offset() == received && received + put.data().size() <= put.total() && (!put.data().empty() || put.total() == 0)) {
    const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return fail(fmt::format("can't be written: {}", std::strerror(errno)));
    std::size_t done = 0;
    while (done < put.data().size()) {
      const ssize_t n = ::write(fd, put.data().data() + done, put.data().size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        ::close(fd);
        return fail(fmt::format("can't be written: {}", std::strerror(error)));
      }
      done += static_cast<std::size_t>(n);
    }
    received += done;
    const bool synced = received < put.total() || ::fsync(fd) == 0;
    ::close(fd);
    if (!synced) return fail("can't be written to disk");
  }
  if (received == put.total() && SizeOf(part) == static_cast<std::int64_t>(put.total())) {
    if (ContentHash(ReadFile(part)) != put.hash()) return fail("the content doesn't match the hash");
    if (::rename(part.c_str(), path.c_str()) != 0) return fail(fmt::format("can't be renamed: {}", std::strerror(errno)));
    reply.set_complete(true);
  }
  reply.set_received(received);
  return reply;
}

wire::ArtifactGetReply ArtifactStore::Get(const wire::ArtifactGet& get) const {
  wire::ArtifactGetReply reply;
  reply.set_offset(get.offset());
  const int fd = IsHash(get.hash()) ? ::open(PathOf(get.hash()).c_str(), O_RDONLY | O_CLOEXEC) : -1;
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    if (fd >= 0) ::close(fd);
    reply.set_error(fmt::format("there is no artifact {}", get.hash().substr(0, 64)));
    return reply;
  }
  reply.set_total(static_cast<std::uint64_t>(info.st_size));
  std::string data(std::min<std::uint64_t>(std::max<std::uint64_t>(get.max_bytes(), 1), kMostChunk), '\0');
  const ssize_t n = ::pread(fd, data.data(), data.size(), static_cast<off_t>(std::min<std::uint64_t>(get.offset(), kMostBytes)));
  ::close(fd);
  if (n < 0) {
    reply.set_error(fmt::format("can't be read: {}", std::strerror(errno)));
    return reply;
  }
  data.resize(static_cast<std::size_t>(n));
  reply.set_data(std::move(data));
  return reply;
}

ArtifactServer::ArtifactServer(const worker::Context& context, const std::string& address, ArtifactStore* store)
    : store_(store),
      router_(std::make_unique<worker::Router>(context, address)),
      address_(router_->address()),
      thread_([this] { Run(); }) {}

ArtifactServer::~ArtifactServer() {
  stop_.Set();
  thread_.join();
}

void ArtifactServer::Run() {
  while (true) {
    std::vector<worker::PollItem> items(2);
    items[0].socket = router_->get();
    items[1].fd = stop_.fd();
    worker::Poll(&items, worker::Milliseconds(1000));
    if (items[1].readable) return;
    // A bounded number between two looks at stop_.
    for (int i = 0; i < 100; ++i) {
      const auto envelope = router_->Receive(worker::Milliseconds(0));
      if (!envelope) break;
      std::string error;
      const auto frame = worker::DecodeFrame(envelope->bytes, &error);
      if (!frame) {
        WEIR_LOG(Warning, "event=bad_frame socket=artifacts error=\"{}\"", error);
        continue;
      }
      try {
        wire::ArtifactPut put;
        wire::ArtifactGet get;
        if (frame->type == worker::MessageType::kArtifactPut && put.ParseFromString(frame->body)) {
          router_->Send(envelope->peer, worker::Encode(worker::MessageType::kArtifactPutReply, store_->Put(put)));
        } else if (frame->type == worker::MessageType::kArtifactGet && get.ParseFromString(frame->body)) {
          router_->Send(envelope->peer, worker::Encode(worker::MessageType::kArtifactGetReply, store_->Get(get)));
        } else {
          wire::ErrorReply reply;
          reply.set_error("the artifact store expects ArtifactPut or ArtifactGet");
          reply.set_exit_code(static_cast<int>(ExitCode::kInvalid));
          router_->Send(envelope->peer, worker::Encode(worker::MessageType::kErrorReply, reply));
        }
      } catch (const std::exception& e) {
        WEIR_LOG(Error, "event=artifact_error error=\"{}\"", e.what());
      }
    }
  }
}

}  // namespace weir::coordinator
