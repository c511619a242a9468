/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work in streams: copies, fills, host functions, kernels, waits for a word of memory.
 *
 * A copy checks both addresses when it is called: each range lies entirely in one allocation, or outside all and is
 * pageable memory of the host. Pinned and device memory is read and written when the stream reaches the operation, so a
 * buffer that is used again too early gives wrong data, as on a device. With pageable memory, as the vendors document,
 * CUDA copies a small source at the call and waits in all other cases; HIP always waits.
 */
#include <stdlib.h>
#include <string.h>

#include "device_state.h"

/* What CUDA's driver puts into its command buffer instead of waiting for the stream. */
#define STAGED_BYTES ((size_t)64 << 10)

/* One end of a copy. */
struct side {
    struct tti_double_block *block; /* NULL: pageable memory */
    char *address;                  /* as the double reads or writes it */
    size_t pitch;
};

struct copy {
    struct tti_double_op op;
    struct side dst;
    struct side src;
    size_t width;
    size_t rows;
    char *staged; /* the source, compact, if it was taken over */
};

static bool find_side(struct side *side, const void *address, size_t pitch, size_t width, size_t rows)
{
    size_t bytes = 0;
    if (!address || (rows > 1 && pitch < width) || __builtin_mul_overflow(rows - 1, pitch, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes)) {
        return false;
    }
    const uintptr_t begin = (uintptr_t)address;
    struct tti_double_block *block = tti_double_block_at(begin);
    side->block = block;
    side->pitch = pitch;
    if (block) {
        side->address = block->shadow + (begin - block->begin);
        return bytes <= block->bytes - (begin - block->begin);
    }
    memcpy(&side->address, &address, sizeof(address));
    return !tti_double_block_touches(begin, bytes);
}

static bool is_host(const struct side *side)
{
    return !side->block || side->block->kind == TTI_DOUBLE_PINNED || side->block->kind == TTI_DOUBLE_REGISTERED;
}

static void copy_rows(char *dst, size_t dst_pitch, const char *src, size_t src_pitch, size_t width, size_t rows)
{
    for (size_t row = 0; row < rows; row++) {
        memmove(dst + row * dst_pitch, src + row * src_pitch, width);
    }
}

static int run_copy(struct tti_double_op *op, int code)
{
    const struct copy *copy = (const struct copy *)op;
    if (!code) {
        copy_rows(copy->dst.address, copy->dst.pitch, copy->staged ? copy->staged : copy->src.address,
                  copy->staged ? copy->width : copy->src.pitch, copy->width, copy->rows);
    }
    return TTI_DOUBLE_OK;
}

static void finish_copy(struct tti_double_op *op, int code)
{
    const struct copy *copy = (const struct copy *)op;
    (void)code;
    tti_double_block_release(copy->dst.block);
    tti_double_block_release(copy->src.block);
    free(copy->staged);
}

/* Takes the source over. The lock is released meanwhile: this is the application's memory. */
static bool stage(struct copy *copy)
{
    copy->staged = malloc(copy->width * copy->rows);
    if (copy->staged) {
        pthread_mutex_unlock(&tti_double.lock);
        copy_rows(copy->staged, copy->width, copy->src.address, copy->src.pitch, copy->width, copy->rows);
        pthread_mutex_lock(&tti_double.lock);
    }
    return copy->staged;
}

static int copy_now(const char *function, struct tti_double_stream *stream, const struct tti_double_copy *what)
{
    struct copy *copy = calloc(1, sizeof(*copy));
    if (!copy) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    copy->width = what->width;
    copy->rows = what->rows;
    if (!find_side(&copy->dst, what->dst, what->dst_pitch, what->width, what->rows) ||
        !find_side(&copy->src, what->src, what->src_pitch, what->width, what->rows)) {
        free(copy);
        return TTI_DOUBLE_INVALID_VALUE;
    }
    tti_double_block_use(copy->dst.block);
    tti_double_block_use(copy->src.block);
    copy->op.run = run_copy;
    copy->op.finish = finish_copy;
    const bool small = what->width <= STAGED_BYTES && what->rows <= STAGED_BYTES / what->width;
    const bool takes_over = !copy->src.block && tti_double_vendor.stages && small && !is_host(&copy->dst);
    const bool waits = !copy->dst.block || (!copy->src.block && !takes_over) ||
                       (tti_double_vendor.host_waits && is_host(&copy->dst) && is_host(&copy->src));
    stream->users++; /* it may be destroyed while the lock is released */
    int code = TTI_DOUBLE_OUT_OF_MEMORY;
    if (takes_over && !stage(copy)) {
        finish_copy(&copy->op, code);
        free(copy);
    } else {
        code = tti_double_enqueue(function, stream, &copy->op);
    }
    const uint64_t sequence = tti_double.sequence;
    stream->users--;
    return !code && waits ? tti_double_stream_drain(stream, sequence) : code;
}

int tti_double_copy(const char *function, int device, const struct tti_double_copy *copy, void *stream)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    int code = found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
    if (found && copy->width > 0 && copy->rows > 0) {
        code = copy_now(function, found, copy);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

struct fill {
    struct tti_double_op op;
    struct side dst;
    size_t bytes;
    unsigned char byte;
};

static int run_fill(struct tti_double_op *op, int code)
{
    const struct fill *fill = (const struct fill *)op;
    if (!code) {
        memset(fill->dst.address, fill->byte, fill->bytes);
    }
    return TTI_DOUBLE_OK;
}

static void finish_fill(struct tti_double_op *op, int code)
{
    (void)code;
    tti_double_block_release(((const struct fill *)op)->dst.block);
}

static int fill_now(const char *function, struct tti_double_stream *stream, const struct fill *what, const void *dst)
{
    struct fill *fill = calloc(1, sizeof(*fill));
    if (!fill) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    *fill = *what;
    if (!find_side(&fill->dst, dst, fill->bytes, fill->bytes, 1) || !fill->dst.block) {
        free(fill);
        return TTI_DOUBLE_INVALID_VALUE;
    }
    tti_double_block_use(fill->dst.block);
    fill->op.run = run_fill;
    fill->op.finish = finish_fill;
    return tti_double_enqueue(function, stream, &fill->op);
}

int tti_double_fill(const char *function, int device, void *dst, unsigned char byte, size_t bytes, void *stream)
{
    const struct fill fill = {.bytes = bytes, .byte = byte};
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    int code = found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
    if (found && bytes > 0) {
        code = fill_now(function, found, &fill, dst);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

struct call {
    struct tti_double_op op;
    void (*function)(void *data);
    int (*kernel)(void *data, int code);
    void *data;
};

/* The vendors may run host functions one after the other, and do. Never taken with the lock held. */
static pthread_mutex_t host_functions = PTHREAD_MUTEX_INITIALIZER;

static int run_host_function(struct tti_double_op *op, int code)
{
    const struct call *call = (const struct call *)op;
    if (!code) {
        pthread_mutex_lock(&host_functions);
        tti_double_foreign_code(1);
        call->function(call->data);
        tti_double_foreign_code(-1);
        pthread_mutex_unlock(&host_functions);
    }
    return TTI_DOUBLE_OK;
}

static int run_kernel(struct tti_double_op *op, int code)
{
    const struct call *call = (const struct call *)op;
    tti_double_foreign_code(1);
    const int result = call->kernel(call->data, code);
    tti_double_foreign_code(-1);
    return result;
}

int tti_double_host_function(const char *function, int device, void *stream, void (*run)(void *), void *data)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    struct call *call = calloc(1, sizeof(*call));
    int code = !found ? TTI_DOUBLE_INVALID_HANDLE : !call ? TTI_DOUBLE_OUT_OF_MEMORY : TTI_DOUBLE_OK;
    if (code) {
        free(call);
    } else {
        *call = (struct call){.op = {.calls_out = true, .run = run_host_function}, .function = run, .data = data};
        code = tti_double_enqueue(function, found, &call->op);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_launch(void *stream, int (*run)(void *data, int code), void *data)
{
    int code = tti_double_enter(__func__);
    const int device = code ? -1 : tti_double_current(&code);
    if (code) {
        return code;
    }
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    struct call *call = calloc(1, sizeof(*call));
    code = !found || found->device != device ? TTI_DOUBLE_INVALID_HANDLE
           : call                            ? TTI_DOUBLE_OK
                                             : TTI_DOUBLE_OUT_OF_MEMORY;
    if (code) {
        free(call);
    } else {
        *call = (struct call){.op = {.calls_out = true, .run = run_kernel}, .kernel = run, .data = data};
        code = tti_double_enqueue(__func__, found, &call->op);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

struct word_op {
    struct tti_double_op op;
    struct tti_double_block *block;
    const uint32_t *address;
    struct tti_double_word word;
};

/* Acquire: pairs with the release store of the host, or of another device, after its work. */
static bool is_met(const struct tti_double_op *op)
{
    const struct word_op *wait = (const struct word_op *)op;
    const uint32_t now = __atomic_load_n(wait->address, __ATOMIC_ACQUIRE);
    return wait->word.holds(now & wait->word.mask, wait->word.value);
}

static void finish_word(struct tti_double_op *op, int code)
{
    (void)code;
    tti_double_block_release(((const struct word_op *)op)->block);
}

static int wait_now(const char *function, struct tti_double_stream *stream, const struct tti_double_word *word)
{
    struct side side = {0};
    if ((uintptr_t)word->address % sizeof(uint32_t) ||
        !find_side(&side, word->address, sizeof(uint32_t), sizeof(uint32_t), 1) || !side.block ||
        side.block->kind == TTI_DOUBLE_MANAGED) {
        return TTI_DOUBLE_INVALID_VALUE;
    }
    struct word_op *wait = calloc(1, sizeof(*wait));
    if (!wait) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    tti_double_block_use(side.block);
    *wait = (struct word_op){.op = {.polls = true, .ready = is_met, .finish = finish_word},
                             .block = side.block,
                             .address = (const uint32_t *)(const void *)side.address,
                             .word = *word};
    return tti_double_enqueue(function, stream, &wait->op);
}

int tti_double_wait_word(const char *function, int device, void *stream, const struct tti_double_word *word)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    const int code = found ? wait_now(function, found, word) : TTI_DOUBLE_INVALID_HANDLE;
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}
