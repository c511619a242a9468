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
#ifndef TOOLS_CHECK_CHECK_H
#define TOOLS_CHECK_CHECK_H

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
struct tti_check_watchdog;
struct tti_device_arena;

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
    struct tti_check_watchdog *watchdog;
    tutti_group *parent;            /* what the group under test is made from, and nothing else */
    tutti_group *world;             /* on the CPU: carries the agreement on outcomes, and nothing else */
    tutti_group *group;             /* under test; replaced when a case has spoilt it */
    struct tti_device_arena *arena; /* memory of the group's device; NULL: it works on the CPU */
    uint32_t capabilities;
    int rank;
    int size;
    int lane;
    enum tti_check_completion completion;
    enum tti_check_concurrency concurrency;
    unsigned rounds; /* of the case, still to come: see tti_check_next_round */
    bool messages;   /* the backend has asynchronous messages */
    bool quick;
    bool stopped; /* too much has gone wrong: the rest is not run */
    int lost;     /* groups that had to be replaced */
    int printed;  /* failures printed so far */
    const char *collective;
    char name[96]; /* of the case */
    uint64_t key;  /* of the case's data */
    bool failed;
    bool skipped;
    tutti_error error; /* for the call that runs */
};

/* The neighbours in the ring of ranks. */
static inline int tti_check_next(const struct tti_check *c)
{
    return (c->rank + 1) % c->size;
}

static inline int tti_check_previous(const struct tti_check *c)
{
    return (c->rank + c->size - 1) % c->size;
}

/* Starts a case of c->collective. False: it is not wanted (and there must be no tti_check_end). */
bool tti_check_begin(struct tti_check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tti_check_end(struct tti_check *c);

/* A case of the name that follows, or nothing if it is not wanted. The block is the whole of it; it is never left
 * early. */
#define TTI_CHECK_CASE(c, ...)                                                                                         \
    for (bool is_wanted = tti_check_begin(c, __VA_ARGS__); is_wanted; is_wanted = false, tti_check_end(c))

/* A case whose whole is `run` with `argument`; skipped unless it is possible. What differs in more than a number is a
 * function of its own. */
void tti_check_case(struct tti_check *c, bool possible, void (*run)(struct tti_check *c, int64_t argument),
                    int64_t argument, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Two such cases, "NAME/small" and "NAME/large", by the number of elements. */
void tti_check_small_and_large(struct tti_check *c, bool possible, void (*run)(struct tti_check *c, int64_t count),
                               const char *name);

/* The rounds of a case: first synchronous, then with a completion, concurrency and lane by chance, and with other data.
 * False after the last one. A case of many `bytes` has one of the two only, and the other one with one rank more. Only
 * the completion may differ between ranks. */
bool tti_check_next_round(struct tti_check *c, int64_t bytes);
/* A case in rounds: the block is one of them. */
#define TTI_CHECK_ROUNDS(c, bytes, ...)                                                                                \
    TTI_CHECK_CASE(c, __VA_ARGS__)                                                                                     \
        while (tti_check_next_round(c, bytes))

/* The case says nothing here (all ranks must come to the same conclusion). */
void tti_check_skip(struct tti_check *c);

/* Notes a failure and prints the first one of a case on stderr. */
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
/* Adds to the name under which failures of a sub-check are printed. */
void tti_check_label(struct tti_check *sub, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A group of the same ranks in the same order; NULL having noted the failure. */
tutti_group *tti_check_group_of_all(struct tti_check *c, const tutti_config *config);

/* One rank of the suite, to the end, with groups made from `parent`. True on every rank if every case passed on every
 * rank. */
bool tti_check_rank(const struct tti_check_options *options, tutti_group *parent);
/* Prints the names that would run with so many ranks. */
void tti_check_list(const struct tti_check_options *options, int ranks);

#endif
