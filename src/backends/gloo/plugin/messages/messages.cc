/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers of envelopes and data (see messages.h). Every thread that waits for a message makes progress for all
 * messages. Envelopes are matched in the order of arrival, receives in the order of posting. Invariant: no waiting
 * receive matches an unexpected message, so each pair is compared once.
 */
#include "backends/gloo/plugin/messages/messages.h"

#include <algorithm>
#include <cstring>

namespace tti
{

Messages::Messages(Group &group) : group_(group)
{
}

void Messages::begin()
{
    const size_t ranks = static_cast<size_t>(group_.size);
    in_.resize(ranks * ENVELOPES * ENVELOPE_ROOM);
    in_buffers_.resize(ranks);
    taken_.resize(ranks);
    for (size_t r = 0; r < ranks; r++) {
        if (r != static_cast<size_t>(group_.rank)) {
            in_buffers_[r] = group_.mesh->buffer(in_.data(), in_.size());
            for (size_t i = 0; i < ENVELOPES; i++) {
                group_.recv(*in_buffers_[r], static_cast<int>(r), slot_of(Use::MESSAGE, 0),
                            (r * ENVELOPES + i) * ENVELOPE_ROOM, ENVELOPE_ROOM);
            }
        }
    }
}

void Messages::finish(Request &r, tutti_status status)
{
    r.envelope_buffer.reset(); /* waits until Gloo's thread has left their memory */
    r.data_buffer.reset();
    r.status = status;
    r.done = true;
    r.posting->open--;
    /* release: pairs with the acquire in attend */
    changes_.fetch_add(1, std::memory_order_release);
    group_.doorbell().ring();
}

bool Messages::matches(const tutti_op &op, const IncomingMessage &incoming)
{
    return tti_message_taken_by(&op, incoming.source, incoming.head.tag);
}

void Messages::fill_message(const IncomingMessage &incoming, tutti_message *message)
{
    message->dtype = incoming.head.dtype;
    message->source = incoming.source;
    message->tag = incoming.head.tag;
    message->bytes = static_cast<int64_t>(incoming.head.bytes);
    message->count = static_cast<int64_t>(incoming.head.bytes / tti_dtype_size(incoming.head.dtype));
}

/* Starts the receive of a message; `r` is in no list. False if the message does not fit: the receive has ended. */
bool Messages::accept(Request &r, IncomingMessage &incoming)
{
    tutti_op *op = r.op;
    r.received = tutti_message TUTTI_MESSAGE_INIT;
    fill_message(incoming, &r.received);
    const tutti_status status = tti_message_fits(op, &r.received, incoming.head.ndim, incoming.shape.data());
    if (status != TUTTI_OK) {
        finish(r, status);
        return false;
    }
    if (op->message) {
        *op->message = r.received;
    }
    const size_t bytes = static_cast<size_t>(incoming.head.bytes);
    if (incoming.sender || incoming.head.number == 0) {
        if (bytes > 0) {
            std::memcpy(op->dst, incoming.sender ? incoming.sender->op->src : incoming.data.data(), bytes);
        }
        if (incoming.sender) {
            finish(*incoming.sender, TUTTI_OK);
        }
        finish(r, TUTTI_OK);
        return true;
    }
    r.data_buffer = group_.mesh->buffer(op->dst, bytes);
    group_.recv(*r.data_buffer, incoming.source, slot_of(Use::DATA, incoming.head.number), 0, bytes);
    active_.push_back(&r);
    return true;
}

void Messages::deliver(IncomingMessage &&incoming)
{
    for (auto i = waiting_.begin(); i != waiting_.end();) {
        Request &r = **i;
        if (!matches(*r.op, incoming)) {
            ++i;
            continue;
        }
        i = waiting_.erase(i);
        if (accept(r, incoming)) {
            return;
        }
    }
    unexpected_.push_back(std::move(incoming));
}

/* Whether the values of an envelope are possible: the sender may be another version, or broken. */
static bool is_valid(const Envelope &head)
{
    const size_t item = tutti_dtype_size(head.dtype);
    return item > 0 && head.ndim >= 0 && head.ndim <= TUTTI_MAX_NDIM && head.tag >= 0 && head.bytes % item == 0 &&
           head.bytes <= static_cast<uint64_t>(INT64_MAX) && (head.number != 0 || head.bytes <= EAGER) &&
           head.number < (UINT64_C(1) << 56);
}

void Messages::process_incoming(int peer)
{
    const size_t r = static_cast<size_t>(peer);
    while (taken_[r] < in_buffers_[r]->received()) {
        const size_t offset = (r * ENVELOPES + taken_[r]++ % ENVELOPES) * ENVELOPE_ROOM;
        const unsigned char *from = in_.data() + offset;
        IncomingMessage incoming;
        incoming.source = peer;
        std::memcpy(&incoming.head, from, sizeof(incoming.head));
        if (!is_valid(incoming.head)) {
            tutti_error error;
            tti_error_set(&error, TUTTI_PEER_CORRUPT,
                          "rank %d received a message with impossible values from rank %d; run the same version of "
                          "Tutti on all ranks",
                          group_.rank, peer);
            error.suspect = peer;
            group_.fail(error);
            return;
        }
        from += sizeof(incoming.head);
        incoming.shape.resize(static_cast<size_t>(incoming.head.ndim));
        const size_t shape = incoming.shape.size() * sizeof(int64_t);
        if (shape > 0) {
            std::memcpy(incoming.shape.data(), from, shape);
        }
        if (incoming.head.number == 0) {
            incoming.data.assign(from + shape, from + shape + incoming.head.bytes);
        }
        group_.recv(*in_buffers_[r], peer, slot_of(Use::MESSAGE, 0), offset, ENVELOPE_ROOM);
        deliver(std::move(incoming));
    }
}

void Messages::progress()
{
    for (int peer = 0; group_.mesh && peer < group_.size && !group_.has_failed(); peer++) {
        if (peer != group_.rank) {
            process_incoming(peer);
        }
    }
    for (auto i = active_.begin(); i != active_.end();) {
        Request &r = **i;
        const bool sends = r.op->kind == TUTTI_OP_SEND;
        const bool envelope_gone = !r.envelope_buffer || r.envelope_buffer->sent() > 0;
        const bool data_gone = !r.data_buffer || (sends ? r.data_buffer->sent() : r.data_buffer->received()) > 0;
        if (envelope_gone && data_gone) {
            i = active_.erase(i);
            finish(r, TUTTI_OK);
        } else {
            ++i;
        }
    }
}

void Messages::post_recv(Request &r)
{
    const auto i = std::find_if(unexpected_.begin(), unexpected_.end(),
                                [&r](const IncomingMessage &incoming) { return matches(*r.op, incoming); });
    if (i == unexpected_.end()) {
        waiting_.push_back(&r);
    } else if (accept(r, *i)) {
        unexpected_.erase(i);
    } /* else the message stays receivable */
}

void Messages::post_send(Request &r)
{
    const tutti_op *op = r.op;
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    const size_t shape = static_cast<size_t>(op->ndim) * sizeof(int64_t);
    const bool follows = bytes > EAGER;
    Envelope head{};
    head.bytes = bytes;
    head.number = follows ? next_number_++ : 0;
    head.tag = op->p2p_tag;
    head.dtype = op->dtype;
    head.ndim = op->ndim;
    const unsigned char *src = static_cast<const unsigned char *>(op->src);
    if (op->root == group_.rank) {
        IncomingMessage incoming;
        incoming.source = op->root;
        incoming.head = head;
        incoming.shape.assign(op->shape, op->shape + op->ndim);
        if (follows) {
            incoming.sender = &r;
        } else {
            incoming.data.assign(src, src + bytes);
            finish(r, TUTTI_OK);
        }
        deliver(std::move(incoming));
        return;
    }
    r.envelope.resize(sizeof(head) + shape + (follows ? 0 : bytes));
    std::memcpy(r.envelope.data(), &head, sizeof(head));
    if (shape > 0) {
        std::memcpy(r.envelope.data() + sizeof(head), op->shape, shape);
    }
    if (!follows && bytes > 0) {
        std::memcpy(r.envelope.data() + sizeof(head) + shape, src, bytes);
    }
    r.envelope_buffer = group_.mesh->buffer(r.envelope.data(), r.envelope.size());
    group_.send(*r.envelope_buffer, op->root, slot_of(Use::MESSAGE, 0), 0, r.envelope.size());
    if (follows) {
        r.data_buffer = group_.mesh->buffer(src, bytes);
        group_.send(*r.data_buffer, op->root, slot_of(Use::DATA, head.number), 0, bytes);
    }
    active_.push_back(&r);
}

/* False for a receive without an envelope, which can be withdrawn without effect on other ranks. A send has reached its
 * receiver already. */
bool Messages::has_begun(const Request &r) const
{
    return std::find(waiting_.begin(), waiting_.end(), &r) == waiting_.end();
}

void Messages::withdraw(Request &r, tutti_status status)
{
    if (r.done) {
        return;
    }
    waiting_.remove(&r);
    active_.remove(&r);
    unexpected_.remove_if([&r](const IncomingMessage &incoming) { return incoming.sender == &r; });
    finish(r, status);
}

} // namespace tti
