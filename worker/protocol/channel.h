// Sockets of the control plane over ZeroMQ: a ROUTER that listens, a DEALER that dials. RAII; a message is one frame (frame.h).
// The options follow what was measured: without ROUTER_MANDATORY libzmq drops silently, and no option replaces acknowledgements.
// A socket belongs to one thread; the context may be shared.
#ifndef WEIR_WORKER_PROTOCOL_CHANNEL_H_
#define WEIR_WORKER_PROTOCOL_CHANNEL_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/protocol/frame.h"

namespace weir::worker {

using Milliseconds = std::chrono::milliseconds;

// REQUIRES: every socket of it is closed before it is destroyed.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

// Owns a zmq socket; movable.
class Socket {
 public:
  ~Socket();
  Socket(Socket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  Socket& operator=(Socket&& other) noexcept;
  void* get() const { return socket_; }

 protected:
  Socket(const Context& context, int type);
  void* socket_;
};

struct Envelope {
  std::string peer;  // routing id that libzmq gave the connection: never an identity
  std::string bytes;
};

enum class SendResult {
  kSent,  // queued: says nothing about arrival
  kFull,  // the peer doesn't read
  kGone,  // no such connection (any more)
};

class Router : public Socket {
 public:
  // Throws Error(kNotFound) "tcp://...: already in use", Error(kInvalid) for an address that can't be bound.
  Router(const Context& context, const std::string& address);
  const std::string& address() const { return address_; }  // with the real port where `address` said tcp://host:*
  SendResult Send(const std::string& peer, std::string_view bytes);
  // nullopt: nothing came in time. What isn't exactly one part after the routing id is dropped.
  std::optional<Envelope> Receive(Milliseconds timeout);

 private:
  std::string address_;
};

class Dealer : public Socket {
 public:
  // Dials in the background and again after every break. Throws Error(kInvalid) for an address that is none.
  Dealer(const Context& context, const std::string& address);
  // False: not connected, or the peer doesn't read.
  bool Send(std::string_view bytes, Milliseconds timeout = Milliseconds(0));
  std::optional<std::string> Receive(Milliseconds timeout);
};

// A thing to wait for: a socket, or a file descriptor where `socket` is null.
struct PollItem {
  void* socket = nullptr;
  int fd = -1;
  bool readable = false;  // set by Poll
};
// Waits until one is readable, the time is up or a signal came. True: one is readable.
bool Poll(std::vector<PollItem>* items, Milliseconds timeout);

// An eventfd: wakes a Poll from another thread or from a signal handler. Readable from the first Set() until Clear().
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  int fd() const { return fd_; }
  void Set();  // async-signal-safe
  void Clear();

 private:
  int fd_;
};

// Throws Error(kInvalid) for what is neither tcp://HOST:PORT with a port from 1 to 65535 (or *) nor ipc://.
void CheckAddress(const std::string& address);
// `address` with the host of `base` where its own is a wildcard (0.0.0.0, * or [::]).
std::string ReachableFrom(const std::string& address, const std::string& base);
// True for tcp://127.x, tcp://localhost, tcp://[::1] and ipc://.
bool IsLoopback(const std::string& address);

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_CHANNEL_H_
