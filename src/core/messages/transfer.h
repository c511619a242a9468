/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are ready to run: one for each tutti_send and tutti_recv, two for tutti_sendrecv, all messages of a
 * batch. A transfer owns everything it points to besides the caller's tensor and results.
 */
#ifndef TTI_CORE_MESSAGES_TRANSFER_H
#define TTI_CORE_MESSAGES_TRANSFER_H

#include "core/call/call.h"

struct tti_transfer {
    struct tti_transfer *next; /* in the order of posting */
    tutti_op op;
    struct tti_transfer
        *partner;            /* the other end, if that is this rank, too: then the backend does not get the message */
    const char *function;    /* "recv_alloc", for sentences */
    uint64_t flight;         /* number of its entry in the flight recorder; 0 = it has none */
    struct tti_group *group; /* alive while the messages are posted; a batch that is not ended may outlive it */
    tutti_group *handle;     /* of the group, to find out whether it is alive */
    DLDevice device;         /* of the group, for scratch and event */
    void *scratch;           /* compact stand-in of a strided tensor, or of one on a device; NULL if there is none */
    void *after;             /* recv on a device: the event behind which it may be written; NULL: at once */
    DLTensor tensor;         /* recv through scratch: where that goes in the end */
    int64_t shape[TUTTI_MAX_NDIM];
    int64_t strides[TUTTI_MAX_NDIM];
    tutti_message message; /* recv: the message that has arrived */
    tutti_message *message_out;
    bool probed;                       /* probe: `message` is there */
    DLManagedTensorVersioned *managed; /* recv_alloc: what was allocated */
    DLManagedTensorVersioned **managed_out;
};

/*
 * Matches sends to this rank with its own receives, copies those, runs all other messages together, delivers, and frees
 * what the transfers own (not the transfers). All of them are tried. Returns the first failure in the order of the
 * list. INVALID_ARGUMENT before any message runs if a message to or from this rank itself has no partner in the list.
 */
tutti_status tti_transfers_run(struct tti_call *c, struct tti_transfer *first);

/* The same in steps, for asynchronous messages. Matches the messages of this rank to itself; transfers without a
 * partner are between two ranks. INVALID_ARGUMENT as above. */
tutti_status tti_transfers_match(struct tti_call *c, struct tti_transfer *first);

/* After the messages between ranks have ended with `status`: copies, delivers, frees. Returns the first failure. */
tutti_status tti_transfers_conclude(struct tti_call *c, struct tti_transfer *first, tutti_status status);

/* For the flight recorder: the messages between two ranks begin, or have ended, all with `status` unless each has its
 * own. */
void tti_transfers_record_begin(const struct tti_call *c, struct tti_transfer *first);
void tti_transfers_record_end(const struct tti_call *c, struct tti_transfer *first, tutti_status status);

/* Memory of the host for a stand-in of `bytes` bytes, which the transfer owns; false: there is none. */
bool tti_transfer_take_scratch(struct tti_transfer *t, size_t bytes);

/* Fills the scratch of a send with its tensor. */
tutti_status tti_transfer_pack(struct tti_transfer *t, const struct tti_call *c, const DLTensor *tensor);

/* Frees what transfers own. Nothing is delivered. */
void tti_transfers_drop(struct tti_transfer *first);
void tti_transfer_drop(struct tti_transfer *t);

/* A new compact tensor of `content` bytes on the group's device; NULL without memory. */
DLManagedTensorVersioned *tti_managed_tensor(const struct tti_group *g, tutti_dtype dtype, size_t content, int32_t ndim,
                                             const int64_t *shape);

/* A tutti_op.allocate for recv_alloc; op->allocate_user is the transfer. */
tutti_status tti_transfer_allocate(tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape);

#endif
