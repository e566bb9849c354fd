// Requests to the coordinator, one at a time, and files to and from its artifact store. Used by the command line and by workers.
#ifndef WEIR_WORKER_PROTOCOL_CLIENT_H_
#define WEIR_WORKER_PROTOCOL_CLIENT_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "env/core/error.h"
#include "worker/protocol/channel.h"

namespace weir::worker {

class Client {
 public:
  // Throws Error(kInvalid) for an address that is none. `what` names the peer in errors.
  explicit Client(std::string address, Milliseconds timeout = Milliseconds(5000), std::string what = "coordinator");

  // Sends a request and waits for its reply. Throws Error(kUnreachable) "coordinator at tcp://...: no answer within 5 s"; an
  // ErrorReply as the Error it carries. After a timeout the connection is made anew, so a late reply is never taken for the next
  // one's.
  std::string CallRaw(MessageType type, std::string_view body, MessageType reply_type);
  template <typename Reply, typename Request>
  Reply Call(MessageType type, const Request& request, MessageType reply_type) {
    Reply reply;
    if (!reply.ParseFromString(CallRaw(type, request.SerializeAsString(), reply_type))) ThrowDamaged();
    return reply;
  }
  const std::string& address() const { return address_; }
  // Borrowed; once it is true, calls end within 0.1 s with Error(kInterrupted). May be null.
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

 private:
  [[noreturn]] void ThrowDamaged() const;

  std::string address_;
  Milliseconds timeout_;
  const std::atomic<bool>* cancel_ = nullptr;
  std::string what_;
  Context context_;
  std::unique_ptr<Dealer> dealer_;
};

// Files by content hash, in chunks of 1 MiB; an interrupted upload goes on where it stopped.
class ArtifactClient {
 public:
  explicit ArtifactClient(std::string address, Milliseconds timeout = Milliseconds(10000),
                          const std::atomic<bool>* cancel = nullptr);
  // Uploads what the store lacks; returns the hash.
  std::string PutFile(const std::string& path);
  std::string PutContent(std::string_view content);
  // Throws Error(kNotFound) where the store lacks it, Error(kInfrastructure) where the content doesn't match the hash.
  std::string GetContent(const std::string& hash);
  void GetFile(const std::string& hash, const std::string& path);

 private:
  Client client_;
};

// The coordinator's artifact address, reachable from here.
std::string ArtifactAddress(Client* client);

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_CLIENT_H_
