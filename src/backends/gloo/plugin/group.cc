/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a group, its failure, and its notifications. Each rank sends a bounded number of notifications,
 * so receives for all of them are posted when the group opens, and no notification waits for a receive.
 */
#include "backends/gloo/plugin/group.h"

#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/gloo/plugin/transport/addresses.h"

namespace tti
{

namespace
{

constexpr uint64_t NOTIFICATION_MAGIC = UINT64_C(0x7475747469303031);
constexpr int64_t LONG_MS = INT64_C(24) * 3600 * 1000; /* Gloo has no infinite timeout */
constexpr int64_t LINGER_MS = 10000;
constexpr int64_t LINGER_FAILED_MS = 100;
constexpr int64_t LINGER_EXIT_MS = 1000; /* for all groups together */
constexpr size_t EAGER_LEAST = 8192;
constexpr size_t EAGER_MOST = 65536;
constexpr size_t EAGER_OF_ALL = size_t{128} << 10; /* a lane has four records for each rank: 512 KiB up to 16 ranks */

size_t eager_bytes_of(int ranks)
{
    return std::min(std::max(EAGER_OF_ALL / static_cast<size_t>(ranks) / 64 * 64, EAGER_LEAST), EAGER_MOST);
}

/* ---- the open groups of this process ----------------------------------------------------------------------------- */

std::mutex open_lock;
Group *open_groups;

/* In the child of a fork the groups are the parent's, and the thread that held the lock is not there. */
void forget_parent()
{
    open_groups = nullptr;
    new (&open_lock) std::mutex;
}

void add_open(Group *g)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, forget_parent); });
    const std::lock_guard<std::mutex> guard(open_lock);
    g->next_open = open_groups;
    open_groups = g;
}

void remove_open(const Group *g)
{
    const std::lock_guard<std::mutex> guard(open_lock);
    Group **link = &open_groups;
    while (*link && *link != g) {
        link = &(*link)->next_open;
    }
    if (*link) {
        *link = g->next_open;
    }
}

/*
 * exit() with open groups: their ranks leave, they have not died. Peers look whether a rank has left only when its
 * connection is lost, so they need not learn the moment. The connection ends here, for it outlives this process if
 * another one has its socket, such as a child by clone() that has not yet executed a program. A group that another
 * thread destroys stays in the list until its data have been sent.
 */
__attribute__((destructor)) void leave_at_exit()
{
    const std::lock_guard<std::mutex> guard(open_lock);
    const int64_t begun = tti_now_ns();
    for (Group *g = open_groups; g; g = g->next_open) {
        g->leave();
    }
    for (Group *g = open_groups; g; g = g->next_open) {
        g->await_sent(tti_deadline_ns(begun, g->has_failed() ? LINGER_FAILED_MS : LINGER_EXIT_MS));
        g->hang_up();
    }
}

} // namespace

Group::Group(const tutti_open_info *info, int64_t deadline_ns)
    : rank(info->rank), size(info->world_size), lanes(info->lanes), eager(eager_bytes_of(info->world_size)),
      left_(static_cast<size_t>(info->world_size))
{
    if (size > 1) {
        connect(info, deadline_ns);
    }
}

/* Takes over rank 0's parameters, so that they are the same on all ranks. */
void Group::agree(const tutti_open_info *info, Store &store)
{
    std::array<uint64_t, 2> terms{};
    if (rank == 0) {
        terms[0] = std::max<uint64_t>(std::strtoull(info->setting(info->settings, "gloo.segment"), nullptr, 10), 4096) /
                   64 * 64;
        if (getrandom(&terms[1], sizeof(terms[1]), 0) != static_cast<ssize_t>(sizeof(terms[1]))) {
            terms[1] = static_cast<uint64_t>(tti_now_ns());
        }
        const char *bytes = reinterpret_cast<const char *>(terms.data());
        store.set("terms", std::vector<char>(bytes, bytes + sizeof(terms)));
    }
    const std::vector<char> value = store.get("terms");
    if (value.size() != sizeof(terms)) {
        fail_with(TUTTI_PROTOCOL, "rank 0 published no terms for Gloo");
    }
    std::memcpy(terms.data(), value.data(), sizeof(terms));
    segment = static_cast<size_t>(terms[0]);
    token = terms[1];
}

void Group::connect(const tutti_open_info *info, int64_t deadline_ns)
{
    const size_t ranks = static_cast<size_t>(size);
    const int64_t begun = tti_now_ns();
    Store store(info->rendezvous, deadline_ns, 4096 + ranks * 1024);
    const Endpoint chosen =
        choose_endpoint(store, rank, size, info->setting(info->settings, "gloo.interface"), deadline_ns);
    address = chosen.text;
    agree(info, store);

    device_ = make_device(chosen.attr);
    std::shared_ptr<gloo::transport::Device> device = device_;
    gloo::rendezvous::Context context(rank, size);
    const int64_t left_ms = tti_remaining_ms(deadline_ns);
    /* Gloo multiplies its timeout by five while it connects */
    context.setTimeout(std::chrono::milliseconds(left_ms < 0 ? LONG_MS : std::max<int64_t>(left_ms / 5, 1)));
    try {
        context.connectFullMesh(store, device);
    } catch (const Failure &) {
        throw;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &e) {
        const std::shared_ptr<Mesh> begun_mesh = device_->mesh();
        const int peer = begun_mesh ? begun_mesh->connecting.load(std::memory_order_relaxed) : -1;
        const bool late = deadline_ns != TTI_NEVER && tti_now_ns() >= deadline_ns - 50000000;
        fail_with(late ? TUTTI_TIMEOUT : TUTTI_BACKEND, "rank %d (%s) could not connect with rank %d in %lld ms: %s",
                  rank, address.c_str(), peer, static_cast<long long>((tti_now_ns() - begun) / 1000000), e.what());
    }
    mesh = device_->mesh();

    notifications_in_.resize(notifications() * ranks);
    notifications_seen_.resize(ranks);
    notification_buffers_.resize(ranks);
    failed_buffer_ = mesh->buffer(&failed_notification_, sizeof(failed_notification_));
    left_buffer_ = mesh->buffer(&left_notification_, sizeof(left_notification_));
    for (int i = 0; i < lanes; i++) {
        Lane &l = lane[static_cast<size_t>(i)];
        l.waiting_buffer = mesh->buffer(&l.waiting_notification, sizeof(l.waiting_notification));
        l.waiting_ranks.resize(ranks);
        l.awaited_ranks.resize(ranks);
    }
    for (int r = 0; r < size; r++) {
        if (r != rank) {
            auto &buffer = notification_buffers_[static_cast<size_t>(r)];
            buffer = mesh->buffer(&notifications_in_[notifications() * static_cast<size_t>(r)],
                                  notifications() * sizeof(Notification));
            for (size_t i = 0; i < notifications(); i++) {
                recv(*buffer, r, slot_of(Use::NOTIFICATION, 0), i * sizeof(Notification), sizeof(Notification));
            }
        }
    }
    add_open(this);
}

/* All data sent must arrive first: a socket that is closed with unread data discards its unsent data. */
Group::~Group()
{
    if (!mesh) {
        return;
    }
    {
        const std::lock_guard<std::mutex> guard(open_lock);
        leave();
    }
    await_sent(tti_deadline_ns(tti_now_ns(), has_failed() ? LINGER_FAILED_MS : LINGER_MS));
    mesh->discard();
    mesh->shut();
    remove_open(this);
}

void Group::leave() noexcept
{
    if (!notified_left_ && !has_failed()) {
        notified_left_ = true;
        notify(left_notification_, *left_buffer_, NotificationKind::LEAVES);
    }
}

void Group::await_sent(int64_t until_ns) noexcept
{
    for (int r = 0; r < size; r++) {
        while (r != rank && !mesh->is_lost(r) && mesh->pair(r)->is_sending() && tti_now_ns() < until_ns) {
            mesh->doorbell.wait(mesh->doorbell.value(),
                                tti_now_ns() + 500000); /* an acknowledgement rings no doorbell */
        }
    }
}

void Group::hang_up() noexcept
{
    for (int r = 0; r < size; r++) {
        if (r != rank) {
            mesh->pair(r)->hang_up();
        }
    }
}

/* Not under the lock. Nothing else would report a transfer that has not begun. */
void Group::fail_without_memory(int peer) noexcept
{
    tutti_error cause;
    tti_error_set(&cause, TUTTI_NO_MEMORY, "gloo: rank %d has no memory for a transfer with rank %d", rank, peer);
    cause.suspect = rank;
    fail(cause, false);
}

bool Group::send(Buffer &from, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept
{
    try {
        from.send(peer, slot, offset, bytes);
        flush(peer);
        return true;
    } catch (const std::bad_alloc &) {
        fail_without_memory(peer);
    } catch (...) { /* the connection is lost */
    }
    return false;
}

void Group::flush(int peer) noexcept
{
    try {
        mesh->pair(peer)->flush();
    } catch (...) { /* the connection is lost, which the wait for a transfer reports */
    }
}

bool Group::recv(Buffer &to, int peer, uint64_t slot, size_t offset, size_t bytes, bool is_urgent) noexcept
{
    try {
        to.recv(peer, slot, offset, bytes);
        if (is_urgent) {
            flush(peer);
        }
        return true;
    } catch (const std::bad_alloc &) {
        fail_without_memory(peer);
    } catch (...) { /* the connection is lost */
    }
    return false;
}

/* Records the cause; false if an earlier cause is recorded already, which stays. */
bool Group::record_cause(const tutti_error &cause, bool is_returned) noexcept
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (failed_.load(std::memory_order_relaxed) != TUTTI_OK) {
        return false;
    }
    cause_ = cause;
    cause_.size = static_cast<uint32_t>(sizeof(cause_));
    cause_.scope = TUTTI_SCOPE_GROUP;
    owes_cause_.store(!is_returned, std::memory_order_relaxed);
    /* release: pairs with the acquire in has_failed */
    failed_.store(cause.status != TUTTI_OK ? cause.status : TUTTI_INTERNAL, std::memory_order_release);
    return true;
}

void Group::notify(Notification &notification, Buffer &buffer, NotificationKind kind) noexcept
{
    notification.magic = NOTIFICATION_MAGIC;
    notification.kind = kind;
    for (int r = 0; r < size; r++) {
        if (r == rank || mesh->is_lost(r)) {
            continue;
        }
        const bool is_sent = send(buffer, r, slot_of(Use::NOTIFICATION, 0), 0, sizeof(Notification));
        if (!is_sent && kind == NotificationKind::GROUP_FAILED) {
            mesh->pair(r)->hang_up(); /* no memory: the peer must not wait for this rank */
        }
    }
}

void Group::fail(const tutti_error &cause, bool is_returned) noexcept
{
    if (!record_cause(cause, is_returned)) {
        return;
    }
    if (mesh) {
        failed_notification_.cause = cause_;
        notify(failed_notification_, *failed_buffer_, NotificationKind::GROUP_FAILED);
        mesh->discard();
    }
    doorbell().ring();
}

/* Under the lock. */
void Group::process_incoming(const Notification &notification, int peer, tutti_error *cause)
{
    const bool is_valid =
        notification.magic == NOTIFICATION_MAGIC && notification.lane >= 0 && notification.lane < lanes;
    if (!is_valid || notification.kind == NotificationKind::LEAVES) {
        left_[static_cast<size_t>(peer)].store(true, std::memory_order_release);
    } else if (notification.kind == NotificationKind::WAITS) {
        Lane &l = lane[static_cast<size_t>(notification.lane)];
        l.waiting_ranks[static_cast<size_t>(peer)] = true;
        for (int r = 0; r < std::min(size, NOTIFIED_RANKS); r++) {
            const size_t index = static_cast<size_t>(r);
            l.awaited_ranks[index] =
                l.awaited_ranks[index] || (notification.missing[index / 8] >> (index % 8) & 1) != 0;
        }
        l.peer_waits.store(true, std::memory_order_relaxed);
    } else {
        *cause = notification.cause;
        cause->message[sizeof(cause->message) - 1] = '\0';
        cause->suspect = cause->suspect >= 0 && cause->suspect < size ? cause->suspect : peer;
    }
}

void Group::poll_notifications()
{
    if (mesh && mesh->without_memory() >= 0) {
        fail_without_memory(mesh->without_memory());
    }
    for (int r = 0; mesh && r < size && !has_failed(); r++) {
        const size_t peer = static_cast<size_t>(r);
        if (r == rank) {
            continue;
        }
        tutti_error cause{};
        {
            const std::lock_guard<std::mutex> guard(lock_);
            while (notifications_seen_[peer] < std::min(notification_buffers_[peer]->received(), notifications())) {
                process_incoming(notifications_in_[notifications() * peer + notifications_seen_[peer]++], r, &cause);
            }
        }
        if (cause.status != TUTTI_OK && record_cause(cause, true)) {
            mesh->discard();
            doorbell().ring();
        }
    }
}

void Group::notify_waiting(int32_t waiting_lane, const std::vector<int> &missing)
{
    Lane &l = lane[static_cast<size_t>(waiting_lane)];
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (l.notified_waiting) {
            return;
        }
        l.notified_waiting = true;
        l.waiting_notification.lane = waiting_lane;
        for (const int r : missing) {
            if (r < NOTIFIED_RANKS) {
                uint8_t &byte = l.waiting_notification.missing[r / 8];
                byte = static_cast<uint8_t>(byte | 1 << r % 8);
            }
        }
    }
    notify(l.waiting_notification, *l.waiting_buffer, NotificationKind::WAITS);
}

std::vector<int> Group::suspects(int32_t waiting_lane, const std::vector<int> &missing)
{
    const Lane &l = lane[static_cast<size_t>(waiting_lane)];
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<int> ranks;
    for (int r = 0; r < size; r++) {
        const size_t peer = static_cast<size_t>(r);
        const bool is_missing = l.awaited_ranks[peer] || std::find(missing.begin(), missing.end(), r) != missing.end();
        if (r != rank && is_missing && !l.waiting_ranks[peer]) {
            ranks.push_back(r);
        }
    }
    return ranks.empty() ? missing : ranks; /* all of them wait for each other */
}

tutti_status Group::check(tutti_error *error)
{
    if (!has_failed()) {
        return TUTTI_OK;
    }
    if (!owes_cause_.exchange(false, std::memory_order_relaxed)) {
        return tti_error_revoked(error, &cause_);
    }
    if (error) {
        *error = cause_;
    }
    return cause_.status;
}

tutti_status Group::failure(tutti_error *error)
{
    poll_notifications();
    for (int r = 0; mesh && r < size && !has_failed(); r++) {
        if (r != rank && mesh->is_lost(r) && !has_left(r)) {
            poll_notifications(); /* its LEAVES arrived before the connection ended */
            tutti_error unused;
            if (!has_left(r)) {
                fail_by_lost_peer(r, "the group", &unused);
            }
        }
    }
    if (!has_failed()) {
        return TUTTI_OK;
    }
    if (error) {
        *error = cause_;
    }
    return failed_.load(std::memory_order_relaxed);
}

tutti_status Group::fail_by_lost_peer(int peer, const std::string &what, tutti_error *error)
{
    const std::string why = mesh->why(peer);
    poll_notifications();
    if (has_failed()) {
        return check(error);
    }
    if (has_left(peer)) {
        tti_error_set(error, TUTTI_PEER_LEFT, "%s: rank %d waits for rank %d, which has destroyed its group or ended",
                      what.c_str(), rank, peer);
    } else {
        tti_error_set(error, TUTTI_PEER_DEAD,
                      "%s: rank %d lost its connection with rank %d, which has died, has ended it after a "
                      "failure of its own, or cannot be reached any more; Gloo: %.200s",
                      what.c_str(), rank, peer, why.c_str());
    }
    error->suspect = peer;
    error->scope = TUTTI_SCOPE_GROUP;
    const tutti_status status = error->status;
    fail(*error);
    return status;
}

} // namespace tti
