/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of the fault backend: what is to happen to which operation. Text, grammar and meaning are in docs/fault.md.
 *
 * Every rule that fits an operation applies, and each counts the operations that fit it by itself. So a rule means the
 * same wherever it stands and whatever stands beside it; only which error or drop comes first is a matter of order.
 */
#ifndef TTI_BACKENDS_FAULT_RULES_H
#define TTI_BACKENDS_FAULT_RULES_H

#include <stdbool.h>
#include <tutti/backend.h>

#define TTI_RULES_MAX    32
#define TTI_RULE_ACTIONS 8 /* of one rule */

enum tti_rule_kind { TTI_RULE_DELAY, TTI_RULE_JITTER, TTI_RULE_BANDWIDTH, TTI_RULE_ERROR, TTI_RULE_DROP };

struct tti_rule_action {
    enum tti_rule_kind kind;
    int64_t value; /* nanoseconds, bytes per second, status */
    int64_t first; /* the matches that it is for, from 1 */
    int64_t last;
};

struct tti_rule {
    tutti_operation operation; /* NONE: all */
    int32_t rank;              /* -1: all   */
    uint64_t seed;
    int count;
    struct tti_rule_action actions[TTI_RULE_ACTIONS];
    _Atomic int64_t matches; /* operations of this rank that fitted so far */
};

struct tti_rules {
    int count;
    struct tti_rule rules[TTI_RULES_MAX];
};

/* What the rules say of one operation; all zero: nothing. */
struct tti_fault_effect {
    int64_t delay_ns;    /* delays and jitter of all rules together     */
    int64_t bandwidth;   /* the lowest one; 0 = no limit                */
    tutti_status status; /* the first error, unless `drop` came before  */
    bool drop;
    int rule; /* where error or drop come from: number of the rule, and of the match in it, both from 1 */
    int64_t match;
};

/* INVALID_ARGUMENT with the position and what is accepted there. `rules` need not be initialised. */
tutti_status tti_rules_parse(const char *text, struct tti_rules *rules, tutti_error *error);

/* Counts the operation for the rules that fit. From any thread; the numbers of simultaneous operations are theirs in any
 * order. */
struct tti_fault_effect tti_rules_evaluate(struct tti_rules *rules, int32_t rank, tutti_operation operation);

#endif
