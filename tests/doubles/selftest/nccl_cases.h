/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of selftest_nccl, by subject. */
#ifndef TESTS_DOUBLES_SELFTEST_NCCL_CASES_H
#define TESTS_DOUBLES_SELFTEST_NCCL_CASES_H

#include "nccl.h"

enum { OLD = 1, MIDDLE = 2, NEW = 4, LATER = MIDDLE | NEW, ALL = OLD | LATER };

struct test {
    const char *name;
    void (*function)(struct rank *t);
    int least; /* ranks */
    int most;
    int variants;      /* of the library, that have the needed functions */
    const char *words; /* TUTTI_DOUBLE_NCCL */
    int words_rank;    /* only there, or -1 */
    bool ends_by_abort;
};

/* Ends with an empty one. */
extern const struct test tests[];

/* nccl_numbers.c */
void case_reductions(struct rank *t);

/* nccl_moves.c */
void case_collectives(struct rank *t);
void case_messages(struct rank *t);

/* nccl_refusals.c */
void case_arguments(struct rank *t);
void case_versions(struct rank *t);
void case_set_version(struct rank *t);
void case_wrong_ranks(struct rank *t);
void case_same_device(struct rank *t);
void case_shared_device(struct rank *t);
void case_mixed_versions(struct rank *t);
void case_configs(struct rank *t);
void case_memory(struct rank *t);

/* nccl_life.c */
void case_nonblocking(struct rank *t);
void case_missing_rank(struct rank *t);
void case_different_calls(struct rank *t);
void case_lonely(struct rank *t);
void case_split(struct rank *t);
void case_ends_together(struct rank *t);
void case_one_thread(struct rank *t);
void case_threads(struct rank *t);
void case_revoke(struct rank *t);

/* nccl_orders.c */
void case_async_error(struct rank *t);
void case_hang(struct rank *t);
void case_fail(struct rank *t);
void case_init_hang(struct rank *t);
void case_abort_hang(struct rank *t);
void case_unique_id_fails(struct rank *t);
void case_log(struct rank *t);
void case_use_after_destroy(struct rank *t);
void case_destroy_twice(struct rank *t);
void case_no_comm(struct rank *t);
void case_freed_memory(struct rank *t);
void case_two_threads(struct rank *t);
void case_unknown_word(struct rank *t);

#endif
