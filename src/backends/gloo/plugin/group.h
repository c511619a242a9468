/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group: one connection to each other rank, and the notifications that ranks send each other when they fail, leave or
 * wait. Gloo's slots separate lanes, messages and notifications on a connection.
 *
 * A transfer of Gloo begins when the receiver is ready. So no unexpected data block a connection, and lanes and
 * messages share it. Gloo's thread throws if more bytes arrive than the receive expects. Therefore every receive has
 * either a fixed size that no sender exceeds, or a size that both ranks have compared.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_GROUP_H
#define TTI_BACKENDS_GLOO_PLUGIN_GROUP_H

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/transport/mesh.h"
#include "backends/gloo/plugin/transport/store.h"

namespace tti
{

/* The purpose of a transfer: the highest byte of its slot. */
enum class Use : uint64_t { NOTIFICATION = 1, RECORD, REDUCE, RESULT, TRANSFER, MESSAGE, DATA };

constexpr uint64_t slot_of(Use use, uint64_t number)
{
    return static_cast<uint64_t>(use) << 56 | number;
}

/* What a rank notifies the others of, besides calls; LEAVES and GROUP_FAILED at most once, WAITS at most once for each
 * lane. */
enum class NotificationKind : int32_t { LEAVES = 1, GROUP_FAILED, WAITS };
constexpr int NOTIFIED_RANKS = 1024; /* WAITS covers only the first ranks of a larger group */

struct Notification {
    uint64_t magic;
    NotificationKind kind;
    int32_t lane;                        /* WAITS: the lane in which the sender waits */
    uint8_t missing[NOTIFIED_RANKS / 8]; /* WAITS: a bit for each rank that it waits for */
    tutti_error cause;                   /* GROUP_FAILED */
};

struct Lane {
    std::atomic<int64_t> calls{0};    /* relaxed: the lane's owner counts */
    std::atomic<int32_t> awaited{-1}; /* relaxed: the lowest rank that the call waits for, or -1; a hint for abort */
    uint64_t rounds = 0;
    uint64_t open_rounds = 0;                      /* rounds for which receives have been posted */
    std::vector<unsigned char> in;                 /* two records for each rank: no rank is more than one round ahead */
    std::vector<unsigned char> out;                /* two records for each rank */
    std::vector<std::unique_ptr<Buffer>> receives; /* one for each rank */
    std::unique_ptr<Buffer> sends;
    std::vector<unsigned char> scratch;  /* grows, never shrinks */
    std::atomic<bool> peer_waits{false}; /* relaxed: another rank has sent WAITS; a hint, the rest is under the lock */
    bool notified_waiting = false;       /* under the group's lock, as the next two */
    std::vector<bool> waiting_ranks;     /* ranks that have sent WAITS */
    std::vector<bool> awaited_ranks;     /* ranks that one of those waits for */
    Notification waiting_notification{};
    std::unique_ptr<Buffer> waiting_buffer;
};

class Group
{
  public:
    /* Connects the ranks. Throws. */
    Group(const tutti_open_info *info, int64_t deadline_ns);
    ~Group();
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

    const int rank;
    const int size;
    const int lanes;
    const size_t eager;         /* tensors of up to this many bytes are sent in the records of calls */
    size_t segment = 0;         /* bytes of a chunk of a large transfer; the same on all ranks */
    uint64_t token = 0;         /* of this group only; the same on all ranks */
    std::string address;        /* this rank's address and why it was chosen; for describe and errors */
    std::shared_ptr<Mesh> mesh; /* NULL in a group of one */

    Doorbell &doorbell()
    {
        return mesh ? mesh->doorbell : doorbell_of_one_;
    }

    std::array<Lane, TUTTI_MAX_LANES> lane;

    /* Fails the group and notifies the other ranks, unless it has failed already. Not `is_returned`: no call returns
     * the cause now, so the next check does. */
    void fail(const tutti_error &cause, bool is_returned = true) noexcept;
    bool has_failed() const
    {
        /* acquire: pairs with the release in record_cause, the cause is complete */
        return failed_.load(std::memory_order_acquire) != TUTTI_OK;
    }
    /* OK, or REVOKED with the cause. Once: the cause itself, if it is this rank's and no call has returned it. */
    tutti_status check(tutti_error *error);
    /* OK, or the status of the first failure with its error. Detects lost connections. */
    tutti_status failure(tutti_error *error);
    /* Processes the notifications that have arrived. */
    void poll_notifications();

    /*
     * Finds the suspects when a deadline passes. A rank that this rank waits for may itself wait for another rank. So
     * this rank notifies all ranks that it waits, and for which ranks. A rank that receives this while it waits in the
     * same lane sends the same notification. The suspects are the ranks that some rank waits for in the lane and that
     * sent no notification. A rank whose deadline has passed always fails the group, so WAITS is sent at most once for
     * each lane.
     */
    void notify_waiting(int32_t waiting_lane, const std::vector<int> &missing);
    bool peer_waits_in(int32_t waiting_lane) const
    {
        return lane[static_cast<size_t>(waiting_lane)].peer_waits.load(std::memory_order_relaxed);
    }
    std::vector<int> suspects(int32_t waiting_lane, const std::vector<int> &missing);

    bool has_left(int peer) const
    {
        return left_[static_cast<size_t>(peer)].load(std::memory_order_acquire);
    }
    /* PEER_LEFT or PEER_DEAD for a rank whose connection is lost; fails the group. */
    tutti_status fail_by_lost_peer(int peer, const std::string &what, tutti_error *error);

    /* Not under the lock. False if the connection is lost, or without memory, which fails the group. The caller ignores
     * that: the wait for the transfer reports it. */
    bool send(Buffer &from, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept;
    /* Not `is_urgent`: the peer learns of the receive with the next data that this rank sends to it, or at flush. */
    bool recv(Buffer &to, int peer, uint64_t slot, size_t offset, size_t bytes, bool is_urgent = true) noexcept;
    void flush(int peer) noexcept;

    /* Notifies the other ranks once that this one leaves, unless the group has failed. Under the lock of the open
     * groups. */
    void leave() noexcept;
    /* Returns when the other hosts' kernels have all sent data, or at that time. */
    void await_sent(int64_t until_ns) noexcept;
    /* Ends what this rank sends, so that the other ranks lose their connections with it. */
    void hang_up() noexcept;

    Group *next_open = nullptr; /* under the lock of the open groups */

    /* How many connections have been lost. */
    uint32_t losses() const
    {
        return mesh ? mesh->losses.load(std::memory_order_acquire) : 0;
    }

    size_t others() const
    {
        return static_cast<size_t>(size - 1);
    }

  private:
    void connect(const tutti_open_info *info, int64_t deadline_ns);
    void agree(const tutti_open_info *info, Store &store);
    bool record_cause(const tutti_error &cause, bool is_returned) noexcept;
    /* How many notifications a rank sends at most. */
    size_t notifications() const
    {
        return 2 + static_cast<size_t>(lanes);
    }
    void notify(Notification &notification, Buffer &buffer, NotificationKind kind) noexcept;
    void process_incoming(const Notification &notification, int peer, tutti_error *cause);
    void fail_without_memory(int peer) noexcept;

    std::shared_ptr<Device> device_;
    Doorbell doorbell_of_one_;
    std::atomic<int32_t> failed_{TUTTI_OK};
    std::mutex lock_; /* protects the cause, and what poll_notifications changes */
    tutti_error cause_{};
    std::atomic<bool> owes_cause_{false}; /* relaxed: record_cause stores it before the release of failed_ */
    std::vector<std::atomic<bool>> left_;
    std::vector<Notification> notifications_in_; /* under the lock, as the next; those of each rank in a row */
    std::vector<size_t> notifications_seen_;
    std::vector<std::unique_ptr<Buffer>> notification_buffers_;
    Notification failed_notification_{};
    Notification left_notification_{};
    bool notified_left_ = false; /* under the lock of the open groups */
    std::unique_ptr<Buffer> failed_buffer_;
    std::unique_ptr<Buffer> left_buffer_;
};

} // namespace tti

#endif
