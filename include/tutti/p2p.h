/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/p2p.h - messages between two ranks.
 *
 * Messages are matched by (group, peer, tag), and do not overtake one another within a pair and tag. They are outside
 * the order of lanes. A message is a tensor. The receiver's dtype must be the sender's, and its tensor at least as
 * large. Otherwise the receive returns MISMATCH, and the message stays: it can be probed and received again.
 *
 * Semantics as in MPI 4.1, chapter 3: tutti_send ends when its buffer may be reused, which may need the receiver. To
 * post several operations before waiting, use tutti_sendrecv or a batch.
 */
#ifndef TUTTI_P2P_H
#define TUTTI_P2P_H

#include <tutti/collectives.h>

TUTTI_BEGIN_DECLS

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG    (-1)

/** Description of a message. The caller sets `size`: TUTTI_MESSAGE_INIT or tutti_message_init. */
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
 * Sends the tensor to rank `peer` with a tag >= 0. Sending to the own rank is INVALID_ARGUMENT, unless a batch or
 * tutti_sendrecv contains the matching receive.
 */
TUTTI_API tutti_status tutti_send(tutti_group *group, const DLTensor *tensor, int32_t peer, int32_t tag,
                                  const tutti_call *call);

/**
 * Receives a message from `peer` (or TUTTI_ANY_SOURCE) with `tag` (or TUTTI_ANY_TAG) into the tensor. A message with
 * fewer elements fills the beginning. `message` (may be NULL) gets its description.
 */
TUTTI_API tutti_status tutti_recv(tutti_group *group, DLTensor *tensor, int32_t peer, int32_t tag,
                                  const tutti_call *call, tutti_message *message);

/**
 * tutti_recv for a message of unknown shape. Allocates a compact tensor of the sender's shape and dtype on the group's
 * device, as a DLPack managed tensor. The caller frees it by (*tensor)->deleter(*tensor). Matching and receiving are
 * one step, so no other thread can receive the message in between.
 */
TUTTI_API tutti_status tutti_recv_alloc(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                        DLManagedTensorVersioned **tensor, tutti_message *message);

/**
 * Sends one tensor and receives another at the same time. Both peers may be the same rank, also the own one. The
 * tensors must not overlap.
 */
TUTTI_API tutti_status tutti_sendrecv(tutti_group *group, const DLTensor *send_tensor, int32_t destination,
                                      int32_t send_tag, DLTensor *recv_tensor, int32_t source, int32_t recv_tag,
                                      const tutti_call *call, tutti_message *message);

/**
 * Whether a message can be received now; never waits. *found becomes 1 (and *message, if not NULL, is filled) or 0.
 * With several receiving threads use tutti_recv_alloc instead of a probe and a receive.
 */
TUTTI_API tutti_status tutti_probe(tutti_group *group, int32_t peer, int32_t tag, int32_t *found,
                                   tutti_message *message, tutti_error *error);

/**
 * Waits until a message from `peer` (or TUTTI_ANY_SOURCE) with `tag` (or TUTTI_ANY_TAG) can be received. *message (may
 * be NULL) gets its description, and the message stays. The probe is ordered with the receives of this rank: a receive
 * that was posted before it and matches the message gets it, and the probe waits for the next one. The deadline
 * (`.timeout_ms`) ends only the call: TIMEOUT with error->scope CALL, and the group stays usable, because no other rank
 * takes part. If the group fails, or the peer leaves or dies, the call ends as a receive does. Errors: INVALID_ARGUMENT
 * for the own rank; UNSUPPORTED if the backend has no asynchronous messages. For a cancel token use tutti_probe_async.
 */
TUTTI_API tutti_status tutti_probe_wait(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                        tutti_message *message);

/**
 * Opens a batch on this thread: later sends and receives of this thread on `group` are checked and recorded, and return
 * at once. tutti_batch_end starts them together and waits for all. Tensors and `message` pointers are borrowed until
 * then. A collective in a batch is BAD_STATE. A thread has one batch: a second begin is BAD_STATE.
 */
TUTTI_API tutti_status tutti_batch_begin(tutti_group *group, tutti_error *error);

/**
 * Runs the batch. Tries all its operations and returns the first error. The `.timeout_ms` and `.lane` of this call
 * count, not those of the members. An empty batch is OK; without a begin: BAD_STATE.
 */
TUTTI_API tutti_status tutti_batch_end(tutti_group *group, const tutti_call *call);

TUTTI_END_DECLS

#endif
