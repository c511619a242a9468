/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a group. A transfer of Gloo needs a size that both ranks know. Tutti's messages carry a dtype and a
 * shape, may come from any rank with any tag, and stay receivable if a receive does not fit. So matching is done here.
 *
 * Eager protocol: up to EAGER bytes are sent in the envelope, one transfer of Gloo with a fixed head and the shape.
 * Each rank always has ENVELOPES receives posted for each other rank. Rendezvous protocol: larger data follow in a
 * second transfer on the slot that the envelope names, directly from tensor to tensor, once a receive matches.
 * Envelopes of a pair arrive in the order in which they were sent.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_MESSAGES_MESSAGES_H
#define TTI_BACKENDS_GLOO_PLUGIN_MESSAGES_MESSAGES_H

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/group.h"

namespace tti
{

constexpr size_t EAGER = 2048;  /* up to this many bytes of data are sent in the envelope */
constexpr size_t ENVELOPES = 4; /* of each rank that can arrive between two polls */

struct Envelope {
    uint64_t bytes;
    uint64_t number; /* of the transfer with the data; 0: the data are in the envelope */
    int32_t tag;
    int32_t dtype;
    int32_t ndim;
    int32_t reserved;
};

constexpr size_t ENVELOPE_ROOM = sizeof(Envelope) + TUTTI_MAX_NDIM * sizeof(int64_t) + EAGER;

struct Request;

/* A message whose envelope has arrived. */
struct IncomingMessage {
    int source = -1;
    Envelope head{};
    std::vector<int64_t> shape;
    std::vector<unsigned char> data;
    Request *sender = nullptr; /* a message of this rank to itself with more data: they are in the sender's tensor */
};

struct Posting;

/* A send or a receive. */
struct Request {
    tutti_op *op = nullptr;
    Posting *posting = nullptr;
    std::vector<unsigned char> envelope;
    std::unique_ptr<Buffer> envelope_buffer; /* a send's */
    std::unique_ptr<Buffer> data_buffer;     /* a send's or a receive's; NULL: the data are in the envelope */
    tutti_message received{};                /* a receive's, once its envelope has arrived */
    tutti_status status = TUTTI_OK;
    bool done = false;
};

/* Requests that were posted together. */
struct Posting {
    std::vector<Request> requests;
    size_t open = 0; /* requests that are not done */
    int64_t begun_ns = 0;
    int64_t timeout_ms = 0;
    int64_t deadline_ns = 0;
    tutti_status status = TUTTI_OK; /* of the group, if its failure ended the posting */
    tutti_error error{};
};

class Messages
{
  public:
    explicit Messages(Group &group);

    /* Posts the receives for envelopes. The group is connected. */
    void begin();

    tutti_status run(tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
    tutti_status probe(int32_t peer, int32_t tag, int32_t *found, tutti_message *message, tutti_error *error);
    tutti_status post(tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch, tutti_error *error);
    bool test(Posting &p);
    void attend(Posting *p, int64_t until_ns);
    void wake();
    bool cancel(Posting &p);
    tutti_status end(Posting *p, tutti_error *error);

  private:
    /* messages.cc; all under the lock */
    void progress();
    void process_incoming(int peer);
    void deliver(IncomingMessage &&incoming);
    bool accept(Request &r, IncomingMessage &incoming);
    void post_send(Request &r);
    void post_recv(Request &r);
    bool has_begun(const Request &r) const;
    void withdraw(Request &r, tutti_status status);
    void finish(Request &r, tutti_status status);
    static bool matches(const tutti_op &op, const IncomingMessage &incoming);
    static void fill_message(const IncomingMessage &incoming, tutti_message *message);

    /* postings.cc */
    tutti_status start(Posting &p, tutti_op *const *ops, size_t count, int64_t timeout_ms);
    bool poll(Posting &p);
    void end_all(Posting &p, tutti_status status);
    void end_by_exception(const std::exception &e, Posting &p);
    void end_late(Posting &p);
    int lost_peer(int from) const;
    int settled_lost_peer(int from);
    const IncomingMessage *find_unexpected(const tutti_op &wanted) const;
    void end_lost(Posting &p);
    tutti_status result(Posting &p, tutti_error *error);

    Group &group_;
    std::mutex lock_;
    std::vector<unsigned char> in_; /* ENVELOPES of each rank */
    std::vector<std::unique_ptr<Buffer>> in_buffers_;
    std::vector<size_t> taken_;
    std::list<IncomingMessage> unexpected_; /* without a receive so far, oldest first */
    std::list<Request *> waiting_;          /* receives without an envelope, in the order of posting */
    std::list<Request *> active_;           /* with a transfer in flight */
    int64_t sequence_ = 0;
    uint64_t next_number_ = 1;
    std::atomic<uint32_t> changes_{0}; /* event counter: requests that have ended, and calls of wake */
    uint32_t changes_seen_ = 0;        /* by the worker; only the worker calls attend without a batch */
    uint32_t losses_seen_ = 0;         /* lost connections seen by the worker */
};

} // namespace tti

#endif
