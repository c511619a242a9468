/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a group. Gloo carries bytes whose number both sides know; matching is done here, because Tutti's messages
 * carry a dtype and a shape, may come from any rank with any tag, and stay if a receive does not fit.
 *
 * A message is an envelope: one transfer of Gloo with a fixed head, the shape, and the data if they are few. Each rank has
 * receives for some envelopes of each other one posted all the time. Larger data follow in a second transfer on a
 * slot of its own, which the envelope names, straight from the sender's tensor into the receiver's, once there is a receive
 * for them. Envelopes of a pair arrive in the order of their sending.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_MESSAGES_H
#define TTI_BACKENDS_GLOO_PLUGIN_MESSAGES_H

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gloo/plugin/mesh.h"

namespace tti
{

class Group;

constexpr size_t EAGER = 2048;  /* so many bytes of data travel in the envelope */
constexpr size_t ENVELOPES = 4; /* of each rank that may come before somebody looks */

struct Envelope {
    uint64_t bytes;
    uint64_t number; /* of the transfer with the data; 0: they are in the envelope */
    int32_t tag;
    int32_t dtype;
    int32_t ndim;
    int32_t reserved;
};

constexpr size_t ENVELOPE_ROOM = sizeof(Envelope) + TUTTI_MAX_NDIM * sizeof(int64_t) + EAGER;

struct Request;

/* A message that has come, or at least its envelope. */
struct IncomingMessage {
    int source = -1;
    Envelope head{};
    std::vector<int64_t> shape;
    std::vector<unsigned char> data;
    Request *sender = nullptr; /* of this rank itself, with more data than fit: they are in its tensor */
};

struct Posting;

/* A send or a receive. */
struct Request {
    tutti_op *op = nullptr;
    Posting *posting = nullptr;
    std::vector<unsigned char> envelope;
    std::unique_ptr<Buffer> envelope_buffer; /* what is being sent */
    std::unique_ptr<Buffer> data_buffer;     /* what is being sent or received */
    tutti_message came{};
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
    tutti_status status = TUTTI_OK; /* of the group, if that ended it */
    tutti_error error{};
};

class Messages
{
  public:
    explicit Messages(Group &group);

    /* Once the group is connected. */
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
    /* messages.cc; all with the lock */
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
    bool look(Posting &p);
    void end_all(Posting &p, tutti_status status);
    void end_late(Posting &p);
    void look_at_peers(Posting &p);
    tutti_status result(Posting &p, tutti_error *error);

    Group &group_;
    std::mutex lock_;
    std::vector<unsigned char> in_; /* ENVELOPES of each rank */
    std::vector<std::unique_ptr<Buffer>> in_buffers_;
    std::vector<size_t> taken_;
    std::list<IncomingMessage> unexpected_; /* that nobody has wanted yet, oldest first */
    std::list<Request *> waiting_;          /* receives that have no envelope, in the order of posting */
    std::list<Request *> active_;           /* Gloo works on them */
    int64_t sequence_ = 0;
    uint64_t next_number_ = 1;
    std::atomic<uint32_t> changes_{0}; /* grows when something has ended, or somebody is to look again */
    uint32_t changes_seen_ = 0;        /* by the worker, which alone attends to no batch */
    uint32_t lost_ = 0;                /* likewise: connections */
};

} // namespace tti

#endif
