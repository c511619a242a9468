/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the conformance suite share.
 *
 * A case is written between tti_check_begin and tti_check_end, in a function that every rank runs; the same call lists
 * the names, filters and counts, so there is no second table of cases that could differ from what runs. Inside a case a
 * rank never leaves early: a wrong element is noted (tti_check_fail) and the operations go on, or the other ranks would
 * wait for one that is gone. tti_check_end lets the ranks agree on the outcome.
 *
 * Everything a rank needs to know about the others' data it computes: an input is a function of (seed, case, rank,
 * index), so expectations need no communication that could hide the very fault they look for.
 */
#ifndef TTI_CHECK_CHECK_H
#define TTI_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

struct tti_check_options {
    const char *backend;
    const char *device; /* NULL = as the library decides */
    const char *filter; /* NULL = everything */
    int ranks;          /* 0 = not said */
    uint64_t seed;
    bool quick;
    bool list;
    int64_t timeout_ms;
    /* The suite's own self test: spoils what one rank sees in the cases of one collective; see sabotage.c. */
    const char *sabotage;
};

struct tti_check_report;
struct tti_arena;

enum { TTI_CHECK_LANE_COUNT = 4 }; /* of the group under test */

/* How an operation is brought to its end. */
enum tti_check_completion {
    TTI_CHECK_SYNC,    /* the synchronous form                                */
    TTI_CHECK_WAIT,    /* the asynchronous one, and a wait without a limit    */
    TTI_CHECK_TEST,    /* ... looking again and again                         */
    TTI_CHECK_LIMITS,  /* ... waits with limits, again and again              */
    TTI_CHECK_EVENTFD, /* ... poll on its descriptor                          */
    TTI_CHECK_CALLBACK /* ... being called back                               */
};

/* How many of a kind are under way at once. */
enum tti_check_concurrency {
    TTI_CHECK_ONE_CALL,
    TTI_CHECK_SAME_LANE, /* four on one lane, waited for in reverse order */
    TTI_CHECK_ALL_LANES  /* one on every lane                             */
};

/* One rank's view of the run; a copy of it serves a sub-group or a second thread (tti_check_sub). */
struct tti_check {
    const struct tti_check_options *options;
    struct tti_check_report *report; /* rank 0's table; NULL on the others */
    tutti_group *parent;             /* what the group under test is made from, and nothing else */
    tutti_group *world;              /* on the CPU: carries the agreement on outcomes, and nothing else */
    tutti_group *group;              /* under test; replaced when a case has spoilt it */
    struct tti_arena *arena;         /* memory of the group's device; NULL: it works on the CPU */
    uint32_t capabilities;
    int rank;
    int size;
    int lane;
    enum tti_check_completion way;
    enum tti_check_concurrency concurrency;
    unsigned rounds; /* of the case, still to come: see tti_check_next_round */
    bool messages;   /* the backend has asynchronous messages */
    bool quick;
    bool stopped; /* too much has gone wrong: the rest is not run */
    int lost;     /* groups that had to be replaced */
    int printed;  /* failures told on stderr so far */
    const char *collective;
    char name[96]; /* of the case */
    uint64_t key;  /* of the case's data */
    bool failed;
    bool skipped;
    tutti_error error; /* for the call that runs */
};

/* ---- check.c: cases ---- */

/* Starts a case of c->collective. False: it is not wanted (and there must be no tti_check_end). */
bool tti_check_begin(struct tti_check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tti_check_end(struct tti_check *c);

/* The turns of a case: first synchronous, then in an asynchronous way and formation by chance, with other data and on any
 * lane. False behind the last one. Where `bytes` are many there is one of the two only, and with one rank more the other.
 * All is the same on all ranks but for the way, which may be each rank's own. */
bool tti_check_next_round(struct tti_check *c, int64_t bytes);

/* The case says nothing here (all ranks must come to the same conclusion). */
void tti_check_skip(struct tti_check *c);

/* Notes a failure and tells the first one of a case on stderr. */
void tti_check_fail(struct tti_check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A status that has to be `wanted`; c->error holds the details. Returns whether it is. */
bool tti_check_status(struct tti_check *c, const char *what, tutti_status status, tutti_status wanted);

static inline bool tti_check_ok(struct tti_check *c, const char *what, tutti_status status)
{
    return tti_check_status(c, what, status, TUTTI_OK);
}

/* The same case seen from a member of another group. `salt` (the same on all members) makes its data its own. */
struct tti_check tti_check_sub(const struct tti_check *c, tutti_group *group, uint64_t salt);
void tti_check_merge(struct tti_check *c, const struct tti_check *sub);
/* Adds to the name under which failures of a sub-check are told. */
void tti_check_label(struct tti_check *sub, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One rank of the suite, to the end, with groups made from `parent`. True on every rank if every case passed on every rank. */
bool tti_check_rank(const struct tti_check_options *options, tutti_group *parent);
/* Prints the names that would run with so many ranks. */
void tti_check_list(const struct tti_check_options *options, int ranks);

/* ---- report.c ---- */

enum tti_check_outcome { TTI_CHECK_PASSED = 0, TTI_CHECK_FAILED = 1, TTI_CHECK_SKIPPED = 2 };

struct tti_check_report *tti_check_report_create(size_t collectives);
void tti_check_report_add(struct tti_check_report *report, const char *collective, const char *name,
                          enum tti_check_outcome outcome, int64_t elapsed_ns);
void tti_check_report_progress(struct tti_check_report *report, const char *collective, const char *name);
/* Prints the table and the last line. True if nothing failed and something passed. */
bool tti_check_report_finish(struct tti_check_report *report, const char *note);
void tti_check_report_destroy(struct tti_check_report *report);

/* ---- sabotage.c ---- */

enum tti_check_spoil { TTI_CHECK_SPOIL_RESULT, TTI_CHECK_SPOIL_GUARD, TTI_CHECK_SPOIL_INPUT, TTI_CHECK_SPOIL_STATUS };

/* Whether this rank is to spoil this in the running case. */
bool tti_check_sabotaged(const struct tti_check *c, enum tti_check_spoil what);

/* ---- ranks.c: where the ranks come from ---- */

/* Runs the ranks as threads / becomes `tutti run -n N -- tutti check ...` / is one rank of a launcher's job. Returns
 * the exit code. */
int tti_check_run_threads(const struct tti_check_options *options);
int tti_check_launch(const struct tti_check_options *options);
int tti_check_join(const struct tti_check_options *options);

/* ---- cases.c: plans and the cases that all regular collectives share ---- */

enum tti_check_pattern {
    TTI_CHECK_RAW,     /* any bits                                                            */
    TTI_CHECK_PLAIN,   /* floats of moderate size that need rounding; any integers            */
    TTI_CHECK_FACTORS, /* floats near 1, odd integers: products keep information              */
    TTI_CHECK_LOGICAL, /* zeros and others, so that both outcomes of AND and OR occur          */
    TTI_CHECK_SMALL,   /* integers whose 64-bit sum is exact                                  */
    TTI_CHECK_SPECIAL, /* NaN, infinities, zeros of both signs, subnormals, extremes          */
    TTI_CHECK_LARGE    /* close to the largest value, all of one sign                         */
};

enum tti_check_layout {
    TTI_CHECK_COMPACT,
    TTI_CHECK_UNALIGNED,  /* aligned to its element, not to a cache line */
    TTI_CHECK_OFFSET,     /* starts at a byte_offset                     */
    TTI_CHECK_STRIDED,    /* gaps between elements and rows                                        */
    TTI_CHECK_TRANSPOSED, /* the first dimension runs fastest                                      */
    TTI_CHECK_BACKWARDS,  /* every dimension runs backwards, without gaps                          */
    TTI_CHECK_FLIPPED,    /* the last dimension runs backwards; gaps, and it starts at a byte_offset */
    /* Inputs only, since indices share elements: filling such a tensor leaves what came last. */
    TTI_CHECK_EXPANDED, /* the first dimension has stride 0, the others run backwards             */
    TTI_CHECK_SINGLE,   /* one element for all indices                                            */
    TTI_CHECK_WINDOWS   /* every stride is 1: row i + 1 begins at the second element of row i     */
};

enum tti_check_spread {
    TTI_CHECK_EVEN,
    TTI_CHECK_UNEVEN,  /* different lengths, one behind the other  */
    TTI_CHECK_ZEROS,   /* some ranks have nothing                  */
    TTI_CHECK_LAST,    /* only the last rank has anything          */
    TTI_CHECK_GAPS,    /* rows between the parts belong to nobody  */
    TTI_CHECK_REVERSED /* the last rank's part comes first         */
};

/* What to run. `shape` is that of the whole tensor, or of one part where parts are joined along `dim`. */
struct tti_check_plan {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int ndim;
    int64_t shape[3];
    int dim;
    int root;
    bool in_place;
    enum tti_check_layout layout;
    enum tti_check_pattern pattern;
    enum tti_check_spread spread;
    int64_t timeout_ms; /* this rank's; 0 = the group's */
};

enum {
    TTI_CHECK_REDUCES = 1,
    TTI_CHECK_ROOTED = 2,
    TTI_CHECK_JOINS = 4,    /* works along a dimension          */
    TTI_CHECK_IN_PLACE = 8, /* has an in-place form             */
    TTI_CHECK_SPREADS = 16, /* takes counts                     */
    TTI_CHECK_SCALARS = 32, /* takes 0-dimensional tensors      */
    TTI_CHECK_HUGE = 64     /* is worth a run with tens of MiB  */
};

struct tti_check_form; /* operation.h */

struct tti_check_collective {
    const char *name;
    unsigned traits;
    const struct tti_check_form *form; /* NULL for irregular ones */
    void (*more)(struct tti_check *c); /* cases of its own, or NULL */
};

/* Every collective and every irregular chapter of the suite, in the order of the table. */
extern const struct tti_check_collective tti_check_collectives[];
extern const size_t tti_check_collectives_count;

/* A plan for `count` elements of a 1-d tensor (or part), out of place, data as the op wants them. */
struct tti_check_plan tti_check_plan_1d(tutti_dtype dtype, tutti_reduce_op op, int64_t count);
int64_t tti_check_plan_bytes(const struct tti_check_plan *p);
/* Data under which the op on the dtype tells right from wrong. */
enum tti_check_pattern tti_check_pattern_for(tutti_dtype dtype, tutti_reduce_op op);
/* A valid plan of at most max_bytes, by chance: the same on all ranks for the same `draw`. */
struct tti_check_plan tti_check_plan_random(const struct tti_check *c, unsigned traits, uint64_t draw,
                                            size_t max_bytes);
/* A rank's factor of PREMUL_SUM; and the factor this rank hands to a call that runs the plan. */
double tti_check_scale(int rank, tutti_dtype dtype);
static inline double tti_check_factor(const struct tti_check *c, const struct tti_check_plan *plan)
{
    return plan->op == TUTTI_PREMUL_SUM ? tti_check_scale(c->rank, plan->dtype) : 0;
}

/* Makes the calling rank late. */
void tti_check_delay_rank(void);

void tti_check_regular_cases(struct tti_check *c, const struct tti_check_collective *collective);

/* ---- one file per collective (cases_*.c) ---- */

void tti_check_all_reduce_cases(struct tti_check *c);
void tti_check_barrier_cases(struct tti_check *c);
void tti_check_p2p_cases(struct tti_check *c);
void tti_check_probe_cases(struct tti_check *c); /* more cases of p2p */
void tti_check_strides_cases(struct tti_check *c);
void tti_check_group_cases(struct tti_check *c);
void tti_check_mismatch_cases(struct tti_check *c);
void tti_check_lanes_cases(struct tti_check *c);
void tti_check_soak_cases(struct tti_check *c);
void tti_check_async_cases(struct tti_check *c);
void tti_check_async_order_cases(struct tti_check *c); /* more cases of async */
void tti_check_cancel_cases(struct tti_check *c);
void tti_check_message_cancel_cases(struct tti_check *c); /* more cases of cancel */
bool tti_check_can_cancel(struct tti_check *c);           /* else the case is skipped */
void tti_check_works_cases(struct tti_check *c);
void tti_check_deadlines_cases(struct tti_check *c);
void tti_check_async_soak_cases(struct tti_check *c);
void tti_check_device_cases(struct tti_check *c);        /* has cases only if the group works on a device */
void tti_check_device_stream_cases(struct tti_check *c); /* more cases of device */

#endif
