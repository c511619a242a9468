/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group over several hosts, its engines, and what the files of this backend call of one another.
 *
 * Words: a rank has a number among the ranks of its host, its seat. Rail j joins the ranks in seat j of all hosts; there are
 * as many rails as the smallest host has seats. The flat engine joins all ranks; messages go through it, and what hosts
 * have to exchange without going through anybody.
 */
#ifndef TTI_BACKENDS_HIER_STATE_H
#define TTI_BACKENDS_HIER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

/* ---- hosts.c: who is where ----------------------------------------------------------------------------------------- */

struct tti_hosts {
    int32_t size;
    int32_t count;
    int32_t rails;
    bool even;              /* every host has `rails` ranks */
    int32_t *host_of;       /* of each rank: the number of its host; hosts count in the order of their first rank */
    int32_t *local_rank_of; /* of each rank */
    int32_t *begin;         /* count + 1 entries: where each host's ranks begin in `members` */
    int32_t *members;       /* ranks, host by host, each in order of rank */
};

/* `hosts` NULL: all on one. False: no memory. */
bool tti_hosts_make(struct tti_hosts *h, const uint64_t *hosts, int32_t size);
void tti_hosts_free(struct tti_hosts *h);

static inline int32_t tti_host_ranks(const struct tti_hosts *h, int32_t host)
{
    return h->begin[host + 1] - h->begin[host];
}

/* The rank in that seat. */
static inline int32_t tti_host_member(const struct tti_hosts *h, int32_t host, int32_t local_rank)
{
    return h->members[h->begin[host] + local_rank];
}

/* ---- helper.c: the thread beside a lane ---------------------------------------------------------------------------- */

struct tti_helper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    bool stop;
    bool busy; /* there is a job, or it runs */
    tutti_status (*job)(void *user, tutti_error *error);
    void *user;
    tutti_status status; /* of the job that has ended */
    tutti_error error;
};

void tti_helper_init(struct tti_helper *h);
void tti_helper_end(struct tti_helper *h);

/* Has the thread run the job. NO_RESOURCE: there is none. */
tutti_status tti_helper_post(struct tti_helper *h, tutti_status (*job)(void *user, tutti_error *error), void *user,
                             tutti_error *error);

/* Waits for the end of the job. */
tutti_status tti_helper_wait(struct tti_helper *h, tutti_error *error);

/* ---- open.c: the group --------------------------------------------------------------------------------------------- */

/* Lists of counts for one thread. */
struct tti_lists {
    int64_t *send_counts; /* as many entries as there are ranks, each */
    int64_t *receive_counts;
    int64_t *send_displacements;
    int64_t *receive_displacements;
};

struct tti_hier_lane {
    struct tti_helper helper;
    struct tti_lists inside;  /* for who makes the steps inside the host */
    struct tti_lists between; /* for who makes those between hosts       */
    unsigned char *scratch;
    size_t scratch_bytes;
    _Atomic int64_t calls; /* relaxed: the lane counts, and who asks for its algorithm looks */
};

struct tti_hier {
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int32_t host; /* the own one */
    int32_t local_rank;
    struct tti_hosts hosts;
    size_t chunk;
    tutti_engine *flat;
    tutti_engine *inner; /* NULL: the flat engine does everything, since no host has two ranks, or there is one host */
    tutti_engine *rail;  /* NULL: this rank is in no rail */

    pthread_mutex_t lock;
    _Atomic int32_t failed; /* 1: `cause` is written and stays as it is */
    tutti_error cause;      /* ranks are the group's */

    struct tti_hier_lane lane[];
};

tutti_status tti_hier_open(const tutti_open_info *info, void **state, tutti_error *error);
void tti_hier_close(void *state);

/* ---- failure.c: failing together ----------------------------------------------------------------------------------- */

/* REVOKED if the group has failed as far as this rank knows. */
tutti_status tti_hier_usable(struct tti_hier *s, tutti_error *error);

/* A step on `engine` (a part of the group) has failed with *error: puts it in the words of the group, fails the group and
 * returns the status that the call ends with. If it is a time-out, others have `patience_ms` to tell who is missing. */
tutti_status tti_hier_fail(struct tti_hier *s, const tutti_engine *engine, int32_t lane, int64_t poll_ms,
                           tutti_error *error);

/* Fails the group from this rank with a cause in the words of the group. */
void tti_hier_abort(void *state, int32_t lane, const tutti_error *cause);
tutti_status tti_hier_failure(void *state, tutti_error *error);

/* Writes `from` with every "rank N" for a rank N of the engine put in the words of the group. `ranks` has an entry for each of
 * the engine's ranks. */
void tti_hier_translate(const char *from, const int32_t *ranks, int32_t count, char *to, size_t capacity);

/* ---- steps.c: operations on the parts ------------------------------------------------------------------------------ */

/* One call on its way. */
struct tti_hier_call {
    struct tti_hier *s;
    struct tti_hier_lane *lane;
    tutti_op *op;
    int64_t begun_ns;
    size_t item; /* bytes of an element */
    bool first;  /* who is missing in a step inside has not come to the call at all */
};

/* An operation for a part, with lane, deadline and tag of the call; the rest is the caller's. */
tutti_op tti_hier_step(const struct tti_hier_call *c, tutti_operation kind, tutti_dtype dtype);

/* Run it inside this host, on the own rail, on all ranks. What fails, fails the group. */
tutti_status tti_hier_run_intra_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error);
tutti_status tti_hier_run_inter_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error);
tutti_status tti_hier_run_flat(struct tti_hier_call *c, tutti_op *op, tutti_error *error);

/* Parts of `unit` bytes each in one row, one behind the other. */
static inline tutti_parts tti_hier_row(const int64_t *counts, size_t total, size_t unit)
{
    return (tutti_parts){.outer = 1, .pitch = total * unit, .unit = unit, .counts = counts};
}

/* Scratch memory of the lane, valid until the next request. NULL: none is to be had, and the group has failed, since the
 * others go on. */
unsigned char *tti_hier_scratch(struct tti_hier_call *c, size_t bytes, tutti_error *error);

/* ---- pipeline.c -------------------------------------------------------------------------------------------------------- */

/*
 * A tensor in pieces, each of which takes three steps: one inside the host, one between hosts, one inside the host. The
 * middle step of a piece runs on the helper while the last step of the piece before and the first one of the piece
 * behind run here. So at most two pieces are under way, and piece k may use what piece k - 2 has used.
 */
struct tti_pipeline {
    struct tti_hier_call *c;
    void *user;
    size_t chunks;
    tutti_status (*before)(struct tti_pipeline *p, size_t k, tutti_error *error); /* each may be NULL */
    tutti_status (*between)(struct tti_pipeline *p, size_t k, tutti_error *error);
    tutti_status (*after)(struct tti_pipeline *p, size_t k, tutti_error *error);
    size_t posted; /* the piece that the helper has */
};

tutti_status tti_pipeline_run(struct tti_pipeline *p, tutti_error *error);

/* ---- fold.c: what a reduction does in which step ------------------------------------------------------------------- */

struct tti_hier_fold {
    tutti_dtype given;      /* of the tensors                                                    */
    tutti_dtype dtype;      /* of what the parts reduce: another one for averages of small integers */
    size_t item;            /* its bytes                                                         */
    tutti_reduce_op inside; /* the operation of each step, and the factor of the second one      */
    tutti_reduce_op between;
    double scale;
    bool widened;
    int32_t divisor; /* of what comes out; 1: nothing is divided */
};

void tti_hier_fold_make(const struct tti_hier_call *c, struct tti_hier_fold *f);

/* Inputs as the parts take them; only if they are widened. */
void tti_hier_widen(const struct tti_hier_fold *f, void *to, const void *from, size_t count);

/* Results as the call wants them: divided and narrowed. `to` may be `from`. */
void tti_hier_fold_finish(const struct tti_hier_fold *f, void *to, const void *from, size_t count);

/* ---- slices.c: a piece of a vector on the rails -------------------------------------------------------------------- */

/* Piece k of a vector of `count` elements, cut into a slice for each rail. `counts` has an entry for each seat of this host. */
struct tti_slices {
    size_t from; /* of the piece */
    size_t count;
    size_t each;  /* elements of a slice; the last ones may be shorter */
    size_t begin; /* of the own slice in the piece */
    size_t own;
};

/* How many elements a piece has, and how many a slice at most. */
size_t tti_hier_chunk_elements(const struct tti_hier *s, size_t item);
size_t tti_hier_chunk_count(size_t count, size_t chunk);
void tti_slices_cut(const struct tti_hier *s, size_t count, size_t item, size_t k, struct tti_slices *slices,
                    int64_t *counts);
size_t tti_slices_most(const struct tti_hier *s, size_t item);

/* ---- windows.c: joined tensors ------------------------------------------------------------------------------------- */

/*
 * A joined tensor in pieces: window k holds the same range of every part. On its way it lies in the order of the rails: rail
 * by rail, there host by host, there seat by seat, where a rank whose seat has no rail uses rail seat % rails.
 */
struct tti_windows {
    const struct tti_hier *s;
    size_t unit;  /* bytes of an element */
    size_t step;  /* elements of a part in a window, at most */
    size_t count; /* windows */
    size_t equal; /* elements of every part, if `parts` is NULL */
    const tutti_parts *parts;
};

void tti_windows_make(const struct tti_hier *s, const tutti_parts *parts, size_t equal, size_t unit,
                      struct tti_windows *w);
/* Elements of a rank's part in window k; of one host's ranks on a rail; of a rail; of all. */
size_t tti_window_part(const struct tti_windows *w, size_t k, int32_t rank);
size_t tti_window_host(const struct tti_windows *w, size_t k, int32_t rail, int32_t host);
size_t tti_window_rail(const struct tti_windows *w, size_t k, int32_t rail);
/* The most elements that a window of a rail, and of all ranks, has. */
size_t tti_windows_rail_most(const struct tti_windows *w);
size_t tti_windows_most(const struct tti_windows *w);

/* Copies window k of the whole joined tensor into the order of the rails, or back. */
void tti_window_pack(const struct tti_windows *w, size_t k, const void *joined, const tutti_parts *parts,
                     unsigned char *to);
void tti_window_unpack(const struct tti_windows *w, size_t k, const unsigned char *from, const tutti_parts *parts,
                       void *joined);

/* Between a rank and the rank of its host that is in its rail, where hosts have more ranks than there are rails. Window k of
 * the own part goes to `shared`, which has those of this host's ranks on the rail; or back. */
tutti_status tti_window_to_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *part,
                                void *shared, tutti_error *error);
tutti_status tti_window_from_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *shared,
                                  void *part, tutti_error *error);

/* Inside this host: the windows of the rails come together in `all` on the rank in seat `to`, or are handed to the rails by
 * the one in seat `from`. */
tutti_status tti_window_gather_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t to,
                                     const void *rail, void *all, tutti_error *error);
tutti_status tti_window_scatter_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t from,
                                      const void *all, void *rail, tutti_error *error);

/* The memory of an operation in windows: two of each, but one of all. */
struct tti_windows_plan {
    struct tti_windows windows;
    unsigned char *shared[2];
    unsigned char *rail[2];
    unsigned char *all;
};

/* Gets the memory; `item` bytes an element, at least those of a window. Status of *error if there is none. */
tutti_status tti_windows_memory(struct tti_hier_call *c, struct tti_windows_plan *plan, size_t item, bool with_all,
                                tutti_error *error);

/* Between hosts: on the own rail each host has tti_window_host elements; `list` gets them. Returns their sum. */
size_t tti_window_list(const struct tti_hier_call *c, const struct tti_windows *w, size_t k, int64_t *list);

/* A gather from all hosts' `shared` to one host's `rail`, or the way back. */
tutti_status tti_window_to_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                tutti_error *error);
tutti_status tti_window_from_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                  tutti_error *error);

/* ---- the operations, each in the file of its name ------------------------------------------------------------------ */

tutti_status tti_hier_all_reduce(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_reduce(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_broadcast(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_all_gather(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_gather(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_scatter(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_reduce_scatter(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_all_to_all(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_barrier(struct tti_hier_call *c, tutti_error *error);

/* Messages: as in tutti_backend_ops. */
tutti_status tti_hier_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
tutti_status tti_hier_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                            tutti_error *error);
tutti_status tti_hier_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                               tutti_error *error);
int32_t tti_hier_test_p2p(void *state, void *batch);
void tti_hier_attend_p2p(void *state, void *batch, int64_t until_ns);
void tti_hier_wake_p2p(void *state);
int32_t tti_hier_cancel_p2p(void *state, void *batch);
tutti_status tti_hier_end_p2p(void *state, void *batch, tutti_error *error);

#endif
