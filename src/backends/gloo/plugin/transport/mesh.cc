/* SPDX-License-Identifier: BSD-3-Clause */
/* Gloo's connections, extended: see mesh.h. Gloo calls the overridden functions of Pair with the pair's lock. */
#include "backends/gloo/plugin/transport/mesh.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>

namespace tti
{

namespace
{

namespace tcp = gloo::transport::tcp;

std::string text_of(const std::exception_ptr &thrown)
{
    if (!thrown) {
        return "closed here";
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception &e) {
        return e.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

/* A thread's first exception allocates the thread's memory for exceptions, and without memory that ends the process. */
void prepare_exceptions()
{
    try {
        throw std::bad_alloc();
    } catch (const std::bad_alloc &) {
    }
}

thread_local bool in_loop;                /* whether this thread is Gloo's */
thread_local tcp::UnboundBuffer *sending; /* the buffer whose send this thread is in */

constexpr long PAUSE_NS = 10000; /* the kernel adds about 50 us */
constexpr int PAUSES = 20;
constexpr size_t MOST_NOTICES = 6; /* in one packet with data */

/*
 * A process that a rank has started must not keep its connections open: the kernel would not end them when the rank
 * dies, and its peers would wait until their deadlines. Gloo opens its sockets without this flag.
 */
void close_at_exec(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* The meshes of this process. A change of the list is one store, so the child of a fork finds a complete list, whatever
 * the other threads of the parent did. */
std::atomic<Mesh *> meshes{nullptr};
std::mutex meshes_lock; /* of changes */

/* What is not yet sent of an operation's head. */
iovec rest_of(tcp::Op &op)
{
    return {reinterpret_cast<char *>(&op.preamble) + op.nwritten, sizeof(op.preamble) - op.nwritten};
}

/* Whether its buffer has gone. */
bool is_orphan(tcp::Op &op)
{
    return op.getOpcode() == tcp::Op::SEND_UNBOUND_BUFFER && !gloo::NonOwningPtr<tcp::UnboundBuffer>(op.ubuf);
}

bool is_notice(tcp::Op &op)
{
    return op.getOpcode() == tcp::Op::NOTIFY_SEND_READY || op.getOpcode() == tcp::Op::NOTIFY_RECV_READY;
}

} // namespace

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Gloo counts in an int, which a group that lives for a day can exceed. */
size_t Buffer::received()
{
    const std::lock_guard<std::mutex> guard(m_);
    received_ += static_cast<size_t>(recvCompletions_);
    recvCompletions_ = 0;
    return received_;
}

size_t Buffer::sent()
{
    const std::lock_guard<std::mutex> guard(m_);
    sent_ += static_cast<size_t>(sendCompletions_);
    sendCompletions_ = 0;
    return sent_;
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

Pair::Pair(Mesh *mesh, tcp::Device *device, int rank, std::chrono::milliseconds timeout)
    : tcp::Pair(mesh, device, rank, timeout), mesh_(mesh)
{
    close_at_exec(fd_); /* it listens */
}

/*
 * When another thread holds the pair's lock, Gloo's thread leaves the events to its next round. So it would spin while
 * a rank sends and data have arrived: 7 ms of a CPU for a step of 27 ms of the demo between hosts. Instead it waits for
 * the lock, but not for ever: a thread that closes the pair holds the lock until the next round. It polls, because
 * std::timed_mutex waits by the wall clock, or by a function that GCC 12's thread sanitizer does not support.
 */
void Pair::await_lock()
{
    const timespec pause = {0, PAUSE_NS};
    for (int i = 0; i < PAUSES; i++) {
        if (m_.try_lock()) {
            m_.unlock();
            return;
        }
        nanosleep(&pause, nullptr);
    }
}

void Pair::handleEvents(int events)
{
    if (!in_loop) {
        in_loop = true;
        prepare_exceptions();
    }
    await_lock();
    try {
        tcp::Pair::handleEvents(events);
    } catch (...) {
        /* an error while it connects, or the pair was closed meanwhile */
        const std::exception_ptr thrown = std::current_exception();
        try {
            const std::lock_guard<std::mutex> guard(m_);
            if (!ex_) {
                signalException(thrown);
            }
        } catch (...) {
            mesh_->record_loss(rank_, thrown);
        }
    }
}

/* Without memory the connection stays, since this rank reports its failure over it. */
void Pair::handleReadWrite(int events)
{
    try {
        tcp::Pair::handleReadWrite(events);
    } catch (const std::bad_alloc &) {
        mesh_->record_no_memory(rank_);
    } catch (...) {
        if (!ex_) {
            signalException(std::current_exception());
        }
    }
}

/*
 * Gloo announces each send and each receive by a notice, in a packet of its own. A notice that a caller makes waits
 * here for the data behind it, or for flush. Gloo calls this function while its queue is empty, or for the first
 * operation of the queue, so what waits here is always older than what Gloo keeps.
 *
 * Gloo would put the operation into its queue after a part is sent. Without memory the rest would be lost, and the peer
 * would take the next operation for it. So the operation is put there before, and true also means that it is there.
 */
bool Pair::write(tcp::Op &op)
{
    if (hung_up_) {
        return true;
    }
    if (!in_loop && is_notice(op)) {
        waiting_.push_back(std::move(op));
        return true;
    }
    if (!tx_.empty()) { /* the first operation of the queue */
        return is_orphan(op) ? drop(op) : write_part(op);
    }
    tx_.push_back(std::move(op));
    if (write_part(tx_.front())) {
        op = std::move(tx_.front()); /* Gloo ends the operation */
        tx_.pop_front();
    } else if (state_ == CONNECTED) {
        device_->registerDescriptor(fd_, EPOLLIN | EPOLLOUT, this);
    } else {
        tx_.clear();
        return false;
    }
    return true;
}

/* The call has failed meanwhile, so its data must not be read any more. After a part of them the peer waits for the
 * rest and can receive nothing else. */
bool Pair::drop(const tcp::Op &op)
{
    if (op.nwritten == 0) {
        return true;
    }
    tx_.clear();
    end_stream();
    return false;
}

/* False if the connection does not take all of the rest, or is broken. */
bool Pair::write_part(tcp::Op &op)
{
    const bool is_data = !is_notice(op);
    bool done = false;
    if (!in_loop && sending) {
        done = transmit(&op, static_cast<char *>(sending->ptr));
        if (done) {
            sending->handleSendCompletion(rank_);
        }
    } else {
        done = transmit(nullptr, nullptr) && tcp::Pair::write(op);
    }
    if (done && is_data) {
        mesh_->doorbell.ring();
    }
    return done;
}

void Pair::send(gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset, size_t bytes)
{
    /* Gloo's own pointer to the buffer belongs to the operation. This one holds as long as the call. */
    sending = static_cast<tcp::UnboundBuffer *>(buffer);
    try {
        tcp::Pair::send(buffer, slot, offset, bytes);
    } catch (...) {
        sending = nullptr;
        throw;
    }
    sending = nullptr;
}

/*
 * Sends what waits, and then `op` with data from `memory`, if there is one. False if the connection does not take all
 * of it, or is broken. At an error Gloo closes the connection, and waits for its own thread. Another thread would do so
 * with a lock that Gloo's thread may need, a deadlock. So only Gloo's thread reports a broken connection, when it
 * reads.
 */
bool Pair::transmit(tcp::Op *op, char *memory)
{
    while (state_ == CONNECTED && (op || !waiting_.empty())) {
        std::array<iovec, MOST_NOTICES + 2> parts{};
        size_t count = 0;
        for (size_t i = 0; i < waiting_.size() && i < MOST_NOTICES; i++) {
            parts[count++] = rest_of(waiting_[i]);
        }
        if (op && waiting_.size() <= MOST_NOTICES) {
            const size_t head = sizeof(op->preamble);
            if (op->nwritten < head) {
                parts[count++] = rest_of(*op);
            }
            const size_t written = op->nwritten > head ? op->nwritten - head : 0;
            parts[count].iov_base = memory + op->offset + written;
            parts[count++].iov_len = op->nbytes - written;
        }
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = count;
        const ssize_t sent = sendmsg(fd_, &message, in_loop ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return false;
        }
        size_t rest = static_cast<size_t>(sent);
        while (rest > 0 && !waiting_.empty()) {
            const size_t part = std::min(rest, rest_of(waiting_.front()).iov_len);
            waiting_.front().nwritten += part;
            rest -= part;
            if (rest_of(waiting_.front()).iov_len == 0) {
                waiting_.pop_front();
            }
        }
        if (op) {
            op->nwritten += rest;
            if (waiting_.empty() && op->nwritten == op->preamble.nbytes) {
                return true;
            }
        }
    }
    return state_ == CONNECTED;
}

void Pair::flush()
{
    const std::lock_guard<std::mutex> guard(m_);
    if (waiting_.empty() || hung_up_ || state_ != CONNECTED || !tx_.empty() || transmit(nullptr, nullptr)) {
        return; /* with a queue, what waits leaves before its first operation */
    }
    tx_.swap(waiting_);
    if (state_ == CONNECTED) {
        device_->registerDescriptor(fd_, EPOLLIN | EPOLLOUT, this);
    }
}

/* Reads the head of an operation before Gloo reads the rest, to ring for data only: a notice ends no wait. */
bool Pair::read()
{
    if (mesh_->discards()) {
        return discard();
    }
    while (rx_.nread < sizeof(rx_.preamble)) {
        const ssize_t n =
            ::recv(fd_, reinterpret_cast<char *>(&rx_.preamble) + rx_.nread, sizeof(rx_.preamble) - rx_.nread, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            if (n == 0) {
                signalException("Connection closed by peer " + peer_.str());
            } else if (errno != EAGAIN) {
                signalException("recv " + peer_.str() + ": " + strerror(errno));
            }
            return false;
        }
        rx_.nread += static_cast<size_t>(n);
    }
    const bool is_data = !is_notice(rx_);
    const bool done = tcp::Pair::read();
    if (done && is_data) {
        mesh_->doorbell.ring();
    }
    return done;
}

/* Reads and drops what has arrived. Also detects that the peer has closed the connection. */
bool Pair::discard()
{
    char trash[4096];
    ssize_t n = 1;
    while (state_ == CONNECTED && (n > 0 || (n < 0 && errno == EINTR))) {
        n = ::recv(fd_, trash, sizeof(trash), MSG_DONTWAIT);
    }
    if (state_ == CONNECTED && !ex_ && (n == 0 || errno != EAGAIN)) {
        signalException("Connection closed after the group had failed");
    }
    return false;
}

void Pair::changeState(state next) noexcept
{
    const bool lost = next == CLOSED && state_ != CLOSED;
    if (next == CONNECTING || next == CONNECTED) {
        close_at_exec(fd_);
        connection_.store(fd_);
    } else if (next == CLOSED) {
        connection_.store(-1); /* before another file can get the number */
    }
    tcp::Pair::changeState(next);
    if (lost) {
        mesh_->record_loss(rank_, ex_);
    }
}

void Pair::waitUntilConnected(std::unique_lock<std::mutex> &lock, bool use_timeout)
{
    mesh_->connecting.store(rank_, std::memory_order_relaxed);
    tcp::Pair::waitUntilConnected(lock, use_timeout);
}

void Pair::shut()
{
    const std::lock_guard<std::mutex> guard(m_);
    if (state_ != CLOSED) {
        changeState(CLOSED);
    }
}

void Pair::hang_up()
{
    const std::lock_guard<std::mutex> guard(m_);
    if (!hung_up_ && state_ == CONNECTED) {
        end_stream();
    }
}

void Pair::end_stream()
{
    hung_up_ = true;
    ::shutdown(fd_, SHUT_WR);
}

void Pair::close_in_child()
{
    const int fd = connection_.load();
    if (fd >= 0) {
        ::close(fd);
    }
}

bool Pair::is_sending()
{
    const std::lock_guard<std::mutex> guard(m_);
    int unsent = 0;
    return state_ == CONNECTED && (!tx_.empty() || (ioctl(fd_, SIOCOUTQ, &unsent) == 0 && unsent > 0));
}

/* ---- the mesh ------------------------------------------------------------------------------------------------- */

Mesh::Mesh(std::shared_ptr<tcp::Device> served_by, int own, int ranks)
    : tcp::Context(std::move(served_by), own, ranks), lost_(static_cast<size_t>(ranks)),
      why_(static_cast<size_t>(ranks))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, close_in_child); });
    const std::lock_guard<std::mutex> guard(meshes_lock);
    next_.store(meshes.load());
    meshes.store(this);
}

Mesh::~Mesh()
{
    shut(); /* while the pairs still have their overridden functions */
    const std::lock_guard<std::mutex> guard(meshes_lock);
    std::atomic<Mesh *> *link = &meshes;
    while (link->load() != this) {
        link = &link->load()->next_;
    }
    link->store(next_.load());
}

/* In the child of a fork the meshes are the parent's. Gloo's thread and the thread that held the lock are not there. */
void Mesh::close_in_child()
{
    for (Mesh *mesh = meshes.load(); mesh; mesh = mesh->next_.load()) {
        for (auto &pair : mesh->pairs_) {
            if (pair) {
                static_cast<Pair *>(pair.get())->close_in_child();
            }
        }
    }
    meshes.store(nullptr);
    new (&meshes_lock) std::mutex;
}

std::unique_ptr<gloo::transport::Pair> &Mesh::createPair(int peer)
{
    std::unique_ptr<gloo::transport::Pair> &place = pairs_.at(static_cast<size_t>(peer));
    place = std::make_unique<Pair>(this, device_.get(), peer, getTimeout());
    return place;
}

std::unique_ptr<Buffer> Mesh::buffer(const void *memory, size_t bytes)
{
    return std::make_unique<Buffer>(shared_from_this(), const_cast<void *>(memory), bytes);
}

Pair *Mesh::pair(int peer)
{
    return static_cast<Pair *>(pairs_.at(static_cast<size_t>(peer)).get());
}

bool Mesh::is_lost(int peer) const
{
    /* acquire: pairs with the release in record_loss, data that arrived before are visible */
    return lost_[static_cast<size_t>(peer)].load(std::memory_order_acquire);
}

std::string Mesh::why(int peer)
{
    const std::lock_guard<std::mutex> guard(lock_);
    return why_[static_cast<size_t>(peer)];
}

void Mesh::record_loss(int peer, const std::exception_ptr &why) noexcept
{
    try {
        const std::lock_guard<std::mutex> guard(lock_);
        std::string &text = why_[static_cast<size_t>(peer)];
        if (text.empty()) {
            text = text_of(why);
        }
    } catch (...) { /* no memory: the loss is recorded without a text */
    }
    lost_[static_cast<size_t>(peer)].store(true, std::memory_order_release);
    losses.fetch_add(1, std::memory_order_release);
    doorbell.ring();
}

/* Gloo may have dropped what it was handling, so what arrives later has no meaning. */
void Mesh::record_no_memory(int peer) noexcept
{
    int none = -1;
    if (without_memory_.compare_exchange_strong(none, peer, std::memory_order_relaxed)) {
        discard();
        doorbell.ring();
    }
}

int Mesh::without_memory() const
{
    return without_memory_.load(std::memory_order_relaxed);
}

void Mesh::discard()
{
    discards_.store(true, std::memory_order_relaxed);
}

bool Mesh::discards() const
{
    return discards_.load(std::memory_order_relaxed);
}

void Mesh::shut()
{
    for (auto &pair : pairs_) {
        if (pair) {
            static_cast<Pair *>(pair.get())->shut();
        }
    }
}

std::shared_ptr<gloo::transport::Context> Device::createContext(int rank, int size)
{
    auto mesh = std::make_shared<Mesh>(shared_from_this(), rank, size);
    mesh_ = mesh;
    return mesh;
}

std::shared_ptr<Device> make_device(const tcp::attr &attr)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        auto device = std::make_shared<Device>(attr);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return device;
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
}

} // namespace tti
