/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parser by recursive descent, one function for each part of the grammar:
 *
 *   rules  = [ rule { ";" rule } ]
 *   rule   = ( operation | "*" ) ":" item { "," item }
 *   item   = "rank=" NUMBER | "seed=" NUMBER | action [ "@" NUMBER [ "+" | "-" NUMBER ] ]
 *   action = "delay=" TIME | "jitter=" TIME | "bandwidth=" BYTES | "error=" STATUS | "drop"
 *
 * Blanks between these parts are skipped. An error names the position and what is accepted there.
 */
#include "backends/fault/rules.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define DAY_NS (INT64_C(24) * 3600 * 1000000000)

struct parser {
    const char *text;
    const char *at;
    bool rank_seen; /* in this rule */
    bool seed_seen;
    tutti_error *error;
};

static tutti_status reject_at(const struct parser *p, const char *where, const char *expected)
{
    int length = (int)strcspn(where, ",;");
    char found[32] = "the end";
    if (length > 0) {
        snprintf(found, sizeof(found), "\"%.*s\"", length < 24 ? length : 24, where);
    } else if (*where != '\0') {
        snprintf(found, sizeof(found), "\"%c\"", *where);
    }
    return tti_error_set(p->error, TUTTI_INVALID_ARGUMENT, "fault.rules, character %d: found %s; expected %s",
                         (int)(where - p->text) + 1, found, expected);
}

static tutti_status reject(const struct parser *p, const char *expected)
{
    return reject_at(p, p->at, expected);
}

static void skip_blanks(struct parser *p)
{
    p->at += strspn(p->at, " \t");
}

static bool take(struct parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c) {
        return false;
    }
    p->at++;
    skip_blanks(p);
    return true;
}

/* Letters and underscores. */
static size_t word_length(const struct parser *p)
{
    size_t length = 0;
    while (isalpha((unsigned char)p->at[length]) || p->at[length] == '_') {
        length++;
    }
    return length;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t length = word_length(p);
    if (length == 0 || length != strlen(word) || strncmp(p->at, word, length) != 0) {
        return false;
    }
    p->at += length;
    return true;
}

static bool take_number(struct parser *p, int64_t *number)
{
    const char *digit = p->at;
    int64_t n = 0;
    for (; isdigit((unsigned char)*digit); digit++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *digit - '0', &n)) {
            return false;
        }
    }
    if (digit == p->at) {
        return false;
    }
    p->at = digit;
    *number = n;
    return true;
}

static tutti_status parse_time(struct parser *p, int64_t *ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    const char *begin = p->at;
    if (take_number(p, ns)) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
            if (take_word(p, units[i].name) && !__builtin_mul_overflow(*ns, units[i].ns, ns) && *ns <= DAY_NS) {
                return TUTTI_OK;
            }
        }
    }
    return reject_at(p, begin, "a whole number of us, ms or s up to one day, as in 200us");
}

static tutti_status parse_bandwidth(struct parser *p, int64_t *bytes)
{
    static const char units[] = "KMG";
    const char *begin = p->at;
    if (take_number(p, bytes) && *bytes > 0) {
        const char *unit = *p->at ? strchr(units, *p->at) : NULL;
        if (!unit) {
            return TUTTI_OK;
        }
        p->at++;
        if (!__builtin_mul_overflow(*bytes, INT64_C(1) << (10 * (unit - units + 1)), bytes)) {
            return TUTTI_OK;
        }
    }
    return reject_at(p, begin, "a number of bytes per second, with or without K, M or G (powers of 1024), as in 1G");
}

/* Statuses that an operation can end with. Others come from other functions. */
static bool is_possible(tutti_status status)
{
    return (status > TUTTI_OK && status <= TUTTI_MISMATCH) || (status >= TUTTI_SYSTEM && status <= TUTTI_REVOKED);
}

static tutti_status parse_status(struct parser *p, int64_t *status)
{
    for (tutti_status s = TUTTI_INVALID_ARGUMENT; s <= TUTTI_REVOKED; s++) {
        if (is_possible(s) && take_word(p, tutti_status_name(s))) {
            *status = s;
            return TUTTI_OK;
        }
    }
    return reject(p, "the name of a status that an operation can fail with, as in TIMEOUT or NO_MEMORY");
}

/* "@3", "@3-5", "@3+"; absent: every match. */
static tutti_status parse_matches(struct parser *p, struct tti_rule_action *action)
{
    action->first = 1;
    action->last = INT64_MAX;
    if (!take(p, '@')) {
        return TUTTI_OK;
    }
    const char *begin = p->at;
    bool good = take_number(p, &action->first) && action->first > 0;
    if (good && !take(p, '+')) {
        action->last = action->first;
        if (take(p, '-')) {
            good = take_number(p, &action->last) && action->last >= action->first;
        }
    }
    return good ? TUTTI_OK : reject_at(p, begin, "the numbers of matches, from 1, as in @3, @3-5 or @3+");
}

static tutti_status parse_rank_or_seed(struct parser *p, struct tti_rule *rule, bool rank)
{
    bool *seen = rank ? &p->rank_seen : &p->seed_seen;
    const char *begin = p->at;
    int64_t number;
    if (!take_number(p, &number) || (rank && number > INT32_MAX) || *seen) {
        return reject_at(p, begin, rank ? "the number of one rank" : "the number of one seed");
    }
    *seen = true;
    if (rank) {
        rule->rank = (int32_t)number;
    } else {
        rule->seed = (uint64_t)number;
    }
    return TUTTI_OK;
}

/* A barrier has no payload, and a message counts at its sender. */
static bool has_bandwidth(tutti_operation operation)
{
    return operation != TUTTI_OP_BARRIER && operation != TUTTI_OP_RECV;
}

static tutti_status parse_action(struct parser *p, const struct tti_rule *rule, struct tti_rule_action *action)
{
    static const char *const names[] = {"delay", "jitter", "bandwidth", "error", "drop"};
    const char *begin = p->at;
    int kind = TTI_RULE_DELAY;
    while (kind <= TTI_RULE_DROP && !take_word(p, names[kind])) {
        kind++;
    }
    if (kind > TTI_RULE_DROP || (kind != TTI_RULE_DROP && !take(p, '='))) {
        return reject_at(p, begin,
                         "delay=TIME, jitter=TIME, bandwidth=BYTES, error=STATUS, drop (each with or "
                         "without @N, @N-M or @N+), rank=R or seed=N");
    }
    *action = (struct tti_rule_action){.kind = (enum tti_rule_kind)kind};
    tutti_status status = TUTTI_OK;
    switch (action->kind) {
    case TTI_RULE_DELAY:
    case TTI_RULE_JITTER:
        status = parse_time(p, &action->value);
        break;
    case TTI_RULE_BANDWIDTH:
        status = has_bandwidth(rule->operation)
                     ? parse_bandwidth(p, &action->value)
                     : reject_at(p, begin,
                                 "no bandwidth: a barrier has no payload, and a message counts at its "
                                 "sender");
        break;
    case TTI_RULE_ERROR:
        status = parse_status(p, &action->value);
        break;
    case TTI_RULE_DROP:
        break;
    }
    return status == TUTTI_OK ? parse_matches(p, action) : status;
}

static tutti_status parse_item(struct parser *p, struct tti_rule *rule)
{
    bool rank = take_word(p, "rank");
    if (rank || take_word(p, "seed")) {
        return take(p, '=') ? parse_rank_or_seed(p, rule, rank) : reject(p, "= and a number");
    }
    if (rule->count == TTI_RULE_ACTIONS) {
        return reject(p, "another rule: a rule has at most 8 actions");
    }
    tutti_status status = parse_action(p, rule, &rule->actions[rule->count]);
    rule->count += status == TUTTI_OK;
    return status;
}

static tutti_status parse_operation(struct parser *p, tutti_operation *operation)
{
    *operation = TUTTI_OP_NONE;
    if (take(p, '*')) {
        return TUTTI_OK;
    }
    for (tutti_operation o = TUTTI_OP_ALL_REDUCE; o <= TUTTI_OP_RECV; o++) {
        if (take_word(p, tutti_operation_name(o))) {
            *operation = o;
            return TUTTI_OK;
        }
    }
    return reject(p, "*, all_reduce, reduce, broadcast, all_gather, gather, scatter, reduce_scatter, all_to_all, "
                     "barrier, send or recv");
}

static tutti_status parse_rule(struct parser *p, struct tti_rule *rule)
{
    p->rank_seen = false;
    p->seed_seen = false;
    rule->rank = -1;
    rule->seed = 1;
    rule->count = 0;
    atomic_init(&rule->matches, 0);
    tutti_status status = parse_operation(p, &rule->operation);
    if (status == TUTTI_OK && !take(p, ':')) {
        status = reject(p, "':' and an action");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    do {
        if ((status = parse_item(p, rule)) != TUTTI_OK) {
            return status;
        }
    } while (take(p, ','));
    if (*p->at != ';' && *p->at != '\0') {
        return reject(p, "',' or ';' or the end");
    }
    return rule->count > 0 ? TUTTI_OK : reject(p, "an action: this rule does nothing");
}

tutti_status tti_rules_parse(const char *text, struct tti_rules *rules, tutti_error *error)
{
    struct parser p = {.text = text, .at = text, .error = error};
    rules->count = 0;
    skip_blanks(&p);
    if (*p.at == '\0') {
        return TUTTI_OK;
    }
    do {
        if (rules->count == TTI_RULES_MAX) {
            return reject(&p, "the end: at most 32 rules are accepted");
        }
        tutti_status status = parse_rule(&p, &rules->rules[rules->count]);
        if (status != TUTTI_OK) {
            return status;
        }
        rules->count++;
    } while (take(&p, ';'));
    return TUTTI_OK;
}

/* The same number for the same arguments in every run, so simultaneous operations share no state. */
static int64_t jitter(const struct tti_rule *rule, int number, int32_t rank, int64_t match, int64_t most_ns)
{
    uint64_t x = rule->seed;
    const uint64_t salts[] = {(uint64_t)rank, (uint64_t)number, (uint64_t)match};
    for (int i = 0; i < 3; i++) { /* splitmix64 */
        x += salts[i] + UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return (int64_t)(x % ((uint64_t)most_ns + 1));
}

static void apply(const struct tti_rule *rule, int number, int32_t rank, int64_t match, struct tti_fault_effect *v)
{
    for (int i = 0; i < rule->count; i++) {
        const struct tti_rule_action *a = &rule->actions[i];
        if (match < a->first || match > a->last) {
            continue;
        }
        switch (a->kind) {
        case TTI_RULE_DELAY:
            v->delay_ns += a->value;
            break;
        case TTI_RULE_JITTER:
            v->delay_ns += jitter(rule, number, rank, match, a->value);
            break;
        case TTI_RULE_BANDWIDTH:
            v->bandwidth = v->bandwidth == 0 || a->value < v->bandwidth ? a->value : v->bandwidth;
            break;
        case TTI_RULE_ERROR:
        case TTI_RULE_DROP:
            if (v->rule == 0) {
                v->status = a->kind == TTI_RULE_ERROR ? (tutti_status)a->value : TUTTI_OK;
                v->drop = a->kind == TTI_RULE_DROP;
                v->rule = number;
                v->match = match;
            }
            break;
        }
    }
}

struct tti_fault_effect tti_rules_evaluate(struct tti_rules *rules, int32_t rank, tutti_operation operation)
{
    struct tti_fault_effect v = {0};
    for (int i = 0; i < rules->count; i++) {
        struct tti_rule *rule = &rules->rules[i];
        if ((rule->operation == TUTTI_OP_NONE || rule->operation == operation) &&
            (rule->rank < 0 || rule->rank == rank)) {
            /* relaxed: a counter, it orders no other memory */
            apply(rule, i + 1, rank, atomic_fetch_add_explicit(&rule->matches, 1, memory_order_relaxed) + 1, &v);
        }
    }
    return v;
}
