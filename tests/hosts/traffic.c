/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic BACKEND OPERATION BYTES CALLS: what one call sends over the network, counted by the kernel at eth0. BYTES are
 * those of the whole tensor (all_gather, reduce_scatter and all_to_all: of all parts).
 *
 * The first rank of each host prints
 *     [RANK] OPERATION BYTES: sent S bytes in P packets, received S bytes in P packets a call
 * Headers are included. The counters are read between two barriers, so that no other rank is in a call at that time,
 * and the share of these barriers is less than that of one call. Every result is checked. Exit code 0, or 1.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "time_limits.h"

struct counters {
    uint64_t received_bytes;
    uint64_t received_packets;
    uint64_t sent_bytes;
    uint64_t sent_packets;
};

struct run {
    tutti_group *world;
    const char *operation;
    int64_t count; /* elements of the whole tensor */
    float *in;
    float *out;
    int32_t rank;
    int32_t size;
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "traffic: %s: %s\n", what, why);
    return 1;
}

static bool read_counters(struct counters *c)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/net/dev", "r");
    while (file && !found && fgets(line, sizeof(line), file)) {
        char *numbers = strstr(line, "eth0:");
        found = numbers && sscanf(numbers + strlen("eth0:"),
                                  "%" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                                  &c->received_bytes, &c->received_packets, &c->sent_bytes, &c->sent_packets) == 4;
    }
    if (file) {
        fclose(file);
    }
    return found;
}

static tutti_status call(const struct run *r, tutti_error *e)
{
    const int64_t whole = r->count;
    const int64_t part = r->count / r->size;
    DLTensor in = tutti_tensor_1d(r->in, &whole, TUTTI_F32);
    DLTensor out = tutti_tensor_1d(r->out, &whole, TUTTI_F32);
    const DLTensor in_part = tutti_tensor_1d(r->in, &part, TUTTI_F32);
    DLTensor out_part = tutti_tensor_1d(r->out, &part, TUTTI_F32);
    const tutti_call *options = TUTTI_CALL(.error = e);
    if (strcmp(r->operation, "all_reduce") == 0) {
        return tutti_all_reduce(r->world, &in, &out, TUTTI_SUM, options);
    }
    if (strcmp(r->operation, "reduce") == 0) {
        return tutti_reduce(r->world, &in, r->rank == 0 ? &out : NULL, TUTTI_SUM, 0, options);
    }
    if (strcmp(r->operation, "broadcast") == 0) {
        return tutti_broadcast(r->world, &out, 0, options);
    }
    if (strcmp(r->operation, "all_gather") == 0) {
        return tutti_all_gather(r->world, &in_part, &out, 0, options);
    }
    if (strcmp(r->operation, "reduce_scatter") == 0) {
        return tutti_reduce_scatter(r->world, &in, &out_part, TUTTI_SUM, 0, options);
    }
    if (strcmp(r->operation, "all_to_all") == 0) {
        return tutti_all_to_all(r->world, &in, &out, 0, options);
    }
    return tutti_barrier(r->world, options);
}

/* What every element of the output is when all inputs are 1; 0: there is no output here. */
static float expected(const struct run *r, int64_t *elements)
{
    *elements = r->count;
    if (strcmp(r->operation, "all_reduce") == 0 || (strcmp(r->operation, "reduce") == 0 && r->rank == 0)) {
        return (float)r->size;
    }
    if (strcmp(r->operation, "reduce_scatter") == 0) {
        *elements = r->count / r->size;
        return (float)r->size;
    }
    if (strcmp(r->operation, "reduce") == 0 || strcmp(r->operation, "barrier") == 0) {
        *elements = 0;
    }
    return 1;
}

static int measure(const struct run *r, const char *bytes, int64_t calls, bool prints)
{
    tutti_error e = {0};
    struct counters before;
    struct counters after;
    for (int64_t i = 0; i < r->count; i++) {
        r->in[i] = 1;
        r->out[i] = strcmp(r->operation, "broadcast") == 0 && r->rank == 0 ? 1 : 0;
    }
    if (call(r, &e) != TUTTI_OK || tutti_barrier(r->world, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail(r->operation, e.message);
    }
    if (!read_counters(&before) || tutti_barrier(r->world, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail("before", e.message);
    }
    for (int64_t i = 0; i < calls; i++) {
        if (call(r, &e) != TUTTI_OK) {
            return fail(r->operation, e.message);
        }
    }
    if (tutti_barrier(r->world, TUTTI_CALL(.error = &e)) != TUTTI_OK || !read_counters(&after) ||
        tutti_barrier(r->world, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail("after", e.message);
    }
    int64_t elements;
    const float right = expected(r, &elements);
    for (int64_t i = 0; i < elements; i++) {
        if (r->out[i] != right) {
            return fail(r->operation, "a wrong result");
        }
    }
    if (prints) {
        const double n = (double)calls;
        printf("[%d] %s %s: sent %.0f bytes in %.1f packets, received %.0f bytes in %.1f packets a call\n", r->rank,
               r->operation, bytes, (double)(after.sent_bytes - before.sent_bytes) / n,
               (double)(after.sent_packets - before.sent_packets) / n,
               (double)(after.received_bytes - before.received_bytes) / n,
               (double)(after.received_packets - before.received_packets) / n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    tutti_error e = {0};
    struct run r = {0};
    if (argc != 5 || atoll(argv[3]) < 0 || atoll(argv[4]) < 1) {
        return fail("usage", "traffic BACKEND OPERATION BYTES CALLS");
    }
    r.operation = argv[2];
    r.count = atoll(argv[3]) / (int64_t)sizeof(float);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tutti_init(TUTTI_CONFIG(.backend = argv[1], .timeout_ms = LONG_MS), &r.world, &e) != TUTTI_OK) {
        return fail("init", e.message);
    }
    r.rank = tutti_group_rank(r.world);
    r.size = tutti_group_size(r.world);
    r.in = malloc((size_t)(r.count + 1) * sizeof(float));
    r.out = malloc((size_t)(r.count + 1) * sizeof(float));
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    int code = r.in && r.out ? measure(&r, argv[3], atoll(argv[4]), !local_rank || atoi(local_rank) == 0)
                             : fail("malloc", "no memory");
    free(r.in);
    free(r.out);
    if (code == 0 && (tutti_group_destroy(r.world, &e) != TUTTI_OK || tutti_finalize(&e) != TUTTI_OK)) {
        code = fail("the end", e.message);
    }
    return code;
}
