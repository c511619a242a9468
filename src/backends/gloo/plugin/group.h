/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group: one connection with each other rank, on which everything is told apart by Gloo's slots, and the news that ranks
 * tell one another of failures and departures.
 *
 * A transfer of Gloo begins when the receiver has said that it is ready, so nothing unexpected is ever in the way on a
 * connection, and lanes and messages can share it. What is sent must not be longer than what is expected, or Gloo's thread
 * throws; every receive here has either a fixed size that no sender exceeds, or one that both sides have compared.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_GROUP_H
#define TTI_BACKENDS_GLOO_PLUGIN_GROUP_H

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/mesh.h"
#include "backends/gloo/plugin/messages.h"
#include "backends/gloo/plugin/store.h"

namespace tti
{

/* What a transfer is for; the highest byte of its slot. */
enum class Use : uint64_t { NOTIFICATION = 1, RECORD, REDUCE, RESULT, TRANSFER, MESSAGE, DATA };

constexpr uint64_t slot_of(Use use, uint64_t number)
{
    return static_cast<uint64_t>(use) << 56 | number;
}

/* What a rank says to each other one at the beginning of a collective; behind it, data, if they are few. */
struct CallRecord {
    uint64_t token; /* the group's, and the sender's rank */
    uint64_t call;
    uint64_t descriptor[2];
    uint64_t sends;   /* all_to_all: bytes for the receiver of this letter */
    uint64_t expects; /* ... and from it */
    double scale;
    int32_t decision; /* second round of all_to_all_v: a rank that sends other than is expected, or -1 */
    int32_t failed;   /* why the sender cannot take part */
};
static_assert(sizeof(CallRecord) == 64, "what is behind it is aligned");

/* Data up to so many bytes travel in the letter. */
constexpr size_t CALL_EAGER = 8192;
constexpr size_t RECORD_ROOM = sizeof(CallRecord) + CALL_EAGER;

struct Lane {
    std::atomic<int64_t> calls{0};    /* relaxed: the lane's owner counts */
    std::atomic<int32_t> awaited{-1}; /* relaxed: the lowest rank that is waited for, a hint for abort */
    uint64_t rounds = 0;
    uint64_t open_rounds = 0;                      /* for which receives have been posted */
    std::vector<unsigned char> in;                 /* two letters for each rank: nobody is more than one round ahead */
    std::vector<unsigned char> out;                /* likewise */
    std::vector<std::unique_ptr<Buffer>> receives; /* one for each rank */
    std::unique_ptr<Buffer> sends;
    std::vector<unsigned char> scratch; /* grows, is kept */
};

/* What ranks tell one another besides calls, each at most once. */
enum class NotificationKind : int32_t { LEAVES = 1, GROUP_FAILED, WAITS };
constexpr size_t NOTIFICATION_KINDS = 3;
constexpr int NOTIFIED_RANKS =
    1024; /* of larger groups, a rank tells of the first ones only whether it waits for them */

struct Notification {
    uint64_t magic;
    NotificationKind kind;
    int32_t lane; /* WAITS: where, and for whom */
    uint8_t missing[NOTIFIED_RANKS / 8];
    tutti_error cause; /* GROUP_FAILED */
};

class Group
{
  public:
    explicit Group(const tutti_open_info *info);
    ~Group();
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

    const int rank;
    const int size;
    const int lanes;
    const int64_t timeout_ms;
    size_t segment = 0;         /* bytes that large transfers are cut into; the same on all ranks */
    uint64_t token = 0;         /* likewise, and of no other group */
    std::string way;            /* this rank's address, for people */
    std::shared_ptr<Mesh> mesh; /* NULL in a group of one */
    Doorbell &doorbell()
    {
        return mesh ? mesh->doorbell : doorbell_of_one_;
    }

    std::array<Lane, TUTTI_MAX_LANES> lane;
    Messages messages;

    /* Fails the group, unless it has, and tells the others. */
    void fail(const tutti_error &cause) noexcept;
    bool has_failed() const
    {
        /* acquire: pairs with the release in note, the cause is there */
        return failed_.load(std::memory_order_acquire) != TUTTI_OK;
    }
    /* OK, or REVOKED with the cause. */
    tutti_status check(tutti_error *error);
    /* The status and the cause as it was. */
    tutti_status failure(tutti_error *error);
    /* Takes in what others have told. */
    void look();

    /*
     * Who is to blame for a deadline that passes? A rank that this one waits for may itself wait for another. So it tells all that
     * it waits, and for whom; who hears that while it waits in the same lane tells likewise. Then those count that were waited for
     * by somebody and have told nothing.
     */
    void notify_waiting(int32_t waiting_lane, const std::vector<int> &missing);
    bool peer_waits_in(int32_t waiting_lane) const
    {
        return notified_lane_.load(std::memory_order_relaxed) == waiting_lane; /* a hint: the rest is under the lock */
    }
    std::vector<int> suspects(const std::vector<int> &missing);

    bool has_left(int peer) const
    {
        return left_[static_cast<size_t>(peer)].load(std::memory_order_acquire);
    }
    /* PEER_LEFT or PEER_DEAD; the second fails the group. */
    tutti_status peer_is_gone(int peer, const std::string &what, tutti_error *error);

    /* These tell a lost connection by false; what to do about it is decided where something is awaited. */
    bool send(Buffer &from, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept;
    bool recv(Buffer &to, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept;

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
    void connect(const tutti_open_info *info);
    void agree(const tutti_open_info *info, Store &store);
    bool note(const tutti_error &cause) noexcept;
    void notify(Notification &notification, Buffer &buffer, NotificationKind kind) noexcept;
    void process_incoming(const Notification &notification, int peer, tutti_error *cause);
    void await_sent(int64_t limit_ms);

    std::shared_ptr<Device> device_;
    Doorbell doorbell_of_one_;
    std::atomic<int32_t> failed_{TUTTI_OK};
    std::mutex lock_; /* the cause, and what looking at the news changes */
    tutti_error cause_{};
    std::vector<std::atomic<bool>> left_;
    std::atomic<int32_t> notified_lane_{-1};
    bool notified_waiting_ = false;              /* with the lock, and what follows */
    std::vector<bool> waits_;                    /* ranks that have told that they wait */
    std::vector<bool> awaited_;                  /* ranks that one of these waits for */
    std::vector<Notification> notifications_in_; /* FACTS for each rank */
    std::vector<size_t> notifications_seen_;
    std::vector<std::unique_ptr<Buffer>> notification_buffers_;
    Notification failed_notification_{};
    Notification left_notification_{};
    Notification waiting_notification_{};
    std::unique_ptr<Buffer> failed_buffer_;
    std::unique_ptr<Buffer> left_buffer_;
    std::unique_ptr<Buffer> waiting_buffer_;
};

} // namespace tti

#endif
