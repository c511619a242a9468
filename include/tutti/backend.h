/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/backend.h - the interface of a backend, built in or from a plug-in file.
 *
 * A backend is one constant struct tutti_backend with a table of functions. The core checks every argument, packs
 * strided tensors and resolves positions in joined tensors. So a backend gets compact memory and valid values only. A
 * plug-in file exports `const struct tutti_backend *tutti_backend_entry(void)`.
 */
#ifndef TUTTI_BACKEND_H
#define TUTTI_BACKEND_H

#include <tutti/p2p.h>

TUTTI_BEGIN_DECLS

#define TUTTI_BACKEND_ABI 10u

/** Capabilities: promises that `tutti check` verifies; a fact describes the backend and is not checked. */
enum {
    TUTTI_CAP_RANK_ORDER = 1 << 0,   /* reductions are left folds in rank order                           */
    TUTTI_CAP_ROUND_ONCE = 1 << 1,   /* narrow floats accumulate in f32 and round once                    */
    TUTTI_CAP_SAME_BITS = 1 << 2,    /* the same bits on every rank and in every run                      */
    TUTTI_CAP_CHECKS_CALLS = 1 << 3, /* different calls give MISMATCH instead of a hang or a wrong result, on every rank
                                        once, and the group stays usable: see tutti/collectives.h */
    TUTTI_CAP_CANCEL = 1 << 4,       /* an operation that has not begun can be cancelled on all ranks together;
                                        a rooted one needs the flag TUTTI_CANCELLABLE on every rank */
    TUTTI_CAP_HEAP = 1 << 5,         /* a fact: memory of tutti_alloc and tutti_register saves copies */
    TUTTI_CAP_RECOVER = 1 << 6,      /* revoke, failed ranks, agree and shrink work: tutti/recovery.h       */
    TUTTI_CAP_GROW = 1 << 7,         /* new ranks can join: tutti/recovery.h                                     */
    TUTTI_CAP_ONE_PROCESS = 1 << 8,  /* a fact: all ranks must be threads of one process                     */
    TUTTI_CAP_ONE_HOST = 1 << 9,     /* a fact: all ranks must be on one host                                 */
    TUTTI_CAP_CUDA = 1 << 10,        /* a fact: accepts tensors in CUDA memory                                */
    TUTTI_CAP_ROCM = 1 << 11,        /* a fact: accepts tensors in ROCm memory                                */
    TUTTI_CAP_NO_HOST = 1 << 12,     /* a fact: accepts no tensors in host memory, and needs a device for each rank */
    TUTTI_CAP_COMPOSED = 1 << 13,    /* a fact: composed of an engine inside each host and one between hosts, which the
                                        settings NAME.inner and NAME.outer choose; "auto" uses it for several hosts */
    TUTTI_CAP_ASK_LATE = 1 << 14, /* a fact: `available` opens a file, so groups call it only if the answer decides */
    TUTTI_CAP_CANCEL_FLAGGED = 1 << 15, /* any collective that has not begun can be cancelled if every rank has set
                                           TUTTI_CANCELLABLE. Only the core sets it */
    TUTTI_CAP_DROPS_NAN = 1 << 16,      /* a fact: the engine's MIN and MAX of floats may ignore NaNs where another rank
                                           has a number, and may give a zero of either sign */
    TUTTI_CAP_WIRE = 1 << 17,           /* a fact: runs ops with `wire` for which `supports` returns a text. All others
                                           reach the backend as operations on packed chunks, between conversions of the
                                           core: all_reduce of bf16, or all_to_all and all_gather of u8 */
    TUTTI_CAP_OWN_THREAD = 1 << 18      /* a fact: only the thread that has opened the engine may run operations on it
                                           (MPI at the levels single and funneled) */
};

/** Arguments of a backend's `abort` in place of a lane. */
enum {
    TUTTI_LANE_MESSAGES = -1, /* messages have failed                          */
    TUTTI_LANE_NONE = -2      /* the group as a whole, and no call in particular */
};

/**
 * The parts of a joined tensor (the output of a gather, the input of a scatter). The joined tensor has `outer` rows of
 * `pitch` bytes. In every row part r occupies counts[r] * unit bytes at displacements[r] * unit. counts NULL: every
 * part has `each` units; displacements NULL: the parts follow one another. A separate part is compact: outer * count *
 * unit bytes.
 */
typedef struct tutti_parts {
    size_t outer;
    size_t pitch;
    size_t unit;
    int64_t each;
    const int64_t *counts;
    const int64_t *displacements;
} tutti_parts;

/** tutti_op.background, if it is not 0. A backend may treat both alike: a wait is long, and others need the CPU. */
enum {
    TUTTI_ON_WORKER = 1,     /* the call runs beside the application's threads */
    TUTTI_BESIDE_NETWORK = 2 /* the caller waits, perhaps for a rank that waits for a network */
};

/**
 * One operation, ready to run. The fields that count depend on the kind:
 *   all_reduce, reduce       src, dst (NULL except on the root), count, dtype, redop, scale, root
 *   broadcast                dst = the tensor on every rank, count, root
 *   all_gather, gather       src (one part), dst (joined, by recv_parts), root
 *   scatter, reduce_scatter  src (joined, by send_parts), dst (one part), root / redop, scale
 *   all_to_all               src by send_parts, dst by recv_parts
 *   send, recv               src or dst, count (capacity for recv), root = peer, p2p_tag, shape and ndim of the tensor
 *   probe                    post_p2p only, alone: a recv whose `allocate` refuses every message, so that it stays
 * In place: src == dst, or exactly this rank's part. Memory without bytes may be NULL.
 *
 * On a device (tutti_open_info.device) a backend gets the operations that it supports there with on_device = 1. All
 * others reach it as host memory, in chunks, between copies of the core.
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
    int64_t timeout_ms; /* resolved: -1 = none, else > 0 */
    tutti_parts send_parts;
    tutti_parts recv_parts;
    const int64_t *shape;
    tutti_message *message; /* recv: out; may be NULL */
    /* recv with unknown shape: called once with the message's description; sets dst and count, or fails */
    tutti_status (*allocate)(struct tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape);
    void *allocate_user;
    int64_t begun_ns;    /* the time of the call (CLOCK_MONOTONIC), from which the deadline counts; 0 = now */
    int64_t sequence;    /* out: number of the call in its lane */
    tutti_status status; /* out, in a p2p batch: the result of this member */
    /* in, collectives: if not OK, this rank cannot take part (CANCELLED: has cancelled it). Arrive, notify the other
     * ranks, and return it. */
    tutti_status failed;
    uint32_t flags;     /* of the call */
    int32_t background; /* 0, or one of the two above */
    int32_t on_device;  /* 1: src and dst are memory of the group's device */
    /* out, if the op has failed: 1 = the backend may still access src and dst, until the process ends. The core then
     * never frees memory of its own there. */
    int32_t in_use;
    void *after; /* on_device: an event of the device after which src and dst are ready; NULL: now */
    /* If this is a chunk of an operation: that operation, which ranks compare; else NULL. */
    const struct tutti_op *whole;
    /* For the backend: 0 in a new op. The core may run an op again with other src, dst and timeout_ms only; then the
     * backend finds here what it stored. */
    uint64_t prepared[4];
    /* A long wait for other ranks stores its beginning here (CLOCK_MONOTONIC); 0 = no long wait. NULL: not recorded. */
    int64_t *waits_since;
    /* Collectives: a code of the shape, which ranks compare: of the tensor that is not joined, without the lengths in
     * which parts may differ. 0: fewer than two dimensions, so `count` suffices. */
    uint32_t shape_code;
    tutti_wire wire; /* all_reduce: how the values are sent; only if the backend has TUTTI_CAP_WIRE */
} tutti_op;

/** The rendezvous of the group that is being opened. Its keys are private to that group. */
typedef struct tutti_rendezvous {
    uint32_t size;
    uint32_t can_pass_descriptors;
    void *self;
    tutti_status (*set)(void *self, const char *key, const void *value, size_t length, tutti_error *error);
    tutti_status (*get)(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error);
    /* Passes a file descriptor to `readers` ranks of this host; the caller keeps its own. */
    tutti_status (*put_fd)(void *self, const char *key, int fd, int32_t readers, tutti_error *error);
    tutti_status (*get_fd)(void *self, const char *key, int *fd, int64_t timeout_ms, tutti_error *error);
    /* A backend that waits for other members outside of this rendezvous calls it a few times a second. Not OK: the
     * reason to stop waiting. The functions above check that themselves. */
    tutti_status (*poll_failures)(void *self, tutti_error *error);
    /* The descriptors under STEM/first, STEM/(first + 1) and so on, `count` of them: waits for all, or until the
     * timeout, and gives `*got` of them from `first` on. OK: at least one; ask again for the others. */
    tutti_status (*get_fds)(void *self, const char *stem, int32_t first, int32_t count, int *fds, int32_t *got,
                            int64_t timeout_ms, tutti_error *error);
} tutti_rendezvous;

typedef struct tutti_backend tutti_backend;

/**
 * An engine of another backend, opened for some ranks of a group. Its ranks count from 0 in the order of the list that
 * it was opened with. Its operations use the functions of `backend`.
 */
typedef struct tutti_engine {
    uint32_t size;
    int32_t rank;
    int32_t world_size;
    uint32_t capabilities;
    const tutti_backend *backend;
    void *state;
    void (*close)(struct tutti_engine *engine); /* frees the struct, too */
} tutti_engine;

/** The engine to open, and its ranks. */
typedef struct tutti_engine_wish {
    uint32_t size;
    int32_t count;        /* of ranks */
    const int32_t *ranks; /* of the group, in the engine's order; this rank is one of them */
    const char *backend;  /* a name, or "auto": the best one for all of these ranks */
    /* The prefix of its keys at the rendezvous: equal on its ranks, different for every engine of the group. */
    const char *scope;
    const tutti_engine *parent; /* of the same backend, open, with at least all of these ranks; or NULL */
} tutti_engine_wish;

/**
 * The core's functions for a backend that is composed of others. "auto" and the check of one host use
 * tutti_open_info.hosts. An engine that needs one host, chosen by name, may have ranks of several hosts that are one
 * machine.
 */
typedef struct tutti_engines {
    uint32_t size;
    uint32_t reserved;
    void *self;
    /** All ranks of the wish call it, and no other ones. */
    tutti_status (*open)(void *self, const tutti_engine_wish *wish, tutti_engine **engine, tutti_error *error);
} tutti_engines;

/**
 * For ranks whose engine cannot find the missing ranks: they exchange records of their waits at the rendezvous. A
 * thread of the registry accesses the store, so a store that does not answer delays no call. Any thread may call, until
 * close.
 */
typedef struct tutti_wait_registry {
    uint32_t size;
    uint32_t reserved;
    void *self;
    /**
     * Records that this rank has waited in the collective for a while or, with an error, has failed in it. Does not
     * wait. Ranks find each other's records by op->lane and op->sequence.
     */
    void (*report)(void *self, const tutti_op *op, const tutti_error *failed);
    /**
     * This rank is about to fail the collective. Adds to error->message the ranks that have not begun it, have begun
     * another one, or have failed in it, and sets error->suspect. A rank that reports within the next poll interval
     * counts as present.
     */
    void (*find_missing)(void *self, const tutti_op *op, int64_t timeout_ms, tutti_error *error);
} tutti_wait_registry;

/**
 * The arguments of open. Valid during open only, except `rendezvous`, its store and `wait_registry`, which outlive the
 * group.
 */
typedef struct tutti_open_info {
    uint32_t size;
    int32_t rank;
    int32_t world_size; /* of this group */
    int32_t lanes;
    int64_t timeout_ms; /* what is left for the opening: 0 = nothing, -1 = no limit */
    DLDevice device;
    const tutti_rendezvous *rendezvous;
    void *native_communicator;
    const int32_t *global_ranks; /* world_size entries */
    /* The value of a setting ("engine.window") from struct, environment or default; NULL if there is no such key. */
    const char *(*setting)(const void *settings, const char *key);
    const void *settings;
    /* The result of open for the group from which this one is made, if both have the same backend; else NULL. It may be
     * closed first. */
    void *parent_state;
    const uint64_t *hosts;                    /* world_size entries: equal for ranks on one host; NULL: not known */
    const tutti_engines *engines;             /* for composed backends; may be NULL */
    const tutti_wait_registry *wait_registry; /* until close; may be NULL */
    int64_t call_timeout_ms;                  /* the default of the group's calls: -1 = none */
    /* A directory that ranks of this host share if they do not see each other's abstract sockets; NULL: all see
     * them. */
    const char *socket_directory;
} tutti_open_info;

/**
 * How ranks agree in a collective of the heap: gives `bytes` bytes (at most 1024) of every rank to all, in rank order.
 * `all` has room for all of them. It is NULL on a rank that has no memory for them: that rank reports this by its own
 * bytes, so that the others do not wait for it. A failure is the group's.
 */
typedef struct tutti_exchange {
    uint32_t size;
    uint32_t reserved;
    void *self;
    tutti_status (*gather)(void *self, const void *mine, size_t bytes, void *all, tutti_error *error);
    int64_t deadline_ns; /* of the collective, with all its steps (CLOCK_MONOTONIC); INT64_MAX = none */
} tutti_exchange;

/** Ranks that miss an agreement at its deadline. */
enum {
    TUTTI_LATE_IS_ERROR = 0, /* the agreement returns TIMEOUT; the next call takes part in the same one */
    TUTTI_LATE_IS_OUT = 1,   /* they are absent, and get REVOKED now and later                            */
    TUTTI_LATE_IS_ABSENT = 2 /* they are absent this time                                                 */
};

/**
 * One agreement among the ranks of a group, of which some may be lost. The result is the proposal of one rank, so it is
 * the same on all, whichever rank dies meanwhile.
 */
typedef struct tutti_agreement {
    uint32_t size;
    int32_t series;  /* 0 or 1: independent series, with one agreement at a time in each */
    int32_t late;    /* TUTTI_LATE_* */
    uint32_t aborts; /* revokes by ABORT so far; a further one ends the agreement with REVOKED */
    int64_t timeout_ms;
    uint64_t flags;    /* in: this rank's; out: the bitwise AND over all present ranks */
    uint64_t token[2]; /* in: this rank's; out: that of one rank */
    uint64_t *absent;  /* a bit for each rank, 64 in a word. In: ranks not to wait for; out: absent ranks */
} tutti_agreement;

/**
 * The functions of a backend. Optional ones may be NULL. `state` is the result of open. `error` is never NULL in run,
 * run_p2p, post_p2p, end_p2p and probe; elsewhere it may be.
 */
typedef struct tutti_backend_ops {
    uint32_t size;
    uint32_t reserved;
    /**
     * 1 if groups can be opened here; else 0 and a reason in `why`. Never crashes, never starts the engine. If a lack
     * of resources prevents the answer: -NO_MEMORY or -NO_RESOURCE, and the missing resource.
     */
    int32_t (*available)(char *why, size_t capacity);
    tutti_status (*init)(tutti_error *error); /* optional: once, before the first open */
    void (*fini)(void);                       /* optional: by tutti_finalize           */
    tutti_status (*open)(const tutti_open_info *info, void **state, tutti_error *error);
    void (*close)(void *state);
    /** How an operation would run ("native", "composed"); NULL if it cannot. */
    const char *(*supports)(void *state, const tutti_op *op);
    /** Runs one collective to its end on the calling thread. */
    tutti_status (*run)(void *state, tutti_op *op, tutti_error *error);
    /** Starts all sends and receives, then waits for all of them. One op is a plain send or recv. Sets each status. */
    tutti_status (*run_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
    tutti_status (*probe)(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                          tutti_error *error);
    /** Optional: appends facts to tutti_group_describe. Returns the length as snprintf does. */
    size_t (*describe)(void *state, char *text, size_t capacity);
    /** Optional: the reason why the group has failed; OK if it has not. */
    tutti_status (*failure)(void *state, tutti_error *error);
    /** Optional: the group's capabilities, if they depend on how it was opened; else those of the backend. */
    uint32_t (*capabilities)(void *state);
    /**
     * Optional: fails the group from this rank with `cause`, and makes waiting calls return. The missing ranks of the
     * call that runs on `lane` (or a TUTTI_LANE_* value) are added to the suspects. Any thread may call.
     */
    void (*abort)(void *state, int32_t lane, const tutti_error *cause);

    /* Optional, all three or none: small collectives in two steps. */

    /**
     * Arrives without waiting, if the operation is small enough and that is possible now. 1: it has begun, and `finish`
     * is the next call on its lane, from any thread. 0: nothing was done; use run.
     */
    int32_t (*start)(void *state, tutti_op *op);
    /** 1 if finish would not wait. */
    int32_t (*poll)(void *state, const tutti_op *op);
    tutti_status (*finish)(void *state, tutti_op *op, tutti_error *error);

    /* Optional, all or none: messages in two steps. Without them there are no asynchronous messages. */

    /**
     * Posts what run_p2p would run, and makes progress without waiting. The backend owns the ops until end_p2p. *batch
     * is written on OK only.
     */
    tutti_status (*post_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                             tutti_error *error);
    /** Makes progress; 1 if the batch has ended. Checks the deadline and failures. */
    int32_t (*test_p2p)(void *state, void *batch);
    /** Waits until the batch has ended (NULL: until any message may go on, or wake_p2p), at most until until_ns. */
    void (*attend_p2p)(void *state, void *batch, int64_t until_ns);
    void (*wake_p2p)(void *state);
    /**
     * 1: none of the messages had begun, and all are withdrawn, so the batch ends CANCELLED; also after an earlier
     * cancel. 0: too late. Another thread may be in attend_p2p, which then tests the batch.
     */
    int32_t (*cancel_p2p)(void *state, void *batch);
    /** Returns the status of a batch that has ended, and frees it. */
    tutti_status (*end_p2p)(void *state, void *batch, tutti_error *error);

    /* Optional, all or none: the heap (tutti/memory.h). Called only if the group's capabilities have TUTTI_CAP_HEAP;
     * without it the core gives ordinary memory. `bytes` may be 0; `memory` (of register: unless bytes is 0) and
     * `error` are not NULL. */

    tutti_status (*alloc)(void *state, size_t bytes, const tutti_exchange *exchange, void **memory, tutti_error *error);
    tutti_status (*release)(void *state, void *memory, tutti_error *error);
    tutti_status (*register_memory)(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                                    tutti_error *error);
    tutti_status (*unregister_memory)(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error);

    /**
     * Optional: the algorithm of this rank's last collective on `lane` (valid); static storage. NULL: there was none.
     */
    const char *(*algorithm)(void *state, int32_t lane);
    /** Optional: the engine's own communicator, in the form of tutti_config.native_communicator. The group owns it. */
    void *(*native)(void *state);
    /** Optional: the best chunk, in bytes, for a copy of a device's tensor through host memory; 0: no preference. */
    size_t (*staging_bytes)(void *state);

    /* Optional, all or none: going on without lost ranks (tutti/recovery.h), with TUTTI_CAP_RECOVER. Any thread may
     * call, also after the group has failed. */

    /**
     * Fails the group: waiting and later calls of any rank return REVOKED. `how` is TUTTI_OP_REVOKE, or TUTTI_OP_ABORT,
     * which also ends an agreement that waits on this rank. Does not wait.
     */
    void (*revoke)(void *state, tutti_operation how);
    /** The ranks that have died or left, as this rank knows: a bit for each, 64 in a word. */
    void (*lost)(void *state, uint64_t *ranks);
    /** Takes part in an agreement. OK, TIMEOUT, REVOKED (aborted here, or left out), PEER_CORRUPT. */
    tutti_status (*agree)(void *state, tutti_agreement *agreement, tutti_error *error);
    /**
     * The state of a rank, as this rank knows: OK, or PEER_LEFT, PEER_DEAD or PEER_CRASHING with a sentence that names
     * it and its process. `error` is not NULL.
     */
    tutti_status (*peer_status)(void *state, int32_t rank, tutti_error *error);
} tutti_backend_ops;

/** A backend. It is constant and lives as long as the process. */
struct tutti_backend {
    uint32_t abi; /* TUTTI_BACKEND_ABI */
    uint32_t size;
    const char *name; /* lower case, at most 15 bytes */
    int32_t priority; /* "auto" chooses the highest available one that fits; negative: only by name */
    uint32_t capabilities;
    const tutti_backend_ops *ops;
};

/** The entry point of a plug-in file: `TUTTI_API const tutti_backend *tutti_backend_entry(void)`. */
typedef const tutti_backend *(*tutti_backend_entry_function)(void);

/**
 * Registers a backend in this process under its name, by reference. Errors: INVALID_ARGUMENT (NULL, missing functions,
 * invalid or used name), VERSION (another ABI), NO_RESOURCE (32 backends at most).
 */
TUTTI_API tutti_status tutti_backend_register(const tutti_backend *backend, tutti_error *error);

/* * Opens a plug-in file and registers its backend. The file stays loaded. NOT_FOUND or BACKEND with the loader's
 * text. */
TUTTI_API tutti_status tutti_backend_load(const char *path, tutti_error *error);

/** Finds a backend by name, in any case ("mock" is another name of "local"); NULL if unknown. */
TUTTI_API const tutti_backend *tutti_backend_find(const char *name);

/** Backend number `index` in order of priority, highest first; NULL behind the last one. */
TUTTI_API const tutti_backend *tutti_backend_at(size_t index);

/** Whether a backend can be used here: 1, or 0 with the reason in `why` (NUL-terminated, cut if too long). */
TUTTI_API int32_t tutti_backend_available(const tutti_backend *backend, char *why, size_t capacity);

/** The capabilities of the group's CPU backend (TUTTI_CAP_* bits); 0 for a stale handle. */
TUTTI_API uint32_t tutti_group_capabilities(tutti_group *group);

TUTTI_END_DECLS

#endif
