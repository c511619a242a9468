/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of the fault backend: which effect on which operation. Text, grammar and meaning are in docs/fault.md.
 *
 * Every rule that matches an operation applies, and each rule counts its own matches. So a rule has the same effect at
 * any place in the list. Order decides only which of several errors or drops applies.
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
    int64_t first; /* the matches that it applies to, from 1 */
    int64_t last;
};

struct tti_rule {
    tutti_operation operation; /* NONE: all */
    int32_t rank;              /* -1: all   */
    uint64_t seed;
    int count;
    struct tti_rule_action actions[TTI_RULE_ACTIONS];
    _Atomic int64_t matches; /* operations of this rank that have matched so far */
};

struct tti_rules {
    int count;
    struct tti_rule rules[TTI_RULES_MAX];
};

/* The effect of all rules on one operation; all zero: none. */
struct tti_fault_effect {
    int64_t delay_ns;    /* delays and jitter of all rules together     */
    int64_t bandwidth;   /* the lowest one; 0 = no limit                */
    tutti_status status; /* the first error, unless `drop` came before  */
    bool drop;
    int rule; /* the rule of the error or drop, and the match in that rule, both from 1 */
    int64_t match;
};

/* INVALID_ARGUMENT with the position and what is accepted there. `rules` need not be initialised. */
tutti_status tti_rules_parse(const char *text, struct tti_rules *rules, tutti_error *error);

/* Counts the operation in the rules that match. From any thread; simultaneous operations get their numbers in any
 * order. */
struct tti_fault_effect tti_rules_evaluate(struct tti_rules *rules, int32_t rank, tutti_operation operation);

#endif
