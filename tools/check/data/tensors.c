/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors that notice each write outside of the result. All of a tensor's memory first holds a pattern that depends on
 * the position: guards on both sides, gaps between strided elements, and the elements themselves. So "not written here"
 * is one comparison whatever the place.
 *
 * Everything here happens in host memory. to_device and from_device are the only ways between it and a device's.
 */
#include "check/data/tensors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/sabotage.h"
#include "common/device_arena.h"

#define GUARD  256u
#define PERIOD 256u

/* Two periods of the pattern, so that a whole one can be had from any position on. */
static unsigned char untouched[2 * PERIOD];
static pthread_once_t pattern_once = PTHREAD_ONCE_INIT;

static void make_pattern(void)
{
    for (size_t i = 0; i < sizeof(untouched); i++) {
        untouched[i] = (unsigned char)(i * 37u + 0x5bu);
    }
}

/* Bytes [from, to) of the mirror go to the device, or come from there. On the CPU the mirror is the memory itself. */
static void to_device(struct tti_check_tensor *x, size_t from, size_t to)
{
    if (x->there) {
        tti_check_device_copy(x->arena, x->there + from, x->memory + from, to - from);
    }
}

static void from_device(struct tti_check_tensor *x, size_t from, size_t to)
{
    if (x->there) {
        tti_check_device_copy(x->arena, x->memory + from, x->there + from, to - from);
    }
}

/* Where calls find what `memory` holds. */
static unsigned char *base_of(const struct tti_check_tensor *x)
{
    return x->there ? x->there : x->memory;
}

static size_t run_from(size_t from, size_t to)
{
    return to - from < PERIOD ? to - from : PERIOD;
}

static void write_pattern(unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PERIOD) {
        memcpy(memory + i, untouched, run_from(i, bytes));
    }
}

/* The first position in [from, to) that does not hold the pattern; `to` if all do. */
static size_t first_written(const unsigned char *memory, size_t from, size_t to)
{
    while (from < to) {
        const size_t n = run_from(from, to);
        const unsigned char *wanted = untouched + from % PERIOD;
        if (memcmp(memory + from, wanted, n) != 0) {
            size_t i = 0;
            while (memory[from + i] == wanted[i]) {
                i++;
            }
            return from + i;
        }
        from += n;
    }
    return to;
}

static int64_t at_least_one(int64_t length)
{
    return length > 0 ? length : 1;
}

/* Strides of dimensions that follow one another without sharing elements. */
static void lay_apart(struct tti_check_tensor *x, int ndim, enum tti_check_layout layout)
{
    int64_t step = 1;
    if (layout == TTI_CHECK_TRANSPOSED) {
        for (int d = 0; d < ndim; d++) {
            x->strides[d] = step;
            step *= at_least_one(x->shape[d]);
        }
        return;
    }
    const int64_t gap = layout == TTI_CHECK_STRIDED || layout == TTI_CHECK_FLIPPED ? 1 : 0;
    step += gap;
    for (int d = ndim - 1; d >= 0; d--) {
        const bool backwards = layout == TTI_CHECK_BACKWARDS || layout == TTI_CHECK_EXPANDED ||
                               (layout == TTI_CHECK_FLIPPED && d == ndim - 1);
        x->strides[d] = backwards ? -step : step;
        step = step * at_least_one(x->shape[d]) + gap;
    }
}

/* Strides in elements, where the first element lies, and what all of them span. */
static void lay_out(struct tti_check_tensor *x, int ndim, enum tti_check_layout layout)
{
    lay_apart(x, ndim, layout);
    for (int d = 0; d < ndim; d++) {
        if (layout == TTI_CHECK_SINGLE || (layout == TTI_CHECK_EXPANDED && d == 0)) {
            x->strides[d] = 0;
        } else if (layout == TTI_CHECK_WINDOWS) {
            x->strides[d] = 1;
        }
    }
    int64_t below = 0;
    int64_t above = 0;
    for (int d = 0; d < ndim; d++) {
        const int64_t reach = (at_least_one(x->shape[d]) - 1) * x->strides[d];
        below += reach < 0 ? -reach : 0;
        above += reach > 0 ? reach : 0;
    }
    x->first = x->count == 0 ? 0 : (size_t)below * x->item;
    x->span = x->count == 0 ? 0 : (size_t)(below + above + 1) * x->item;
}

void tti_check_tensor_make(const struct tti_check *c, struct tti_check_tensor *x, tutti_dtype dtype, int ndim,
                           const int64_t *shape, enum tti_check_layout layout)
{
    memset(x, 0, sizeof(*x));
    x->dtype = dtype;
    x->item = tutti_dtype_size(dtype);
    x->count = 1;
    for (int d = 0; d < ndim; d++) {
        x->shape[d] = shape[d];
        x->count *= (size_t)shape[d];
    }
    lay_out(x, ndim, layout);
    const bool strided = layout >= TTI_CHECK_STRIDED;
    x->compact = !strided;
    x->start = GUARD + (layout == TTI_CHECK_UNALIGNED || layout == TTI_CHECK_OFFSET ? x->item : 0);
    x->bytes = x->start + x->span + GUARD;
    x->memory = tti_check_memory(x->bytes);
    pthread_once(&pattern_once, make_pattern);
    write_pattern(x->memory, x->bytes);
    x->arena = c->arena;
    x->there = c->arena ? tti_check_device_alloc(c->arena, x->bytes) : NULL;
    to_device(x, 0, x->bytes);
    x->t = tti_check_tensor_over(c, base_of(x) + x->start + x->first, ndim, x->shape, dtype);
    if (strided) {
        x->t.strides = x->strides;
    }
    if (layout == TTI_CHECK_OFFSET || layout == TTI_CHECK_FLIPPED) {
        x->t.byte_offset = 3 * x->item;
        x->t.data = (char *)x->t.data - 3 * x->item;
    }
    if (x->count == 0 && layout == TTI_CHECK_COMPACT) {
        x->t.data = NULL; /* legal for a tensor without elements */
    }
}

void tti_check_tensor_free(struct tti_check_tensor *x)
{
    if (x->there) {
        tti_device_arena_free(x->arena, x->there, x->bytes);
    }
    free(x->memory);
    free(x->packed);
    x->there = NULL;
    x->memory = NULL;
    x->packed = NULL;
}

/* Where the element of a row-major number lies in memory. */
static size_t place_of(const struct tti_check_tensor *x, size_t number)
{
    int64_t offset = 0;
    for (int d = x->t.ndim - 1; d >= 0; d--) {
        offset += (int64_t)(number % (size_t)x->shape[d]) * x->strides[d];
        number /= (size_t)x->shape[d];
    }
    return x->start + (size_t)((int64_t)x->first + offset * (int64_t)x->item);
}

void tti_check_tensor_fill(struct tti_check *c, struct tti_check_tensor *x, size_t at, size_t count, int rank,
                           enum tti_check_pattern pattern, uint64_t first)
{
    const uint64_t key = tti_check_rank_key(c, rank);
    const size_t place = x->start + at * x->item;
    enum { BLOCK = 2048 };
    uint64_t block[BLOCK]; /* copied from here: ThreadSanitizer does not see what tti_check_generate writes */
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        tti_check_generate(block, x->dtype, pattern, key, first + done, n);
        if (x->compact) {
            memcpy(x->memory + place + done * x->item, block, n * x->item);
        }
        for (size_t i = 0; i < n && !x->compact; i++) {
            memcpy(x->memory + place_of(x, at + done + i), (unsigned char *)block + i * x->item, x->item);
        }
        done += n;
    }
    to_device(x, x->compact ? place : x->start, x->compact ? place + count * x->item : x->start + x->span);
}

void tti_check_tensor_take(struct tti_check_tensor *x, const struct tti_check_tensor *from)
{
    for (size_t i = 0; i < x->count; i++) {
        memcpy(x->memory + place_of(x, i), from->memory + place_of(from, i), x->item);
    }
    to_device(x, x->start, x->start + x->span);
}

DLTensor tti_check_tensor_view(const struct tti_check_tensor *x, size_t at, int ndim, const int64_t *shape)
{
    DLTensor view = tutti_tensor_nd(base_of(x) + x->start + at * x->item, ndim, shape, x->dtype);
    view.device = x->t.device;
    return view;
}

void tti_check_tensor_seal(struct tti_check_tensor *x)
{
    x->sealed = tti_check_hash(x->memory, x->bytes, 0);
}

void tti_check_tensor_unchanged(struct tti_check *c, struct tti_check_tensor *x, const char *what)
{
    from_device(x, 0, x->bytes);
    if (tti_check_sabotaged(c, TTI_CHECK_SPOIL_INPUT)) {
        x->memory[x->start] ^= 1;
    }
    if (tti_check_hash(x->memory, x->bytes, 0) != x->sealed) {
        tti_check_fail(c, "%s was written to, and is not the place of a result", what);
    }
}

static void fail_byte(struct tti_check *c, const struct tti_check_tensor *x, size_t position)
{
    tti_check_fail(c,
                   "byte %td relative to the output's first element was written (the output's %zu elements of %zu "
                   "bytes span %zu bytes)",
                   (ptrdiff_t)position - (ptrdiff_t)(x->start + x->first), x->count, x->item, x->span);
}

/* The gaps between the elements of a strided tensor. */
static void check_gaps(struct tti_check *c, const struct tti_check_tensor *x)
{
    unsigned char *owned = tti_check_memory(x->bytes);
    memset(owned, 0, x->bytes);
    for (size_t i = 0; i < x->count; i++) {
        memset(owned + place_of(x, i), 1, x->item);
    }
    for (size_t i = x->start; i < x->start + x->span; i++) {
        if (!owned[i] && x->memory[i] != untouched[i % PERIOD]) {
            fail_byte(c, x, i);
            break;
        }
    }
    free(owned);
}

static void check_guards(struct tti_check *c, const struct tti_check_tensor *x)
{
    const size_t end = x->start + x->span;
    const size_t before = first_written(x->memory, 0, x->start);
    const size_t behind = first_written(x->memory, end, x->bytes);
    if (before < x->start) {
        fail_byte(c, x, before);
    }
    if (behind < x->bytes) {
        fail_byte(c, x, behind);
    }
    if (!x->compact && x->count > 0) {
        check_gaps(c, x);
    }
}

const unsigned char *tti_check_tensor_result(struct tti_check *c, struct tti_check_tensor *x)
{
    from_device(x, 0, x->bytes);
    if (tti_check_sabotaged(c, TTI_CHECK_SPOIL_GUARD)) {
        x->memory[x->start + x->span] ^= 1;
    }
    if (x->count > 0 && tti_check_sabotaged(c, TTI_CHECK_SPOIL_RESULT)) {
        /* the highest byte of an element: above any bound of an error */
        x->memory[x->start + x->item - 1] ^= x->dtype == TUTTI_BOOL ? 1 : 0x40;
    }
    check_guards(c, x);
    if (x->compact) {
        return x->memory + x->start;
    }
    free(x->packed);
    x->packed = tti_check_memory(x->count * x->item);
    for (size_t i = 0; i < x->count; i++) {
        memcpy(x->packed + i * x->item, x->memory + place_of(x, i), x->item);
    }
    return x->packed;
}

void tti_check_tensor_untouched(struct tti_check *c, struct tti_check_tensor *x, size_t at, size_t count)
{
    /* a compact run at once, strided elements one by one */
    const size_t step = x->compact ? count : 1;
    for (size_t i = at; i < at + count; i += step) {
        const size_t place = x->compact ? x->start + i * x->item : place_of(x, i);
        const size_t end = place + step * x->item;
        from_device(x, place, end);
        const size_t written = first_written(x->memory, place, end);
        if (written < end) {
            tti_check_fail(c, "element %zu of %zu was written, but belongs to no part of the result",
                           i + (written - place) / x->item, x->count);
            return;
        }
    }
}
