/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/backend.h - the interface that a backend implements, built in or from a plug-in file.
 *
 * A backend is one constant struct tutti_backend with a table of functions. The core checks every argument, packs
 * strided tensors and resolves places in joined tensors before a backend is called, so that a backend sees compact
 * memory and valid values only. A plug-in file exports `const struct tutti_backend *tutti_backend_entry(void)`.
 */
#ifndef TUTTI_BACKEND_H
#define TUTTI_BACKEND_H

#include <tutti/p2p.h>

TUTTI_BEGIN_DECLS

#define TUTTI_BACKEND_ABI 9u

/** Capabilities: promises that `tutti check` asserts. */
enum {
    TUTTI_CAP_RANK_ORDER = 1 << 0,   /* reductions are left folds in rank order                           */
    TUTTI_CAP_ROUND_ONCE = 1 << 1,   /* narrow floats accumulate in f32 and round once                    */
    TUTTI_CAP_SAME_BITS = 1 << 2,    /* the same bits on every rank and in every run                      */
    TUTTI_CAP_CHECKS_CALLS = 1 << 3, /* differing calls give MISMATCH instead of a hang or a wrong result, on every rank
                                        once, and the group stays usable: see tutti/collectives.h */
    TUTTI_CAP_CANCEL = 1 << 4,       /* an operation that has not begun can be cancelled on all ranks together;
                                        a rooted one needs the flag TUTTI_CANCELLABLE on every rank */
    TUTTI_CAP_HEAP = 1 << 5,         /* a fact: memory of tutti_alloc and tutti_register spares it copies */
    TUTTI_CAP_RECOVER = 1 << 6,      /* revoke, failed ranks, agree and shrink work: tutti/recovery.h       */
    TUTTI_CAP_GROW = 1 << 7,         /* new ranks can join: likewise                                         */
    TUTTI_CAP_ONE_PROCESS = 1 << 8,  /* a fact, not a promise: all ranks must be threads of one process  */
    TUTTI_CAP_ONE_HOST = 1 << 9,     /* likewise: all ranks must be on one host                           */
    TUTTI_CAP_CUDA = 1 << 10,        /* likewise: takes tensors in CUDA memory as they are                */
    TUTTI_CAP_ROCM = 1 << 11,        /* likewise: ROCm                                                    */
    TUTTI_CAP_NO_HOST = 1 << 12,     /* likewise: takes no tensors in host memory, and needs a device for each rank */
    TUTTI_CAP_COMPOSED = 1 << 13,    /* likewise: made of an engine inside each host and one between hosts, which the
                                        settings NAME.inner and NAME.outer choose; "auto" takes it over several hosts */
    TUTTI_CAP_ASK_LATE = 1 << 14,    /* likewise: `available` opens a file, so groups ask only if the answer decides */
    TUTTI_CAP_CANCEL_FLAGGED = 1 << 15, /* any collective that has not begun can be cancelled if every rank has set
                                           TUTTI_CANCELLABLE. The core adds it: backends leave it out */
    TUTTI_CAP_DROPS_NAN = 1 << 16       /* a fact: MIN and MAX of floats are the engine's own, which may leave out NaNs
                                           where another rank has a number, and may give a zero of either sign */
};

/** What `abort` of a backend may be told in place of a lane. */
enum {
    TUTTI_LANE_MESSAGES = -1, /* what has failed are messages                  */
    TUTTI_LANE_NONE = -2      /* the group as a whole, and no call in particular */
};

/**
 * Where the parts of a joined tensor lie (the output of a gather, the input of a scatter). The joined tensor has `outer`
 * rows of `pitch` bytes; part r occupies, in every row, counts[r] * unit bytes at displacements[r] * unit. counts NULL:
 * every part has `each` units; displacements NULL: the parts follow one another. Alone, a part is compact:
 * outer * count * unit bytes.
 */
typedef struct tutti_parts {
    size_t outer;
    size_t pitch;
    size_t unit;
    int64_t each;
    const int64_t *counts;
    const int64_t *displacements;
} tutti_parts;

/**
 * One operation, ready to run: the descriptor of DESIGN's words. What is read depends on the kind:
 *   all_reduce, reduce       src, dst (NULL off the root), count, dtype, redop, scale, root
 *   broadcast                dst = the tensor on every rank, count, root
 *   all_gather, gather       src (one part), dst (joined, by recv_parts), root
 *   scatter, reduce_scatter  src (joined, by send_parts), dst (one part), root / redop, scale
 *   all_to_all               src by send_parts, dst by recv_parts
 *   send, recv               src or dst, count (capacity for recv), root = peer, p2p_tag, shape and ndim of the tensor
 *   probe                    post_p2p only, alone: a recv whose `allocate` refuses every message, which therefore stays
 * src == dst or exact aliasing at the own part means in place. Memory that has no bytes may be NULL.
 *
 * A group on a device (tutti_open_info.device) runs what its backend takes there with on_device = 1; all else reaches a
 * backend as host memory, piece by piece, behind copies that the core makes.
 */
typedef struct tutti_op {
    uint32_t size;
    tutti_operation kind;
    tutti_dtype dtype;
    tutti_reduce_op redop;
    int32_t root; /* root or peer */
    int32_t lane;
    int32_t p2p_tag;
    uint32_t user_tag;
    int32_t dim;
    int32_t ndim;
    const void *src;
    void *dst;
    size_t count; /* elements of the tensor that is not joined */
    double scale;
    int64_t timeout_ms; /* resolved: -1 = for ever, else > 0 */
    tutti_parts send_parts;
    tutti_parts recv_parts;
    const int64_t *shape;
    tutti_message *message; /* recv: what came; may be NULL */
    /* recv with unknown shape: called once with what will come; sets dst and count, or fails */
    tutti_status (*allocate)(struct tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape);
    void *allocate_user;
    int64_t begun_ns;    /* when the call was made (CLOCK_MONOTONIC): the deadline counts from then; 0 = from now */
    int64_t sequence;    /* out: number of the call in its lane */
    tutti_status status; /* out, in a p2p batch: how this member ended */
    tutti_status failed; /* in, collectives: this rank cannot take part (CANCELLED: does not want to); arrive, tell the
                            others, and return it */
    uint32_t flags;      /* those of the call */
    int32_t background;  /* 1: runs beside the application's own threads, which may need this CPU */
    int32_t on_device;   /* 1: src and dst are memory of the group's device */
    int32_t reserved;
    void *after; /* on_device: an event of the device, behind which src and dst are ready; NULL: they are */
    /* A piece of this operation, whose count, parts and the like are what ranks compare; NULL: it is whole. */
    const struct tutti_op *whole;
    /* The backend's: 0 in a new op. The core may run an op again that differs in src, dst and timeout_ms only; then it finds
     * here what it has left, and need not derive it anew. */
    uint64_t prepared[4];
    /* Where the backend may say, while it waits for other ranks for long, since when (CLOCK_MONOTONIC); 0 = it does not. NULL:
     * nobody wants to know. */
    int64_t *waits_since;
    /* Collectives: stands for the shape that all ranks must have called alike: of the tensor that is not joined; where the parts
     * differ in length, without that. 0: it has less than two dimensions, and `count` says all. Ranks compare it. */
    uint32_t shape_code;
    uint32_t reserved_too;
} tutti_op;

/** The rendezvous as a backend sees it: keys are private to the group that is being opened. */
typedef struct tutti_rendezvous {
    uint32_t size;
    uint32_t can_pass_descriptors;
    void *self;
    tutti_status (*set)(void *self, const char *key, const void *value, size_t length, tutti_error *error);
    tutti_status (*get)(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error);
    /* Hands a file descriptor to `readers` ranks of this host; the caller keeps its own. */
    tutti_status (*put_fd)(void *self, const char *key, int fd, int32_t readers, tutti_error *error);
    tutti_status (*get_fd)(void *self, const char *key, int *fd, int64_t timeout_ms, tutti_error *error);
    /* For who waits for the other members elsewhere, a few times a second at least: whether that is still worth it. Not OK: why it is not. What
     * waits here looks by itself. */
    tutti_status (*poll_failures)(void *self, tutti_error *error);
} tutti_rendezvous;

typedef struct tutti_backend tutti_backend;

/** Another backend's engine that was opened for some ranks of a group. Its ranks count from 0 in the order of the list that
 *  it was opened with, and its operations go by the functions of `backend`. */
typedef struct tutti_engine {
    uint32_t size;
    int32_t rank;
    int32_t world_size;
    uint32_t capabilities;
    const tutti_backend *backend;
    void *state;
    void (*close)(struct tutti_engine *engine); /* frees the struct, too */
} tutti_engine;

/** What engine is wanted, and for whom. */
typedef struct tutti_engine_wish {
    uint32_t size;
    int32_t count;        /* of ranks */
    const int32_t *ranks; /* of the group, in the order that they have in the engine; the own one is among them */
    const char *backend;  /* a name, or "auto": the best one that can be used on all of these ranks */
    /* What its keys at the rendezvous begin with: the same on its ranks, another one for every engine of the group. */
    const char *scope;
    const tutti_engine *parent; /* of the same backend, open, with all of these ranks and perhaps more; NULL: none */
} tutti_engine_wish;

/**
 * The core as a backend sees it that is made of others. "auto" and a host's limits go by tutti_open_info.hosts; who
 * names an engine that needs all ranks on one host may have ranks on several that are one machine in truth.
 */
typedef struct tutti_engines {
    uint32_t size;
    uint32_t reserved;
    void *self;
    /** Called by all ranks of the wish and nobody else. */
    tutti_status (*open)(void *self, const tutti_engine_wish *wish, tutti_engine **engine, tutti_error *error);
} tutti_engines;

/**
 * How ranks whose engine cannot tell who is missing hear it from one another, through the rendezvous. It is asked by a
 * thread of its own, so a store that does not answer holds nobody up. From any thread, until close.
 */
typedef struct tutti_wait_registry {
    uint32_t size;
    uint32_t reserved;
    void *self;
    /** This rank has waited in the collective for a while; or, with an error, has failed in it. Does not wait. Ranks find
     *  each other's words by op->lane and op->sequence. */
    void (*report)(void *self, const tutti_op *op, const tutti_error *failed);
    /** This rank is about to give the collective up. Adds to error->message who has not come to it, has come to something
     *  else, or has failed in it, and sets error->suspect. Who tells in the next patience_ms counts as present. */
    void (*find_missing)(void *self, const tutti_op *op, int64_t timeout_ms, tutti_error *error);
} tutti_wait_registry;

/** What a backend is opened with. Valid during open only, except `rendezvous`, its store and `attendance`, which outlive the
 *  group. */
typedef struct tutti_open_info {
    uint32_t size;
    int32_t rank;
    int32_t world_size; /* of this group */
    int32_t lanes;
    int64_t timeout_ms; /* of the opening: -1 = for ever */
    DLDevice device;
    const tutti_rendezvous *rendezvous;
    void *native_communicator;
    const int32_t *global_ranks; /* world_size entries */
    /* The value of a setting ("shm.window") after struct, environment and default; NULL if there is no such key. */
    const char *(*setting)(const void *settings, const char *key);
    const void *settings;
    /* What open returned for the group that this one is made from, if the same backend runs both; else NULL. It may be
     * closed first. */
    void *parent_state;
    const uint64_t *hosts;        /* world_size entries: the same number for ranks on one host; NULL: not known */
    const tutti_engines *engines; /* for backends made of others; NULL: there are none */
    const tutti_wait_registry *wait_registry; /* until close; NULL: nobody can be asked */
    int64_t call_timeout_ms;                  /* of calls of the group that say nothing else: -1 = for ever */
    /* Ranks of this host that do not see each other's abstract sockets have this directory in common. NULL: all see them. */
    const char *socket_directory;
} tutti_open_info;

/** How the ranks of a group agree while they run a collective of the heap: hands `bytes` bytes of every rank to all, in
 *  rank order; `all` has room for all of them. A failure is the group's. At most 1024 bytes. */
typedef struct tutti_exchange {
    uint32_t size;
    uint32_t reserved;
    void *self;
    tutti_status (*gather)(void *self, const void *mine, size_t bytes, void *all, tutti_error *error);
} tutti_exchange;

/** What becomes of ranks that have not come to an agreement at its deadline. */
enum {
    TUTTI_LATE_IS_ERROR = 0, /* the agreement is a TIMEOUT here; who calls again takes part in the same one */
    TUTTI_LATE_IS_OUT = 1,   /* they are absent, and hear REVOKED when they come: then and ever after        */
    TUTTI_LATE_IS_ABSENT = 2 /* they are absent this time                                                    */
};

/** One agreement among the ranks of a group, some of which may have been lost. All that is agreed upon comes from one of them,
 *  so it is the same everywhere, whoever dies on the way. */
typedef struct tutti_agreement {
    uint32_t size;
    int32_t series; /* 0 or 1: agreements of one do not meet those of the other; one at a time in each */
    int32_t late;   /* TUTTI_LATE_* */
    uint32_t
        aborts; /* how often the group has been revoked by ABORT so far; one more ends the agreement with REVOKED */
    int64_t timeout_ms;
    uint64_t flags;    /* in: this rank's; out: the bitwise AND of those of all who came */
    uint64_t token[2]; /* in: this rank's; out: those of one rank */
    uint64_t *absent;  /* a bit for each rank, 64 in a word. In: whom nobody waits for; out: who is not there */
} tutti_agreement;

/** The functions of a backend. Optional ones may be NULL. `state` is what open returned. `error` is never NULL in run,
 *  run_p2p and probe; elsewhere it may be. */
typedef struct tutti_backend_ops {
    uint32_t size;
    uint32_t reserved;
    /** 1 if groups can be opened here; else 0 and a reason in `why`. Never crashes, never starts the engine. If that cannot be
     * found out for lack of something that may be had again later: -NO_MEMORY or -NO_RESOURCE, and what is lacking. */
    int32_t (*available)(char *why, size_t capacity);
    tutti_status (*init)(tutti_error *error); /* optional: once, before the first open */
    void (*fini)(void);                       /* optional: by tutti_finalize           */
    tutti_status (*open)(const tutti_open_info *info, void **state, tutti_error *error);
    void (*close)(void *state);
    /** How an operation would be run ("native", "composed"), or NULL if it cannot. */
    const char *(*supports)(void *state, const tutti_op *op);
    /** Runs one collective to its end on the calling thread. */
    tutti_status (*run)(void *state, tutti_op *op, tutti_error *error);
    /** Starts all sends and receives, then waits for all of them. One op is a plain send or recv. Sets each status. */
    tutti_status (*run_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
    tutti_status (*probe)(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                          tutti_error *error);
    /** Optional: appends facts for people to tutti_group_describe. Returns the length as snprintf does. */
    size_t (*describe)(void *state, char *text, size_t capacity);
    /** Optional: why the group has failed; OK if it has not. */
    tutti_status (*failure)(void *state, tutti_error *error);
    /** Optional: what this group promises, if that depends on how it was opened; else the backend's capabilities. */
    uint32_t (*capabilities)(void *state);
    /** Optional: fails the group from this rank with `cause`, and makes what waits in it return. The laggards of the
     *  call that runs on `lane` are added to the suspects; or it is one of the TUTTI_LANE values. From any thread. */
    void (*abort)(void *state, int32_t lane, const tutti_error *cause);

    /* Optional, all three or none: small collectives in two steps. */

    /** Arrives without waiting for anybody, if the operation is small enough and that is possible now. 1: it is under
     *  way, and `finish` is the next call on its lane, from any thread; 0: nothing has happened, use run. */
    int32_t (*start)(void *state, tutti_op *op);
    /** 1 if finish would not wait. */
    int32_t (*poll)(void *state, const tutti_op *op);
    tutti_status (*finish)(void *state, tutti_op *op, tutti_error *error);

    /* Optional, all or none: messages in two steps. Without them there are no asynchronous messages. */

    /** Posts what run_p2p would run, and moves what can be moved without waiting. The ops stay the backend's until
     *  end_p2p. *batch is written on OK only. */
    tutti_status (*post_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                             tutti_error *error);
    /** Moves what can be moved; 1 if the batch has ended. Watches deadline and failures. */
    int32_t (*test_p2p)(void *state, void *batch);
    /** Waits until the batch has ended (NULL: until any message may have moved, or wake_p2p) or until that time. */
    void (*attend_p2p)(void *state, void *batch, int64_t until_ns);
    void (*wake_p2p)(void *state);
    /** 1: none of the messages had begun, and all are withdrawn, so the batch ends CANCELLED; or that was so before. 0:
     *  too late. Also while another thread attends to the batch, which then looks again. */
    int32_t (*cancel_p2p)(void *state, void *batch);
    /** The status of a batch that has ended; frees it. */
    tutti_status (*end_p2p)(void *state, void *batch, tutti_error *error);

    /* Optional, all or none: the heap (tutti/memory.h). Called only if the group's capabilities have TUTTI_CAP_HEAP;
     * without it the core gives ordinary memory. `bytes` may be 0; `memory` (of register: unless bytes is 0) and `error`
     * are not NULL. */

    tutti_status (*alloc)(void *state, size_t bytes, const tutti_exchange *exchange, void **memory, tutti_error *error);
    tutti_status (*release)(void *state, void *memory, tutti_error *error);
    tutti_status (*register_memory)(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                                    tutti_error *error);
    tutti_status (*unregister_memory)(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error);

    /** Optional: how this rank's last collective on `lane` (valid) ran, in a word; static. NULL: none has. */
    const char *(*algorithm)(void *state, int32_t lane);
    /** Optional: the engine's own communicator, as tutti_config.native_communicator takes one. It is the group's. */
    void *(*native)(void *state);
    /** Optional: how many bytes of a device's tensor are best copied through host memory at once; 0: no opinion. */
    size_t (*staging_bytes)(void *state);

    /* Optional, all or none: going on without ranks that are lost (tutti/recovery.h). From any thread, and when the group has
     * failed, too. With TUTTI_CAP_RECOVER. */

    /** Fails the group: whatever waits in it on any rank returns REVOKED, whatever comes later as well. `how` is
     *  TUTTI_OP_REVOKE, or TUTTI_OP_ABORT, which also ends an accord that waits on this rank. Waits for nobody. */
    void (*revoke)(void *state, tutti_operation how);
    /** Ranks that have died or left, as far as this one knows: a bit for each, 64 in a word. */
    void (*lost)(void *state, uint64_t *ranks);
    /** Takes part in an agreement. OK, TIMEOUT, REVOKED (aborted here, or left out), PEER_CORRUPT. */
    tutti_status (*agree)(void *state, tutti_agreement *agreement, tutti_error *error);
    /** What has become of a rank, as far as this one knows: OK, or PEER_LEFT, PEER_DEAD or PEER_CRASHING with a sentence that
     *  names it and its process. `error` is not NULL. */
    tutti_status (*peer_status)(void *state, int32_t rank, tutti_error *error);
} tutti_backend_ops;

/** A backend. All of it is constant and lives as long as the process. */
struct tutti_backend {
    uint32_t abi; /* TUTTI_BACKEND_ABI */
    uint32_t size;
    const char *name; /* lower case, at most 15 bytes */
    int32_t priority; /* "auto" takes the highest that is available and fits; negative: only by name */
    uint32_t capabilities;
    const tutti_backend_ops *ops;
};

/** The entry point of a plug-in file: `TUTTI_API const tutti_backend *tutti_backend_entry(void)`. */
typedef const tutti_backend *(*tutti_backend_entry_function)(void);

/**
 * Makes a backend known to this process under its name. The struct is kept by reference. Errors: INVALID_ARGUMENT (NULL,
 * missing functions, bad name, name already known), VERSION (another ABI), NO_RESOURCE (32 backends at most).
 */
TUTTI_API tutti_status tutti_backend_register(const tutti_backend *backend, tutti_error *error);

/** Opens a plug-in file and registers its backend. The file stays loaded. NOT_FOUND or BACKEND with the loader's text. */
TUTTI_API tutti_status tutti_backend_load(const char *path, tutti_error *error);

/** Finds a backend by name, in any case ("mock" is another name of "local"); NULL if unknown. */
TUTTI_API const tutti_backend *tutti_backend_find(const char *name);

/** Backend number `index` in order of priority, highest first; NULL behind the last one. */
TUTTI_API const tutti_backend *tutti_backend_at(size_t index);

/** Whether a backend can be used here: 1, or 0 with the reason in `why` (closed by NUL, cut if too long). */
TUTTI_API int32_t tutti_backend_available(const tutti_backend *backend, char *why, size_t capacity);

/** What the group's CPU backend promises (TUTTI_CAP_* bits); 0 for a stale handle. */
TUTTI_API uint32_t tutti_group_capabilities(tutti_group *group);

TUTTI_END_DECLS

#endif
