#include "worker/protocol/channel.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir::worker {
namespace {

constexpr int kLingerMs = 500;
constexpr int kHighWaterMark = 20000;

void SetInt(void* socket, int option, int value) {
  WEIR_CHECK_EQ(zmq_setsockopt(socket, option, &value, sizeof value), 0) << option;
}

// A message part; false: nothing came in time.
bool ReceivePart(void* socket, std::string* bytes, bool* more, int flags) {
  zmq_msg_t message;
  zmq_msg_init(&message);
  const int size = zmq_msg_recv(&message, socket, flags);
  if (size >= 0) {
    bytes->assign(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    *more = zmq_msg_more(&message) != 0;
  }
  zmq_msg_close(&message);
  return size >= 0;
}

void DropRest(void* socket) {
  std::string part;
  for (bool more = true; more && ReceivePart(socket, &part, &more, 0);) {
  }
}

bool WaitReadable(void* socket, Milliseconds timeout) {
  zmq_pollitem_t item{socket, 0, ZMQ_POLLIN, 0};
  return zmq_poll(&item, 1, timeout.count()) > 0;
}

}  // namespace

Context::Context() : context_(zmq_ctx_new()) {
  WEIR_CHECK(context_ != nullptr);
}
Context::~Context() {
  while (zmq_ctx_term(context_) != 0 && errno == EINTR) {
  }
}

Socket::Socket(const Context& context, int type) : socket_(zmq_socket(context.get(), type)) {
  if (!socket_) throw Failure(ExitCode::kInfrastructure, "no more sockets: {}", zmq_strerror(errno));
  SetInt(socket_, ZMQ_LINGER, kLingerMs);
  SetInt(socket_, ZMQ_SNDHWM, kHighWaterMark);
  SetInt(socket_, ZMQ_RCVHWM, kHighWaterMark);
  SetInt(socket_, ZMQ_HANDSHAKE_IVL, 5000);
  SetInt(socket_, ZMQ_HEARTBEAT_IVL, 1000);
  SetInt(socket_, ZMQ_HEARTBEAT_TIMEOUT, 4000);
  SetInt(socket_, ZMQ_TCP_KEEPALIVE, 1);
  const std::int64_t most = static_cast<std::int64_t>(kMaxBodyBytes + kFrameHeaderBytes);
  WEIR_CHECK_EQ(zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &most, sizeof most), 0);
}

Socket::~Socket() {
  if (socket_) zmq_close(socket_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(socket_, other.socket_);
  return *this;
}

void CheckAddress(const std::string& address) {
  if (address.starts_with("ipc://") || address.starts_with("inproc://")) return;
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool good = port == "*" || (error == std::errc() && end == port.data() + port.size() && number >= 1 && number <= 65535);
  if (!address.starts_with("tcp://") || colon <= 6 || !good) {
    throw Invalid("{}: expected an address such as tcp://127.0.0.1:7700 with a port from 1 to 65535", address);
  }
}

Router::Router(const Context& context, const std::string& address) : Socket(context, ZMQ_ROUTER) {
  CheckAddress(address);
  SetInt(socket_, ZMQ_ROUTER_MANDATORY, 1);
  if (zmq_bind(socket_, address.c_str()) != 0) {
    if (errno == EADDRINUSE) throw Failure(ExitCode::kNotFound, "{}: already in use", address);
    throw Invalid("{}: can't listen there: {}", address, zmq_strerror(errno));
  }
  char endpoint[512];
  std::size_t size = sizeof endpoint;
  WEIR_CHECK_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  address_ = endpoint;
}

SendResult Router::Send(const std::string& peer, std::string_view bytes) {
  if (zmq_send(socket_, peer.data(), peer.size(), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
    return errno == EAGAIN ? SendResult::kFull : SendResult::kGone;
  }
  if (zmq_send(socket_, bytes.data(), bytes.size(), ZMQ_DONTWAIT) < 0) {
    return errno == EAGAIN ? SendResult::kFull : SendResult::kGone;
  }
  return SendResult::kSent;
}

std::optional<Envelope> Router::Receive(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    Envelope envelope;
    bool more = false;
    if (ReceivePart(socket_, &envelope.peer, &more, ZMQ_DONTWAIT)) {
      if (!more) continue;
      ReceivePart(socket_, &envelope.bytes, &more, 0);
      if (!more) return envelope;
      DropRest(socket_);
      continue;
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !WaitReadable(socket_, left)) return std::nullopt;
  }
}

Dealer::Dealer(const Context& context, const std::string& address) : Socket(context, ZMQ_DEALER) {
  CheckAddress(address);
  SetInt(socket_, ZMQ_IMMEDIATE, 1);
  SetInt(socket_, ZMQ_RECONNECT_IVL, 100);
  SetInt(socket_, ZMQ_RECONNECT_IVL_MAX, 2000);
  if (zmq_connect(socket_, address.c_str()) != 0) throw Invalid("{}: not an address such as tcp://host:7700", address);
}

bool Dealer::Send(std::string_view bytes, Milliseconds timeout) {
  if (zmq_send(socket_, bytes.data(), bytes.size(), ZMQ_DONTWAIT) >= 0) return true;
  if (timeout.count() <= 0) return false;
  zmq_pollitem_t item{socket_, 0, ZMQ_POLLOUT, 0};
  if (zmq_poll(&item, 1, timeout.count()) <= 0) return false;
  return zmq_send(socket_, bytes.data(), bytes.size(), ZMQ_DONTWAIT) >= 0;
}

std::optional<std::string> Dealer::Receive(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    std::string bytes;
    bool more = false;
    if (ReceivePart(socket_, &bytes, &more, ZMQ_DONTWAIT)) {
      if (!more) return bytes;
      DropRest(socket_);
      continue;
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !WaitReadable(socket_, left)) return std::nullopt;
  }
}

bool Poll(std::vector<PollItem>* items, Milliseconds timeout) {
  std::vector<zmq_pollitem_t> raw;
  raw.reserve(items->size());
  for (const PollItem& item : *items) raw.push_back({item.socket, item.fd, ZMQ_POLLIN, 0});
  const int ready = zmq_poll(raw.data(), static_cast<int>(raw.size()), timeout.count());
  for (std::size_t i = 0; i < raw.size(); ++i) (*items)[i].readable = ready > 0 && (raw[i].revents & ZMQ_POLLIN);
  return ready > 0;
}

WakeUp::WakeUp() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEIR_CHECK_GE(fd_, 0);
}
WakeUp::~WakeUp() {
  ::close(fd_);
}
void WakeUp::Set() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}
void WakeUp::Clear() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
}

std::string ReachableFrom(const std::string& address, const std::string& base) {
  auto host_of = [](const std::string& a) -> std::string {
    const std::size_t start = a.find("://"), colon = a.rfind(':');
    return start == std::string::npos || colon <= start + 3 ? "" : a.substr(start + 3, colon - start - 3);
  };
  const std::string host = host_of(address);
  if (host != "0.0.0.0" && host != "*" && host != "[::]") return address;
  const std::string reached = host_of(base);
  return reached.empty() ? address : "tcp://" + reached + address.substr(address.rfind(':'));
}

bool IsLoopback(const std::string& address) {
  for (const char* prefix : {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "ipc://", "inproc://"}) {
    if (address.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

}  // namespace weir::worker
