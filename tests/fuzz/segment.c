/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of the same user may write anything into its own segment and into the doorbell, also while it is read. Rank 0
 * runs operations of the input with a short deadline; meanwhile a thread writes the input's words over rank 1's
 * segment. Any status is right, but no memory outside the buffers may be touched: they are allocated to the byte, and
 * each segment ends at a page without access.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/run.h"
#include "fuzz.h"
#include "unit/engine/built_in_tuning.h"

#define WRITES_MOST 64
#define COUNT_MOST  3000
#define NONCE       7

struct scribble {
    size_t at;
    uint64_t value;
};

static struct tti_layout layout;
static unsigned char *segments[2];
static unsigned char *doorbell;
static struct scribble scribbles[WRITES_MOST];
static int scribble_count;
static atomic_int stop; /* relaxed: only ends a loop */

static unsigned char *map_before_guard(size_t bytes)
{
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    unsigned char *base =
        mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fuzz_expect(base != MAP_FAILED && mprotect(base + whole, 4096, PROT_NONE) == 0, "no memory");
    return base;
}

/* Most reads of a segment go to its first pages, and those about messages to one page. */
static size_t place(struct fuzz_input *in)
{
    const unsigned where = fuzz_byte(in) % 4;
    const size_t from = where == 3 ? layout.pairs : 0;
    const size_t limit = where == 3 ? 2 * TTI_LINE : where != 0 ? 16384 : layout.segment_bytes;
    return from + fuzz_number(in, 3) * 4 % (limit < layout.segment_bytes ? limit : layout.segment_bytes - 8);
}

static void write_all(void)
{
    for (int i = 0; i < scribble_count; i++) {
        /* relaxed: a peer that follows no protocol */
        atomic_store_explicit((_Atomic uint32_t *)(segments[1] + scribbles[i].at), (uint32_t)scribbles[i].value,
                              memory_order_relaxed);
    }
}

static void *scribbler(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        write_all();
    }
    return NULL;
}

static tutti_op operation(struct fuzz_input *in, void *src, void *dst, size_t bytes)
{
    static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_BROADCAST, TUTTI_OP_REDUCE, TUTTI_OP_BARRIER};
    const tutti_operation kind = kinds[fuzz_byte(in) % 4];
    return (tutti_op){.size = sizeof(tutti_op),
                      .kind = kind,
                      .dtype = TUTTI_I32,
                      .redop = TUTTI_SUM,
                      .root = fuzz_byte(in) % 2,
                      .src = kind == TUTTI_OP_BARRIER || kind == TUTTI_OP_BROADCAST ? NULL : src,
                      .dst = kind == TUTTI_OP_BARRIER ? NULL : dst,
                      .count = kind == TUTTI_OP_BARRIER ? 0 : bytes / 4,
                      .scale = 1,
                      .timeout_ms = 1};
}

static void run_message(struct fuzz_input *in, struct tti_engine *engine, void *memory, size_t bytes)
{
    int64_t shape = (int64_t)(bytes / 4);
    tutti_error error;
    tutti_op op = {.size = sizeof(tutti_op),
                   .kind = fuzz_byte(in) % 2 ? TUTTI_OP_RECV : TUTTI_OP_SEND,
                   .dtype = TUTTI_I32,
                   .root = 1,
                   .src = memory,
                   .dst = memory,
                   .count = bytes / 4,
                   .ndim = 1,
                   .shape = &shape,
                   .timeout_ms = 1};
    tutti_op *ops = &op;
    tti_engine_run_p2p(engine, &ops, 1, 1, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.window = 16384;
    struct tti_engine *engine;
    tutti_error error;
    pthread_t thread;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    layout = tti_layout_make(2, 1, tuning.stage, tuning.stage_far, tuning.stage_small);
    if (!doorbell) { /* for all inputs; the touched pages are released below */
        doorbell = map_before_guard(layout.doorbell_bytes);
        segments[0] = map_before_guard(layout.segment_bytes);
        segments[1] = map_before_guard(layout.segment_bytes);
    }
    for (int r = 0; r < 2; r++) {
        tti_engine_segment_init(segments[r], &layout, r, NONCE);
    }
    const struct tti_engine_options options = {.rank = 0,
                                               .layout = layout,
                                               .tuning = tuning,
                                               .segments = segments,
                                               .doorbell = doorbell,
                                               .threads = fuzz_byte(&in) % 2,
                                               .spin_ns = 0,
                                               .yield_ns = 0,
                                               .sleep_ns = 100000};
    fuzz_expect(tti_engine_create(&options, &engine, &error) == TUTTI_OK, "no engine");
    const size_t bytes = 4 + fuzz_number(&in, 2) % COUNT_MOST * 4;
    const int operations = 1 + fuzz_byte(&in) % 3;
    const int while_reading = fuzz_byte(&in) % 2;
    scribble_count = 0;
    struct fuzz_input later = in;
    for (int i = 0; i < operations; i++) { /* their bytes come first */
        fuzz_number(&in, 3);
    }
    while (in.left > 0 && scribble_count < WRITES_MOST) {
        scribbles[scribble_count].at = place(&in);
        scribbles[scribble_count++].value = fuzz_number(&in, 1 + fuzz_byte(&in) % 4);
    }
    write_all();
    atomic_store_explicit(&stop, 0, memory_order_relaxed);
    const int scribbling = while_reading && pthread_create(&thread, NULL, scribbler, NULL) == 0;
    for (int i = 0; i < operations; i++) {
        void *src = calloc(1, bytes);
        void *dst = calloc(1, bytes);
        if (src && dst && fuzz_byte(&later) % 4 == 0) {
            run_message(&later, engine, dst, bytes);
        } else if (src && dst) {
            tutti_op op = operation(&later, src, dst, bytes);
            tti_engine_run(engine, &op, &error);
        }
        free(src);
        free(dst);
    }
    atomic_store_explicit(&stop, 1, memory_order_relaxed);
    if (scribbling) {
        pthread_join(thread, NULL);
    }
    tti_engine_destroy(engine);
    madvise(doorbell, layout.doorbell_bytes, MADV_DONTNEED);
    madvise(segments[0], layout.segment_bytes, MADV_DONTNEED);
    madvise(segments[1], layout.segment_bytes, MADV_DONTNEED);
    return 0;
}
