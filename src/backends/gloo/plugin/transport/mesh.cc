/* SPDX-License-Identifier: BSD-3-Clause */
/* Gloo's connections, extended: see mesh.h. Gloo calls the overridden functions of Pair with the pair's lock. */
#include "backends/gloo/plugin/transport/mesh.h"

#include <csignal>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <ctime>
#include <exception>

namespace tti
{

namespace
{

namespace tcp = gloo::transport::tcp;

std::string text_of(const std::exception_ptr &thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception &e) {
        return e.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

thread_local bool in_loop; /* whether this thread is Gloo's */

constexpr long PAUSE_NS = 10000; /* the kernel adds about 50 us */
constexpr int PAUSES = 20;

/* Blocks SIGPIPE in this thread. Gloo uses writev, which raises it when the peer has closed the connection. */
class NoPipeSignal
{
  public:
    NoPipeSignal()
    {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }

    ~NoPipeSignal()
    {
        if (sigismember(&before_, SIGPIPE) != 0) {
            return;
        }
        if (failed) {
            const timespec at_once = {0, 0};
            while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

    NoPipeSignal(const NoPipeSignal &) = delete;
    NoPipeSignal &operator=(const NoPipeSignal &) = delete;

    bool failed = false;

  private:
    sigset_t pipe_;
    sigset_t before_;
};

} // namespace

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

size_t Buffer::received()
{
    const std::lock_guard<std::mutex> guard(m_);
    return static_cast<size_t>(recvCompletions_);
}

size_t Buffer::sent()
{
    const std::lock_guard<std::mutex> guard(m_);
    return static_cast<size_t>(sendCompletions_);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

Pair::Pair(Mesh *mesh, tcp::Device *device, int rank, std::chrono::milliseconds timeout)
    : tcp::Pair(mesh, device, rank, timeout), mesh_(mesh)
{
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
    in_loop = true;
    await_lock();
    try {
        tcp::Pair::handleEvents(events);
    } catch (...) {
        /* an error while it connects, or the pair was closed meanwhile */
        const std::string text = text_of(std::current_exception());
        try {
            signalExceptionExternal(text);
        } catch (...) {
            mesh_->record_loss(rank_, text.c_str());
        }
    }
}

void Pair::handleReadWrite(int events)
{
    try {
        tcp::Pair::handleReadWrite(events);
    } catch (...) {
        if (!ex_) {
            signalException(std::current_exception());
        }
    }
}

/*
 * When a write fails, Gloo closes the connection and waits for its own thread. Another thread would do so with a lock
 * that Gloo's thread may need, a deadlock. So other threads do not write to a broken connection; Gloo's thread detects
 * it.
 */
bool Pair::write(tcp::Op &op)
{
    if (!in_loop && state_ == CONNECTED) {
        pollfd broken = {fd_, 0, 0};
        if (poll(&broken, 1, 0) != 0) {
            return false;
        }
    }
    NoPipeSignal no_signal;
    const bool done = tcp::Pair::write(op);
    no_signal.failed = !done && errno == EPIPE;
    if (done) {
        mesh_->doorbell.ring();
    }
    return done;
}

bool Pair::read()
{
    if (mesh_->discards()) {
        return discard();
    }
    const bool done = tcp::Pair::read();
    if (done) {
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
    tcp::Pair::changeState(next);
    if (lost) {
        mesh_->record_loss(rank_, ex_ ? text_of(ex_).c_str() : "closed here");
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
}

Mesh::~Mesh()
{
    shut(); /* while the pairs still have their overridden functions */
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

void Mesh::record_loss(int peer, const char *why) noexcept
{
    try {
        const std::lock_guard<std::mutex> guard(lock_);
        std::string &text = why_[static_cast<size_t>(peer)];
        if (text.empty()) {
            text = why;
        }
    } catch (...) { /* no memory: the loss is recorded without a text */
    }
    lost_[static_cast<size_t>(peer)].store(true, std::memory_order_release);
    losses.fetch_add(1, std::memory_order_release);
    doorbell.ring();
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
