/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases that all regular collectives share, made from their traits. Every chapter varies one thing and keeps the
 * rest simple, since the full product would take days: dtype x op, size, root, dimension, layout, counts, values.
 *
 * Sizes lie around the places where an engine may change its mind: what fits into one message line, a page, a cache
 * line, a staging window and a few of them; counted for the whole tensor as well as for one rank's part of it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check/cases/cases.h"
#include "check/operation/jobs.h"
#include "check/reference/float_format.h"

/* ---- names ---- */

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t capacity, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

/* One case: its name says everything that the plan says. */
static void one(struct tti_check *c, const struct tti_check_collective *collective, const char *chapter,
                const struct tti_check_plan *p)
{
    static const char *const layouts[] = {"",           "/unaligned", "/byte-offset", "/strided", "/transposed",
                                          "/backwards", "/flipped"};
    static const char *const spreads[] = {"", "/uneven", "/zeros", "/last-only", "/gaps", "/reversed"};
    char name[sizeof(c->name)] = "";
    append(name, sizeof(name), "%s/%s", chapter, tutti_dtype_name(p->dtype));
    if (collective->traits & TTI_CHECK_REDUCES) {
        append(name, sizeof(name), "/%s", tutti_reduce_op_name(p->op));
    }
    append(name, sizeof(name), "/");
    for (int d = 0; d < p->ndim; d++) {
        append(name, sizeof(name), d == 0 ? "%lld" : "x%lld", (long long)p->shape[d]);
    }
    append(name, sizeof(name), "%s", p->ndim == 0 ? "scalar" : "");
    if (p->ndim > 1 && (collective->traits & TTI_CHECK_JOINS)) {
        append(name, sizeof(name), "/dim%d", p->dim);
    }
    if (collective->traits & TTI_CHECK_ROOTED) {
        append(name, sizeof(name), "/root%d", p->root);
    }
    append(name, sizeof(name), "%s%s%s", layouts[p->layout], spreads[p->spread], p->in_place ? "/in-place" : "");
    TTI_CHECK_ROUNDS(c, tti_check_plan_bytes(p), "%s", name) {
        tti_check_run(c, collective->form, p);
    }
}

/* Whether the plan has an in-place form: a part must be contiguous in the joined tensor. */
static bool has_in_place(const struct tti_check_collective *collective, const struct tti_check_plan *p)
{
    if (!(collective->traits & TTI_CHECK_IN_PLACE)) {
        return false;
    }
    if (!(collective->traits & TTI_CHECK_JOINS)) {
        return true;
    }
    return p->dim == 0 && p->layout < TTI_CHECK_STRIDED;
}

static void both(struct tti_check *c, const struct tti_check_collective *collective, const char *chapter,
                 const struct tti_check_plan *p)
{
    struct tti_check_plan plan = *p;
    plan.in_place = false;
    one(c, collective, chapter, &plan);
    if (has_in_place(collective, p)) {
        plan.in_place = true;
        one(c, collective, chapter, &plan);
    }
}

/* ---- chapters ---- */

static void types(struct tti_check *c, const struct tti_check_collective *collective)
{
    const int64_t counts[] = {5, 301, 3001};
    const size_t n = c->quick ? 2 : 3;
    const bool reduces = (collective->traits & TTI_CHECK_REDUCES) != 0;
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        for (tutti_reduce_op op = reduces ? 1 : 0; op < (reduces ? TUTTI_REDUCE_OP_COUNT : 1); op++) {
            if (reduces && !tutti_reduce_op_valid(op, dtype)) {
                continue;
            }
            for (size_t i = 0; i < n; i++) {
                const struct tti_check_plan p = tti_check_plan_1d(dtype, op, counts[i]);
                both(c, collective, "types", &p);
            }
        }
    }
}

/* Large reductions by other operators and of other types than the sums of `sizes`, in place at one size and out of
 * place at the other. The reference rounds bf16 slowly: its tensors are small ones only. */
static void large_types(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const struct {
        tutti_dtype dtype;
        tutti_reduce_op op;
    } kinds[] = {{TUTTI_F32, TUTTI_AVG},     {TUTTI_I64, TUTTI_SUM},        {TUTTI_F32, TUTTI_MAX},
                 {TUTTI_F32, TUTTI_PRODUCT}, {TUTTI_F32, TUTTI_PREMUL_SUM}, {TUTTI_F64, TUTTI_SUM},
                 {TUTTI_F64, TUTTI_AVG},     {TUTTI_I64, TUTTI_AVG},        {TUTTI_BF16, TUTTI_SUM},
                 {TUTTI_BF16, TUTTI_AVG}};
    static const int64_t bytes[] = {300024, 1200024};
    if (!(collective->traits & TTI_CHECK_REDUCES)) {
        return;
    }
    for (size_t k = 0; k < (c->quick ? 2 : sizeof(kinds) / sizeof(kinds[0])); k++) {
        for (size_t i = 0; i < (c->quick || kinds[k].dtype == TUTTI_BF16 ? 1 : 2); i++) {
            struct tti_check_plan p = tti_check_plan_1d(kinds[k].dtype, kinds[k].op, bytes[i]);
            p.shape[0] /= (int64_t)tutti_dtype_size(p.dtype) * (collective->traits & TTI_CHECK_JOINS ? c->size : 1);
            p.in_place = (k + i) % 2 == 1;
            one(c, collective, "large-types", &p);
        }
    }
}

static void sizes(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const int64_t bytes[] = {0,      4,      8,      32,     36,      40,      64,      92,
                                    96,     100,    104,    108,    128,     1000,    4092,    4096,
                                    4100,   16388,  65532,  65536,  65540,   131072,  262140,  262144,
                                    262148, 524284, 524292, 786436, 1048572, 1048580, 2097156, 5000004};
    static const int64_t odd_bytes[] = {1, 3, 91, 93, 99, 101, 4095, 4097, 65535, 65537, 262143, 262145};
    const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
    const bool joins = (collective->traits & TTI_CHECK_JOINS) != 0;
    int64_t done = -1;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        if (c->quick && bytes[i] > 70000 && bytes[i] != 262148) {
            continue;
        }
        struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, op, bytes[i] / 4);
        if (!joins || bytes[i] <= 262148) {
            both(c, collective, "sizes", &p);
        }
        if (joins && c->size > 1 && p.shape[0] / c->size != done) {
            done = p.shape[0] / c->size;
            p.shape[0] = done;
            both(c, collective, "sizes-total", &p);
        }
    }
    for (size_t i = 0; i < sizeof(odd_bytes) / sizeof(odd_bytes[0]); i++) {
        if (!c->quick || odd_bytes[i] < 5000) {
            const struct tti_check_plan p = tti_check_plan_1d(TUTTI_U8, op, odd_bytes[i]);
            both(c, collective, "sizes", &p);
        }
    }
    if ((collective->traits & TTI_CHECK_HUGE) && !c->quick) {
        const int64_t elements = (int64_t)32 << 18;
        struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, op, joins ? elements / c->size : elements);
        one(c, collective, "huge", &p);
        if (collective->traits & TTI_CHECK_IN_PLACE) {
            p.shape[0] /= 4;
            p.in_place = true;
            one(c, collective, "huge", &p);
        }
    }
}

static void roots(struct tti_check *c, const struct tti_check_collective *collective)
{
    const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
    static const int64_t counts[] = {0, 3, 5000, 100003};
    if (!(collective->traits & TTI_CHECK_ROOTED)) {
        return;
    }
    for (int root = 0; root < c->size; root++) {
        for (size_t i = 0; i < (c->quick ? 3u : 4u); i++) {
            struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, op, counts[i]);
            p.root = root;
            both(c, collective, "roots", &p);
        }
    }
}

static void shaped(struct tti_check *c, const struct tti_check_collective *collective, const char *chapter,
                   struct tti_check_plan p, int64_t s0, int64_t s1, int64_t s2)
{
    p.ndim = 3;
    p.shape[0] = s0;
    p.shape[1] = s1;
    p.shape[2] = s2;
    p.root = c->size / 2;
    const int dims = collective->traits & TTI_CHECK_JOINS ? 3 : 1;
    for (p.dim = 0; p.dim < dims; p.dim++) {
        both(c, collective, chapter, &p);
    }
}

static void dimensions(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_F16, TUTTI_F32, TUTTI_I64};
    const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        struct tti_check_plan p = tti_check_plan_1d(dtypes[i], op, 0);
        shaped(c, collective, "dims", p, 3, 4, 5);
        shaped(c, collective, "dims", p, 1, 1, 1);
        shaped(c, collective, "dims", p, 2, 0, 3);
        if (!c->quick) {
            shaped(c, collective, "dims", p, 5, 7, 600);
            shaped(c, collective, "dims", p, 40, 300, 3);
        }
    }
    if (collective->traits & TTI_CHECK_SCALARS) {
        struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, op, 0);
        p.ndim = 0;
        both(c, collective, "dims", &p);
    }
}

static void layouts(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_BF16, TUTTI_F32, TUTTI_F64};
    const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
    for (enum tti_check_layout layout = TTI_CHECK_UNALIGNED; layout <= TTI_CHECK_FLIPPED; layout++) {
        for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
            struct tti_check_plan p = tti_check_plan_1d(dtypes[i], op, 0);
            p.layout = layout;
            shaped(c, collective, "layouts", p, 3, 4, 5);
            if (!c->quick) {
                shaped(c, collective, "layouts", p, 7, 11, 130);
            }
        }
    }
}

static void spreads(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_F32};
    const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
    if (!(collective->traits & TTI_CHECK_SPREADS)) {
        return;
    }
    /* reductions take counts, but no displacements */
    const enum tti_check_spread last = op == 0 ? TTI_CHECK_REVERSED : TTI_CHECK_LAST;
    for (enum tti_check_spread spread = TTI_CHECK_EVEN; spread <= last; spread++) {
        for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
            struct tti_check_plan p = tti_check_plan_1d(dtypes[i], op, 9);
            p.spread = spread;
            both(c, collective, "spreads", &p);
            /* several staging windows; in the quick suite for one case only */
            p.shape[0] = c->quick && (dtypes[i] != TUTTI_F32 || spread != TTI_CHECK_UNEVEN) ? 4000 : 200001;
            both(c, collective, "spreads", &p);
            shaped(c, collective, "spreads", p, 3, 4, 5);
            if (!c->quick) {
                shaped(c, collective, "spreads", p, 5, 60, 70);
                p.layout = TTI_CHECK_STRIDED;
                shaped(c, collective, "spreads", p, 3, 4, 5);
            }
        }
    }
}

static void values(struct tti_check *c, const struct tti_check_collective *collective)
{
    if (!(collective->traits & TTI_CHECK_REDUCES)) {
        return;
    }
    for (tutti_dtype dtype = 1; dtype < TUTTI_BOOL; dtype++) {
        const bool is_float = tti_check_format_of(dtype) != NULL;
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (!tutti_reduce_op_valid(op, dtype)) {
                continue;
            }
            /* a 64-bit sum of extremes is not exact, and so has no average */
            const bool inexact = op == TUTTI_AVG && !is_float && tutti_dtype_size(dtype) == 8;
            struct tti_check_plan p = tti_check_plan_1d(dtype, op, c->quick ? 240 : 1500);
            p.pattern = TTI_CHECK_SPECIAL;
            if (!inexact) {
                one(c, collective, "special", &p);
            }
            if (op == TUTTI_AVG || op == TUTTI_SUM) {
                p.pattern = TTI_CHECK_LARGE;
                one(c, collective, "large", &p);
            }
        }
    }
}

void tti_check_delay_rank(void)
{
    const struct timespec a_while = {.tv_nsec = 2000000};
    nanosleep(&a_while, NULL);
}

/* One operation behind the other while one rank after the other comes late: the rest runs ahead as far as the engine
 * lets it, and must not reuse what the late one has not read yet. */
static void laggards(struct tti_check *c, const struct tti_check_collective *collective)
{
    static const struct {
        int64_t count;
        int every; /* operations between two delays: more than an engine keeps in flight */
        int late_quick;
        int late_full;
    } kinds[] = {{3, 40, 2, 4}, {1000, 40, 2, 4}, {300003, 1, 3, 8}};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const tutti_reduce_op op = collective->traits & TTI_CHECK_REDUCES ? TUTTI_SUM : 0;
        struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, op, kinds[k].count);
        p.root = c->size / 2;
        if ((collective->traits & TTI_CHECK_JOINS) && p.shape[0] > 1000) {
            /* a reduction is cut before it is sent; other parts may be sent whole, up to a limit of memory */
            const int64_t divisor = collective->traits & TTI_CHECK_REDUCES ? c->size : (c->size + 3) / 4;
            p.shape[0] /= divisor;
        }
        const int operations = kinds[k].every * (c->quick ? kinds[k].late_quick : kinds[k].late_full);
        TTI_CHECK_CASE(c, "laggards/f32/%lld", (long long)p.shape[0]) {
            for (int i = 0; i < operations; i++) {
                if (i % kinds[k].every == 0 && c->rank == (p.root + i / kinds[k].every) % c->size) {
                    tti_check_delay_rank();
                }
                struct tti_check sub = tti_check_sub(c, c->group, (uint64_t)i);
                sub.completion = tti_check_random_completion(&sub, 0, 4);
                tti_check_run(&sub, collective->form, &p);
                tti_check_merge(c, &sub);
            }
        }
    }
}

void tti_check_regular_cases(struct tti_check *c, const struct tti_check_collective *collective)
{
    if (collective->traits & TTI_CHECK_SPREADS) {
        spreads(c, collective);
    } else {
        types(c, collective);
        sizes(c, collective);
        large_types(c, collective);
        roots(c, collective);
        values(c, collective);
    }
    dimensions(c, collective);
    layouts(c, collective);
    laggards(c, collective);
}
