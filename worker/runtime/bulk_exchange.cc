#include "worker/runtime/bulk_exchange.h"

#include <ATen/Functions.h>
#include <zmq.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/log.h"
#include "worker/protocol/frame.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/fan_out.h"

namespace weir::worker {
namespace {

void ReleaseTensor(void*, void* hint) {
  delete static_cast<at::Tensor*>(hint);
}

wire::BulkHeader_Kind ToWire(TensorKind kind) {
  switch (kind) {
    case TensorKind::kForward:
      return wire::BulkHeader::FORWARD;
    case TensorKind::kBackward:
      return wire::BulkHeader::BACKWARD;
    case TensorKind::kEvaluate:
      return wire::BulkHeader::EVALUATE;
    case TensorKind::kWeights:
      return wire::BulkHeader::WEIGHTS;
  }
  return wire::BulkHeader::ABORT;
}

std::optional<TensorKind> FromWire(wire::BulkHeader_Kind kind) {
  switch (kind) {
    case wire::BulkHeader::FORWARD:
      return TensorKind::kForward;
    case wire::BulkHeader::BACKWARD:
      return TensorKind::kBackward;
    case wire::BulkHeader::EVALUATE:
      return TensorKind::kEvaluate;
    case wire::BulkHeader::WEIGHTS:
      return TensorKind::kWeights;
    default:
      return std::nullopt;
  }
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  ~Message() { zmq_msg_close(&message_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  zmq_msg_t* get() { return &message_; }
  std::string_view view() { return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)}; }
  bool more() { return zmq_msg_more(&message_) != 0; }

 private:
  zmq_msg_t message_;
};

// Reads the tensors that follow a header. Returns nullopt where they don't match it; the rest of the message is then drained.
std::optional<std::vector<at::Tensor>> ReadTensors(void* socket, const wire::BulkHeader& header, bool more) {
  std::vector<at::Tensor> tensors;
  bool good = true;
  for (const wire::TensorHeader& t : header.tensors()) {
    if (!t.defined()) {
      tensors.emplace_back();
      continue;
    }
    if (!more) return std::nullopt;
    Message part;
    if (zmq_msg_recv(part.get(), socket, 0) < 0) return std::nullopt;
    more = part.more();
    if (!good) continue;
    const std::vector<std::int64_t> sizes(t.sizes().begin(), t.sizes().end()), strides(t.strides().begin(), t.strides().end());
    const bool type_known = t.dtype() >= 0 && t.dtype() < static_cast<int>(at::ScalarType::NumOptions);
    std::int64_t elements = 1;
    for (std::int64_t s : sizes) good = good && s >= 0 && !__builtin_mul_overflow(elements, s, &elements);
    good = good && type_known && strides.size() == sizes.size();
    if (!good) continue;
    const auto type = static_cast<at::ScalarType>(t.dtype());
    good = part.view().size() == static_cast<std::size_t>(elements) * c10::elementSize(type);
    std::int64_t reach = elements > 0 ? 1 : 0;  // the strides must stay inside the bytes
    for (std::size_t d = 0; d < sizes.size() && good && elements > 0; ++d) {
      std::int64_t step = 0;
      good = strides[d] >= 0 && !__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) &&
             !__builtin_add_overflow(reach, step, &reach);
    }
    good = good && reach <= elements;
    if (!good) continue;
    at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions(type));
    std::memcpy(tensor.data_ptr(), part.view().data(), part.view().size());
    if (t.requires_grad() && tensor.is_floating_point()) tensor.requires_grad_(true);
    tensors.push_back(std::move(tensor));
  }
  while (more) {
    Message rest;
    if (zmq_msg_recv(rest.get(), socket, 0) < 0) break;
    more = rest.more();
    good = false;
  }
  if (!good) return std::nullopt;
  return tensors;
}

}  // namespace

void Mailbox::Put(TensorMessage message) {
  std::lock_guard lock(mutex_);
  const Key key{message.kind, message.peer, message.iteration, message.micro_batch};
  messages_.emplace(key, std::move(message));
  changed_.notify_all();
}

TensorMessage Mailbox::Take(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) {
  std::unique_lock lock(mutex_);
  const Key key{kind, peer, iteration, micro_batch};
  changed_.wait(lock, [&] { return aborted_ || messages_.count(key); });
  if (aborted_) throw Aborted{reason_};
  auto node = messages_.extract(key);
  return std::move(node.mapped());
}

void Mailbox::Abort(std::string reason) {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  reason_ = std::move(reason);
  changed_.notify_all();
}

void Mailbox::Check() {
  std::lock_guard lock(mutex_);
  if (aborted_) throw Aborted{reason_};
}

BulkSocket::BulkSocket(const std::string& host) {
  context_ = zmq_ctx_new();
  socket_ = zmq_socket(context_, ZMQ_PULL);
  const int wait = 100, zero = 0;
  zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &wait, sizeof wait);
  zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof zero);
  const std::string wanted = "tcp://" + host + ":*";
  if (zmq_bind(socket_, wanted.c_str()) != 0) {
    const std::string reason = zmq_strerror(zmq_errno());
    zmq_close(socket_);
    zmq_ctx_term(context_);
    throw Failure(ExitCode::kInfrastructure, "can't listen on {}: {}", wanted, reason);
  }
  char endpoint[256];
  std::size_t size = sizeof endpoint;
  WEIR_CHECK_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  address_ = endpoint;
  thread_ = std::thread([this] { Loop(); });
}

BulkSocket::~BulkSocket() {
  stop_ = true;
  thread_.join();
  zmq_close(socket_);
  zmq_ctx_term(context_);
}

std::shared_ptr<Mailbox> BulkSocket::Open(std::int64_t job, int attempt, int stage) {
  std::lock_guard lock(mutex_);
  auto& mailbox = mailboxes_[{job, attempt, stage}];
  if (!mailbox) mailbox = std::make_shared<Mailbox>();
  return mailbox;
}

void BulkSocket::Forget(std::int64_t job, int attempt, int stage) {
  std::lock_guard lock(mutex_);
  mailboxes_.erase({job, attempt, stage});
}

void BulkSocket::Close(std::int64_t job, int attempt, const std::string& reason) {
  std::lock_guard lock(mutex_);
  for (auto it = mailboxes_.begin(); it != mailboxes_.end();) {
    if (std::get<0>(it->first) == job && std::get<1>(it->first) <= attempt) {
      it->second->Abort(reason);
      it = mailboxes_.erase(it);
    } else {
      ++it;
    }
  }
  int& closed = closed_.try_emplace(job, attempt).first->second;
  closed = std::max(closed, attempt);
}

void BulkSocket::Loop() {
  while (!stop_) {
    Message first;
    if (zmq_msg_recv(first.get(), socket_, 0) < 0) continue;
    std::string error;
    auto frame = DecodeFrame(first.view(), &error);
    wire::BulkHeader header;
    if (!frame || frame->type != MessageType::kBulkHeader || !header.ParseFromString(frame->body)) {
      WEIR_LOG(Warning, "event=bulk_refused reason=\"{}\"", frame ? "not a bulk header" : error);
      header.Clear();
      ReadTensors(socket_, header, first.more());
      continue;
    }
    auto tensors = ReadTensors(socket_, header, first.more());
    const auto kind = FromWire(header.kind());
    if (!tensors || !kind) {
      WEIR_LOG(Warning, "event=bulk_refused job={} reason=\"tensors don't match the header\"", header.job());
      continue;
    }
    TensorMessage message{*kind, header.from_stage(), header.iteration(), header.micro_batch(), std::move(*tensors), {}};
    for (const std::string& name : header.names()) message.ids.push_back(std::atoll(name.c_str()));
    std::shared_ptr<Mailbox> mailbox;
    {
      std::lock_guard lock(mutex_);
      auto closed = closed_.find(header.job());
      if (closed != closed_.end() && header.attempt() <= closed->second) continue;
      auto& entry = mailboxes_[{header.job(), header.attempt(), header.to_stage()}];
      if (!entry) entry = std::make_shared<Mailbox>();
      mailbox = entry;
    }
    mailbox->Put(std::move(message));
  }
}

BulkExchange::BulkExchange(BulkSocket* socket, std::int64_t job, int attempt, int stage, std::vector<std::string> peers)
    : socket_(socket),
      job_(job),
      attempt_(attempt),
      stage_(stage),
      peers_(std::move(peers)),
      mailbox_(socket->Open(job, attempt, stage)) {}

BulkExchange::~BulkExchange() {
  for (auto& [peer, socket] : out_) zmq_close(socket);
  socket_->Forget(job_, attempt_, stage_);
}

void BulkExchange::Send(TensorMessage message) {
  void*& out = out_[message.peer];
  if (!out) {
    out = zmq_socket(socket_->context(), ZMQ_PUSH);
    const int linger = 5000, timeout = 200;
    zmq_setsockopt(out, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(out, ZMQ_SNDTIMEO, &timeout, sizeof timeout);
    if (zmq_connect(out, peers_.at(message.peer).c_str()) != 0) {
      throw Failure(ExitCode::kInfrastructure, "can't connect to stage {} at {}: {}", message.peer, peers_[message.peer],
                    zmq_strerror(zmq_errno()));
    }
  }
  wire::BulkHeader header;
  header.set_job(job_);
  header.set_attempt(attempt_);
  header.set_from_stage(stage_);
  header.set_to_stage(message.peer);
  header.set_kind(ToWire(message.kind));
  header.set_iteration(message.iteration);
  header.set_micro_batch(message.micro_batch);
  std::vector<at::Tensor> dense;
  for (const at::Tensor& t : message.tensors) {
    wire::TensorHeader* h = header.add_tensors();
    h->set_defined(t.defined());
    if (!t.defined()) continue;
    dense.push_back(DenseLayout(t.detach()));  // strides travel: kernels may add in another order on another layout
    h->set_dtype(static_cast<int>(t.scalar_type()));
    for (std::int64_t s : dense.back().sizes()) h->add_sizes(s);
    for (std::int64_t s : dense.back().strides()) h->add_strides(s);
    h->set_requires_grad(t.requires_grad());
  }
  for (std::int64_t id : message.ids) header.add_names(std::to_string(id));
  const std::string first = Encode(MessageType::kBulkHeader, header);
  while (zmq_send(out, first.data(), first.size(), dense.empty() ? 0 : ZMQ_SNDMORE) < 0) {
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR)
      throw Failure(ExitCode::kInfrastructure, "stage {}: {}", message.peer, zmq_strerror(zmq_errno()));
    mailbox_->Check();
  }
  for (std::size_t i = 0; i < dense.size(); ++i) {
    // ZeroMQ sends straight from the tensor's memory, which the copy of the handle keeps alive.
    auto* held = new at::Tensor(dense[i]);
    zmq_msg_t part;
    zmq_msg_init_data(&part, held->data_ptr(), held->nbytes(), ReleaseTensor, held);
    while (zmq_msg_send(&part, out, i + 1 < dense.size() ? ZMQ_SNDMORE : 0) < 0) {
      if (zmq_errno() == EAGAIN || zmq_errno() == EINTR) continue;  // a message that began always fits
      zmq_msg_close(&part);
      throw Failure(ExitCode::kInfrastructure, "stage {}: {}", message.peer, zmq_strerror(zmq_errno()));
    }
  }
}

TensorMessage BulkExchange::Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) {
  return mailbox_->Take(kind, peer, iteration, micro_batch);
}

}  // namespace weir::worker
