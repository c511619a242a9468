/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether two indices of a tensor reach the same element. They do if and only if some difference of indices (at most
 * shape - 1 in each dimension, not all 0) times the strides gives 0. The code searches for such a difference.
 *
 * Dimensions are sorted by stride. If a stride exceeds all that the smaller ones reach together, its difference must be
 * 0, and the dimension drops out. That decides every layout made by slicing, transposing or reversing a compact one.
 * The rest is searched from the largest stride down (branch and bound). The search has a budget; a layout that exhausts
 * it counts as overlapping. Two dimensions need no search: the least difference is each stride divided by their
 * greatest common divisor.
 */
#include "tensor/strided.h"

struct dimension {
    uint64_t stride; /* absolute: a difference may have either sign */
    uint64_t most;   /* shape - 1, > 0 */
};

struct search {
    const struct dimension *dims; /* ascending strides */
    const uint64_t *reach;        /* reach[i]: the largest sum of dimensions 0..i-1 */
    int budget;
};

/* Whether dimensions 0..count-1 can sum to `target`. */
static bool reachable(struct search *search, int count, uint64_t target)
{
    if (--search->budget < 0) {
        return true;
    }
    if (target > search->reach[count]) {
        return false;
    }
    if (count == 0 || target == 0) {
        return target == 0;
    }
    const struct dimension *d = &search->dims[count - 1];
    if (count == 1) {
        return target % d->stride == 0 && target / d->stride <= d->most;
    }
    /* Each difference whose rest, of either sign, is within reach of the others. */
    const uint64_t others = search->reach[count - 1];
    const uint64_t lowest = target > others ? (target - others + d->stride - 1) / d->stride : 0;
    for (uint64_t times = lowest; times <= d->most; times++) {
        const uint64_t value = times * d->stride;
        const uint64_t rest = value > target ? value - target : target - value;
        if (value > target && rest > others) {
            break;
        }
        if (reachable(search, count - 1, rest)) {
            return true;
        }
    }
    /* A negative difference: the others must reach the target plus that. */
    for (uint64_t times = 1; times <= d->most && target + times * d->stride <= others; times++) {
        if (reachable(search, count - 1, target + times * d->stride)) {
            return true;
        }
    }
    return false;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The dimensions longer than 1, by ascending stride. */
static int sorted_dimensions(const DLTensor *t, struct dimension *dims)
{
    int count = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1) {
            continue;
        }
        const int64_t stride = t->strides[i];
        const struct dimension d = {
            .stride = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride,
            .most = (uint64_t)t->shape[i] - 1,
        };
        int place = count++;
        while (place > 0 && dims[place - 1].stride > d.stride) {
            dims[place] = dims[place - 1];
            place--;
        }
        dims[place] = d;
    }
    return count;
}

bool tti_tensor_self_overlaps(const DLTensor *t)
{
    if (tutti_tensor_count(t) <= 1 || !t->strides) {
        return false;
    }
    struct dimension dims[TUTTI_MAX_NDIM];
    uint64_t reach[TUTTI_MAX_NDIM + 1] = {0};
    const int count = sorted_dimensions(t, dims);
    for (int i = 0; i < count; i++) {
        uint64_t own;
        if (dims[i].stride == 0 || __builtin_mul_overflow(dims[i].stride, dims[i].most, &own) ||
            __builtin_add_overflow(reach[i], own, &reach[i + 1]) || reach[i + 1] > (uint64_t)INT64_MAX) {
            return true; /* larger than any memory */
        }
    }
    if (count < 2) {
        return false;
    }
    const uint64_t common = greatest_common_divisor(dims[0].stride, dims[1].stride);
    if (dims[0].stride / common <= dims[1].most && dims[1].stride / common <= dims[0].most) {
        return true;
    }
    /* i is the largest dimension whose difference is not 0; its sign does not matter. */
    struct search search = {.dims = dims, .reach = reach, .budget = 100000};
    for (int i = 2; i < count; i++) {
        for (uint64_t times = 1; times <= dims[i].most && times * dims[i].stride <= reach[i]; times++) {
            if (reachable(&search, i, times * dims[i].stride)) {
                return true;
            }
        }
    }
    return false;
}
