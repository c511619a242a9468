/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/p2p.h - messages between two ranks.
 *
 * Messages are matched by (group, peer, tag) and do not overtake one another within a pair and tag. They lie outside
 * the order of lanes. A message is a tensor; the receiver's dtype must be the sender's, and its tensor at least as
 * large, otherwise MISMATCH - and the message stays, so that it can be probed and received properly.
 *
 * Semantics as MPI 4.1, chapter 3: tutti_send ends when its buffer may be reused; whether that needs the receiver is
 * not promised. To post several operations before waiting for any, use tutti_sendrecv or a batch.
 */
#ifndef TUTTI_P2P_H
#define TUTTI_P2P_H

#include <tutti/collectives.h>

TUTTI_BEGIN_DECLS

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG    (-1)

/** What is known of a message. `size` is set by the caller: TUTTI_MESSAGE_INIT or tutti_message_init. */
typedef struct tutti_message {
    uint32_t size;
    tutti_dtype dtype;
    int32_t source;
    int32_t tag;
    int64_t count; /* elements */
    int64_t bytes;
} tutti_message;
TUTTI_STATIC_ASSERT(sizeof(tutti_message) == 32, "no padding");

#define TUTTI_MESSAGE_INIT                                                                                             \
    {                                                                                                                  \
        (uint32_t)sizeof(tutti_message), 0, 0, 0, 0, 0                                                                 \
    }

/** Sets every field to 0 and `size` to this library's; for foreign languages. NULL is ignored. */
TUTTI_API void tutti_message_init(tutti_message *message);

/**
 * Sends the tensor to rank `peer` with a tag >= 0. Sending to oneself is INVALID_ARGUMENT unless a batch or
 * tutti_sendrecv holds the matching receive.
 */
TUTTI_API tutti_status tutti_send(tutti_group *group, const DLTensor *tensor, int32_t peer, int32_t tag,
                                  const tutti_call *call);

/**
 * Receives a message from `peer` (or TUTTI_ANY_SOURCE) with `tag` (or TUTTI_ANY_TAG) into the tensor. A message with
 * fewer elements fills the beginning. `message` (may be NULL) tells what came; with NULL use tutti_probe's counts.
 */
TUTTI_API tutti_status tutti_recv(tutti_group *group, DLTensor *tensor, int32_t peer, int32_t tag,
                                  const tutti_call *call, tutti_message *message);

/**
 * The same for a message of unknown shape: allocates a compact CPU tensor of the sender's shape and dtype and returns
 * it as a DLPack managed tensor, which the caller frees by (*tensor)->deleter(*tensor). No other thread can steal the
 * message between its size becoming known and its receipt.
 */
TUTTI_API tutti_status tutti_recv_alloc(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                        DLManagedTensorVersioned **tensor, tutti_message *message);

/** Sends one tensor and receives another at the same time; the two peers may be the same rank, oneself included. The
 *  tensors must not overlap. */
TUTTI_API tutti_status tutti_sendrecv(tutti_group *group, const DLTensor *send_tensor, int32_t destination,
                                      int32_t send_tag, DLTensor *recv_tensor, int32_t source, int32_t recv_tag,
                                      const tutti_call *call, tutti_message *message);

/** Looks whether a message could be received now; never waits. *found becomes 1 (and *message, if not NULL, is filled)
 *  or 0. With several receiving threads use tutti_recv_alloc instead of probe and receive. */
TUTTI_API tutti_status tutti_probe(tutti_group *group, int32_t peer, int32_t tag, int32_t *found,
                                   tutti_message *message, tutti_error *error);

/**
 * Waits until a message from `peer` (or TUTTI_ANY_SOURCE) with `tag` (or TUTTI_ANY_TAG) could be received, and tells of it in
 * *message (may be NULL); the message stays for a receive. The probe stands in line with the receives of this rank: one that
 * was posted before it and takes the same message gets that message, and the probe waits for the next one. The deadline
 * (`.timeout_ms`) ends the call only: TIMEOUT with error->scope CALL, and the group is as good as before, since no other rank
 * takes part. If the group fails, or the peer leaves or dies, it ends as a receive does. INVALID_ARGUMENT for the own rank,
 * which sends itself nothing; UNSUPPORTED if the backend has no asynchronous messages. A token needs tutti_probe_async.
 */
TUTTI_API tutti_status tutti_probe_wait(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                        tutti_message *message);

/**
 * Opens a batch on this thread: sends and receives that follow on `group` from this thread are checked and noted, and
 * return at once. tutti_batch_end starts them together and waits for all. Tensors and `message` pointers are borrowed
 * until then. Collectives are not part of a batch: BAD_STATE. One batch per thread: a second begin is BAD_STATE.
 */
TUTTI_API tutti_status tutti_batch_begin(tutti_group *group, tutti_error *error);

/** Runs the batch. All of its operations are tried; the first error is returned. The `.timeout_ms` and `.lane` of this
 *  call count, not those of the members. An empty batch is OK; without begin: BAD_STATE. */
TUTTI_API tutti_status tutti_batch_end(tutti_group *group, const tutti_call *call);

TUTTI_END_DECLS

#endif
