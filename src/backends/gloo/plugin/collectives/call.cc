/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry barrier of a call and its waits. A rank whose deadline passes polls 250 ms longer, and then fails the
 * group: another rank may send a more precise cause, or a WAITS that clears a suspect.
 */
#include "backends/gloo/plugin/collectives/call.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace tti
{

namespace
{

constexpr int64_t GRACE_MS_AFTER_DEADLINE = 250; /* a quarter of the second that a call may take beyond its deadline */

/* "2, 5 and 7", truncated after about 80 characters. */
std::string list_of(const std::vector<int> &ranks)
{
    std::string text;
    for (size_t i = 0; i < ranks.size() && text.size() < 80; i++) {
        text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    }
    return text;
}

} // namespace

Call::Call(Group &g, tutti_op *o, tutti_error *e)
    : group(g), lane(g.lane[static_cast<size_t>(o->lane)]), op(o), error(e), failed(o->failed),
      started_ns_(o->begun_ns != 0 ? o->begun_ns : tti_now_ns()),
      deadline_ns_(tti_deadline_ns(started_ns_, o->timeout_ms))
{
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

void Call::post_records()
{
    const size_t ranks = static_cast<size_t>(group.size);
    lane.in.resize(2 * ranks * record_room());
    lane.out.resize(2 * ranks * record_room());
    lane.sends = group.mesh->buffer(lane.out.data(), lane.out.size());
    lane.receives.resize(ranks);
    for (int r = 0; r < group.size; r++) {
        if (r != group.rank) {
            lane.receives[static_cast<size_t>(r)] = group.mesh->buffer(lane.in.data(), lane.in.size());
        }
    }
    close();
}

unsigned char *Call::place(std::vector<unsigned char> &records, int peer, uint64_t round) const
{
    return records.data() + (2 * static_cast<size_t>(peer) + round % 2) * record_room();
}

const CallRecord &Call::record_of(int peer, uint64_t round) const
{
    return *reinterpret_cast<const CallRecord *>(place(lane.in, peer, round));
}

const CallRecord &Call::record(int peer) const
{
    return record_of(peer, round_);
}

unsigned char *Call::eager_data_of(int peer) const
{
    return place(lane.in, peer, round_) + sizeof(CallRecord);
}

/* A peer needs the receive of round k when it sends its record of that round, at which time it has this rank's records
 * of all rounds before. So the receives of later rounds are announced with the next record, and only one of the next
 * round itself at once. */
void Call::close()
{
    while (lane.open_rounds < lane.rounds + 2) {
        for (int r = 0; r < group.size; r++) {
            if (r != group.rank) {
                group.recv(*lane.receives[static_cast<size_t>(r)], r, slot(Use::RECORD),
                           static_cast<size_t>(place(lane.in, r, lane.open_rounds) - lane.in.data()), record_room(),
                           lane.open_rounds == lane.rounds);
            }
        }
        lane.open_rounds++;
    }
}

tutti_status Call::round(const CallRecord &own, const Plan *plan)
{
    const uint64_t number = lane.rounds++;
    const size_t before = number >= 1 ? (number - 1) * group.others() : 0;
    /* records of the last round but one have arrived, since their receivers have answered; Gloo may report that
     * later */
    tutti_status status = until([&] { return lane.sends->sent() >= before; }, [](int) { return true; });
    if (status != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < group.size; r++) {
        const size_t peer = static_cast<size_t>(r);
        unsigned char *to = place(r == group.rank ? lane.in : lane.out, r, number);
        CallRecord record = own;
        record.token = group.token + static_cast<uint64_t>(group.rank);
        size_t bytes = 0;
        if (plan) {
            const Span &eager = plan->out[peer];
            /* a rank that cannot take part may have no tensor; its record ends the call on all ranks */
            const bool sends = r != group.rank && failed == TUTTI_OK && eager.bytes <= group.eager;
            bytes = sends ? eager.bytes : 0;
            record.sends = plan->in_pairs ? eager.bytes : 0;
            if (bytes > 0) {
                std::memcpy(to + sizeof(record), eager.at, bytes);
            }
        }
        std::memcpy(to, &record, sizeof(record));
        if (r != group.rank) {
            group.send(*lane.sends, r, slot(Use::RECORD), static_cast<size_t>(to - lane.out.data()),
                       sizeof(record) + bytes);
        }
    }
    const auto has_come = [&](int r) { return lane.receives[static_cast<size_t>(r)]->received() > number; };
    int next = 0; /* all ranks before it have arrived */
    status = until(
        [&] {
            while (next < group.size && (next == group.rank || has_come(next))) {
                next++;
            }
            return next == group.size;
        },
        [&](int r) { return !has_come(r); });
    for (int r = 0; r < group.size && status == TUTTI_OK; r++) {
        if (record_of(r, number).token != group.token + static_cast<uint64_t>(r)) {
            tti_error_set(error, TUTTI_PEER_CORRUPT,
                          "rank %d received something else than a record of rank %d at its address %s; another program "
                          "may use that "
                          "address",
                          group.rank, r, group.address.c_str());
            error->suspect = r;
            group.fail(*error);
            status = TUTTI_PEER_CORRUPT;
        }
    }
    return status;
}

tutti_status Call::entry_barrier(const Plan &plan)
{
    CallRecord own{};
    if (lane.receives.empty()) {
        post_records();
    }
    own.call = static_cast<uint64_t>(op->sequence);
    own.scale = op->scale;
    own.failed = failed;
    own.decision = -1;
    tti_descriptor_make(op, group.size, own.descriptor);
    if ((op->flags & TUTTI_CANCELLABLE) && !tti_kind_waits_for_all(op->kind)) {
        tti_descriptor_agree(own.descriptor); /* compared: all ranks have this flag, or none */
    }
    round_ = lane.rounds;
    tutti_status status = round(own, &plan);
    if (status == TUTTI_OK) { /* a record may arrive from a rank that has failed since */
        group.poll_notifications();
        status = group.check(error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = compare();
    if (status != TUTTI_OK) {
        /* All ranks have the same result. A second round checks that all of them are still in this call: a rank whose
         * deadline has passed since sends GROUP_FAILED instead. */
        const tutti_status again = round(own, nullptr);
        return again == TUTTI_OK ? status : again;
    }
    return plan.in_pairs ? compare_pairs(plan) : status;
}

tutti_status Call::second_round(const Plan &plan)
{
    const CallRecord own = record(group.rank);
    round_ = lane.rounds;
    close();
    return round(own, &plan);
}

tutti_status Call::differs(int peer)
{
    const CallRecord &other = record(peer);
    const CallRecord &own = record(group.rank);
    const tti_rank_call theirs{peer, other.failed, other.descriptor};
    const tti_rank_call ours{group.rank, own.failed, own.descriptor};
    return tti_calls_differ(&theirs, &ours, static_cast<uint64_t>(op->sequence), op->lane, error);
}

/* Compares what must be the same on all ranks. All ranks compare the same records, so all get the same result. */
tutti_status Call::compare()
{
    const CallRecord &own = record(group.rank);
    int cancelled = -1;
    for (int r = 0; r < group.size; r++) {
        const CallRecord &other = record(r);
        if (other.descriptor[0] != own.descriptor[0] || other.descriptor[1] != own.descriptor[1] ||
            other.call != own.call ||
            (r != group.rank && other.failed != TUTTI_OK && other.failed != TUTTI_CANCELLED)) {
            return differs(r);
        }
        cancelled = cancelled < 0 && other.failed == TUTTI_CANCELLED ? r : cancelled;
    }
    if (failed != TUTTI_OK && failed != TUTTI_CANCELLED) {
        /* scratch has written its own sentence */
        return op->failed == TUTTI_OK
                   ? failed
                   : tti_error_set(error, failed, "%s: rank %d cannot take part: %s", tutti_operation_name(op->kind),
                                   group.rank, tutti_status_string(failed));
    }
    if (cancelled >= 0) {
        tti_error_set(error, TUTTI_CANCELLED, "rank %d cancelled call %" PRId64 " of lane %d (%s) on all ranks",
                      cancelled, op->sequence, op->lane, tutti_operation_name(op->kind));
        error->suspect = cancelled;
        return TUTTI_CANCELLED;
    }
    return TUTTI_OK;
}

/* Compares the sizes of each pair. A second round passes a difference on to all ranks, so that they stay in step. */
tutti_status Call::compare_pairs(const Plan &plan)
{
    CallRecord own = record(group.rank);
    for (int r = 0; r < group.size && own.decision < 0; r++) {
        own.sends = record(r).sends;
        own.expects = plan.in[static_cast<size_t>(r)].bytes;
        own.decision = own.sends != own.expects ? r : -1;
    }
    const uint64_t number = lane.rounds;
    const tutti_status status = round(own, nullptr);
    for (int r = 0; r < group.size && status == TUTTI_OK; r++) {
        const CallRecord &other = record_of(r, number);
        if (other.decision >= 0) {
            return tti_parts_differ(other.decision, other.sends, r, other.expects, static_cast<uint64_t>(op->sequence),
                                    op->lane, error);
        }
    }
    return status;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Whether the group has failed, or the connection to one of these ranks is lost. */
bool Call::cannot_arrive(const std::vector<int> &missing) const
{
    return group.has_failed() ||
           std::any_of(missing.begin(), missing.end(), [this](int r) { return group.mesh->is_lost(r); });
}

/* For the flight recorder: since when this rank waits; 0: it does not. */
void Call::set_waits_since(int64_t since_ns) const
{
    if (op->waits_since) { /* relaxed: read by other processes only */
        __atomic_store_n(op->waits_since, since_ns, __ATOMIC_RELAXED);
    }
}

Call::~Call()
{
    set_waits_since(0);
}

/* True at the deadline, or if the missing ranks cannot arrive. */
bool Call::has_ended(const std::vector<int> &missing) const
{
    return cannot_arrive(missing) || (deadline_ns_ != TTI_NEVER && tti_now_ns() >= deadline_ns_);
}

/* The same, but otherwise waits for the doorbell. */
bool Call::is_over(uint32_t seen, const std::vector<int> &missing)
{
    lane.awaited.store(missing.empty() ? -1 : missing.front(), std::memory_order_relaxed);
    set_waits_since(started_ns_);
    group.poll_notifications();
    if (group.peer_waits_in(op->lane)) {
        group.notify_waiting(op->lane, missing);
    }
    if (has_ended(missing)) {
        return true;
    }
    group.doorbell().wait(seen, deadline_ns_);
    return false;
}

/* After the deadline: until when to poll for notifications of other ranks; 0: not at all. */
int64_t Call::begin_grace(const std::vector<int> &missing)
{
    if (cannot_arrive(missing)) {
        return 0;
    }
    group.notify_waiting(op->lane, missing);
    return tti_now_ns() + GRACE_MS_AFTER_DEADLINE * 1000000;
}

/* Waits for the doorbell; false if the grace time is over or the missing ranks cannot arrive. */
bool Call::poll(int64_t limit_ns, const std::vector<int> &missing)
{
    const uint32_t seen = group.doorbell().value();
    group.poll_notifications();
    if (tti_now_ns() >= limit_ns || cannot_arrive(missing)) {
        return false;
    }
    group.doorbell().wait(seen, limit_ns);
    return true;
}

/* The error of a wait that ends without success. `late`: the ranks that were missing when it ended, `missing`: those
 * that still are. */
tutti_status Call::give_up(const std::vector<int> &late, const std::vector<int> &missing)
{
    lane.awaited.store(-1, std::memory_order_relaxed);
    if (group.has_failed()) {
        return group.check(error);
    }
    for (const int r : missing) {
        if (group.mesh->is_lost(r)) {
            return group.fail_by_lost_peer(r, tutti_operation_name(op->kind), error);
        }
    }
    return too_late(late);
}

tutti_status Call::too_late(const std::vector<int> &late)
{
    const std::vector<int> suspects = group.suspects(op->lane, late);
    const int64_t elapsed = (tti_now_ns() - started_ns_) / 1000000;
    tti_error_set(error, TUTTI_TIMEOUT, "%s: rank %d waited %" PRId64 " ms in call %" PRId64 " of lane %d for rank %s",
                  tutti_operation_name(op->kind), group.rank, elapsed, op->sequence, op->lane,
                  list_of(suspects).c_str());
    error->suspect = suspects.empty() ? -1 : suspects.front();
    error->elapsed_ms = elapsed;
    error->scope = TUTTI_SCOPE_GROUP;
    group.fail(*error);
    return TUTTI_TIMEOUT;
}

unsigned char *Call::scratch(size_t bytes)
{
    if (lane.scratch.size() < bytes) {
        try {
            lane.scratch = std::vector<unsigned char>(); /* frees the old memory first; its content is not needed */
            lane.scratch.resize(bytes);
        } catch (const std::exception &) { /* bad_alloc, or length_error */
            failed = tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for %zu bytes of scratch memory",
                                   tutti_operation_name(op->kind), bytes);
            return nullptr;
        }
    }
    return lane.scratch.data();
}

void handshake(Group &group, int64_t deadline_ns)
{
    tutti_op op{};
    tutti_error error;
    op.size = static_cast<uint32_t>(sizeof(op));
    op.kind = TUTTI_OP_BARRIER;
    op.begun_ns = tti_now_ns();
    op.timeout_ms = tti_remaining_ms(deadline_ns);
    Call c(group, &op, &error);
    const tutti_status status = c.entry_barrier(Plan(group.size));
    c.close();
    if (status != TUTTI_OK) {
        throw Failure(error);
    }
}

} // namespace tti
