/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing is a gather of each matrix on rank 0, reading a scatter from it: that is all that another split needs. Each
 * costs the bytes of the matrix once. Only the first replica takes part; the others get its parts by one broadcast.
 *
 * Errors of the file are rank 0's alone. It keeps the first one as a sentence, goes on with the collectives, so that
 * the others do not wait for it, and at the end all ranks learn whether there is a sentence.
 */
#include "checkpoint.h"

#include "common/common.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MAGIC      "TUTTIGPT"
#define VERSION    1u
#define SIZE_MOST  (1 << 20) /* of each number of a shape, so that the size of a file fits 64 bits */
#define LAYER_MOST 4096
#define PART       ".part"

_Static_assert(sizeof(struct checkpoint_header) == 128, "no padding");

/* A file on rank 0; on other ranks it stays closed. */
struct file {
    FILE *stream;
    char path[4096];
    uint32_t checksum;
    char why[512]; /* the first error; empty: none */
};

__attribute__((format(printf, 2, 3))) static void complain(struct file *f, const char *format, ...)
{
    if (!f->why[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(f->why, sizeof(f->why), format, args);
        va_end(args);
    }
}

/* Ends the program on all ranks if rank 0 has a sentence. After an error of communication nothing is known, and the
 * caller looks at p->status. */
static void check_file(struct parallel *p, struct file *f)
{
    float failed = f->why[0] ? 1 : 0;
    tensor_all_reduce(p, &failed, 1, TUTTI_MAX);
    data_all_reduce(p, &failed, 1, TUTTI_MAX);
    if (p->status == TUTTI_OK && failed > 0) {
        input_check(p->world, f->why);
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool sizes_make_sense(const struct shape *s)
{
    char why[8];
    const int32_t sizes[] = {s->layers, s->hidden, s->heads, s->kv_heads, s->mlp, s->vocabulary, s->context};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] < 1 || sizes[i] > SIZE_MOST) {
            return false;
        }
    }
    return s->layers <= LAYER_MOST && shape_check(s, 1, why, sizeof(why));
}

static int64_t size_of(const struct checkpoint_header *h)
{
    return (int64_t)sizeof(*h) + shape_parameters(&h->shape) * (int64_t)sizeof(float) * (1 + (int64_t)h->states) +
           (int64_t)sizeof(uint32_t);
}

static uint32_t header_checksum(const struct checkpoint_header *h)
{
    return (uint32_t)crc32_z(0, (const uint8_t *)h, offsetof(struct checkpoint_header, checksum));
}

/* Opens the file and checks all that can be checked without reading the parameters. */
static void open_to_read(struct file *f, const char *path, struct checkpoint_header *h)
{
    struct stat status;
    snprintf(f->path, sizeof(f->path), "%s", path);
    f->stream = fopen(path, "rb");
    if (!f->stream || fstat(fileno(f->stream), &status) != 0) {
        complain(f, "cannot read the checkpoint %s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode) || fread(h, sizeof(*h), 1, f->stream) != 1 ||
               memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0) {
        complain(f, "%s is not a checkpoint of this program", path);
    } else if (h->version != VERSION) {
        complain(f, "%s is a checkpoint of version %u; this program reads version %u", path, h->version, VERSION);
    } else if (header_checksum(h) != h->checksum || h->states != CHECKPOINT_STATES || !sizes_make_sense(&h->shape)) {
        complain(f, "the checkpoint %s is damaged: its header is not what was written", path);
    } else if (status.st_size != size_of(h)) {
        complain(f, "the checkpoint %s is %s: it has %lld bytes, not %lld", path,
                 status.st_size < size_of(h) ? "cut short" : "damaged", (long long)status.st_size,
                 (long long)size_of(h));
    }
    f->checksum = (uint32_t)crc32_z(0, (const uint8_t *)h, sizeof(*h));
}

static void read_floats(struct file *f, float *values, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(float);
    if (!f->why[0] && fread(values, bytes, 1, f->stream) != 1) {
        complain(f, "cannot read the checkpoint %s: %s", f->path,
                 ferror(f->stream) ? strerror(errno) : "it ends early");
    }
    f->checksum = (uint32_t)crc32_z(f->checksum, (const uint8_t *)values, bytes);
}

static void close_read(struct file *f)
{
    uint32_t written = 0;
    if (!f->why[0] && (fread(&written, sizeof(written), 1, f->stream) != 1 || written != f->checksum)) {
        complain(f, "the checkpoint %s is damaged: its checksum is %08x, not %08x", f->path, f->checksum, written);
    }
    if (f->stream) {
        fclose(f->stream);
    }
}

void checkpoint_shape(tutti_group *world, const char *path, struct shape *shape, int64_t *step)
{
    struct checkpoint_header h = {.version = 0};
    struct file f = {.stream = NULL};
    tutti_error error;
    if (tutti_group_rank(world) == 0) {
        open_to_read(&f, path, &h);
        if (f.stream) {
            fclose(f.stream);
        }
    }
    input_check(world, f.why);
    const int64_t bytes = sizeof(h);
    DLTensor tensor = tutti_tensor_1d(&h, &bytes, TUTTI_U8);
    must(tutti_broadcast(world, &tensor, 0, TUTTI_CALL(.error = &error)), &error);
    *shape = h.shape;
    *step = h.step;
}

static int64_t largest(const struct parameters *p)
{
    int64_t most = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const int64_t count = p->list[i].shape[0] * p->list[i].shape[1];
        most = count > most ? count : most;
    }
    return most;
}

/* Array 0 is the values, the others are the optimiser's. */
static float *array_of(const struct checkpoint *c, int array)
{
    return array == 0 ? c->parameters->values : c->state[array - 1];
}

/* Reads each matrix on rank 0 and scatters it over the first replica. */
static void scatter_all(struct parallel *p, struct file *f, const struct checkpoint *c)
{
    const struct parameters *list = c->parameters;
    float *whole = p->rank == 0 ? allocate((size_t)largest(list), sizeof(float)) : NULL;
    for (int32_t i = 0; i < list->count; i++) {
        const struct parameter *a = &list->list[i];
        for (int array = 0; array <= CHECKPOINT_STATES; array++) {
            if (p->rank == 0) {
                read_floats(f, whole, a->shape[0] * a->shape[1]);
            }
            if (array_of(c, array)) {
                tensor_scatter(p, whole, array_of(c, array) + a->offset, a->shape[0], a->shape[1], a->split);
            }
        }
    }
    free(whole);
}

void checkpoint_load(struct parallel *p, const char *path, const struct shape *shape, struct checkpoint *c)
{
    struct checkpoint_header h = {.version = 0};
    struct file f = {.stream = NULL};
    if (p->rank == 0) {
        open_to_read(&f, path, &h);
        const struct shape *s = &h.shape;
        if (!f.why[0] && memcmp(s, shape, sizeof(*s)) != 0) {
            complain(&f,
                     "%s is a checkpoint of another shape: %d layers, hidden %d, %d heads, %d of keys, MLP %d, "
                     "vocabulary %d, context %d",
                     path, s->layers, s->hidden, s->heads, s->kv_heads, s->mlp, s->vocabulary, s->context);
        }
    }
    check_file(p, &f);
    if (p->data_rank == 0) {
        scatter_all(p, &f, c);
    }
    if (p->rank == 0) {
        close_read(&f);
    }
    check_file(p, &f);
    for (int array = 0; array <= CHECKPOINT_STATES; array++) {
        if (array_of(c, array)) {
            data_broadcast(p, array_of(c, array), c->parameters->floats);
        }
    }
    world_broadcast(p, &h.step, sizeof(h.step));
    c->step = h.step;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_bytes(struct file *f, const void *bytes, size_t count)
{
    if (!f->why[0] && fwrite(bytes, count, 1, f->stream) != 1) {
        complain(f, "cannot write the checkpoint %s: %s; the old one is unchanged", f->path, strerror(errno));
    }
    f->checksum = (uint32_t)crc32_z(f->checksum, bytes, count);
}

static void open_to_write(struct file *f, const char *path, const struct shape *shape, int64_t step)
{
    struct checkpoint_header h = {.version = VERSION, .states = CHECKPOINT_STATES, .shape = *shape, .step = step};
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    h.checksum = header_checksum(&h);
    if (snprintf(f->path, sizeof(f->path), "%s" PART, path) >= (int)sizeof(f->path)) {
        complain(f, "the name of the checkpoint is too long");
        return;
    }
    f->stream = fopen(f->path, "wb");
    if (!f->stream) {
        complain(f, "cannot write the checkpoint %s: %s", f->path, strerror(errno));
    }
    write_bytes(f, &h, sizeof(h));
}

/* Syncs the folder, so that the new name is on the disk, too. An error is no harm to the file. */
static void sync_folder(const char *path)
{
    char copy[4096];
    snprintf(copy, sizeof(copy), "%s", path);
    const int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

/* The file gets its name when all of it is on the disk. If that fails, or `whole` is false, it is removed. */
static void close_write(struct file *f, const char *path, bool whole)
{
    const uint32_t checksum = f->checksum;
    write_bytes(f, &checksum, sizeof(checksum));
    if (!f->stream) {
        return;
    }
    const bool synced = fflush(f->stream) == 0 && fsync(fileno(f->stream)) == 0;
    const int reason = errno;
    const bool closed = fclose(f->stream) == 0;
    if (!synced || !closed) {
        complain(f, "cannot write the checkpoint %s: %s; the old one is unchanged", f->path,
                 strerror(synced ? errno : reason));
    }
    if (!f->why[0] && whole && rename(f->path, path) != 0) {
        complain(f, "cannot rename %s to %s: %s; the old checkpoint is unchanged", f->path, path, strerror(errno));
    }
    if (f->why[0] || !whole) {
        unlink(f->path);
    } else {
        sync_folder(path);
    }
}

/* Gathers each matrix of the first replica on rank 0, and writes it. */
static void gather_all(struct parallel *p, struct file *f, const struct checkpoint *c)
{
    const struct parameters *list = c->parameters;
    float *whole = p->rank == 0 ? allocate((size_t)largest(list), sizeof(float)) : NULL;
    for (int32_t i = 0; i < list->count; i++) {
        const struct parameter *a = &list->list[i];
        for (int array = 0; array <= CHECKPOINT_STATES; array++) {
            tensor_gather(p, array_of(c, array) + a->offset, whole, a->shape[0], a->shape[1], a->split);
            if (p->rank == 0) {
                write_bytes(f, whole, (size_t)(a->shape[0] * a->shape[1]) * sizeof(float));
            }
        }
    }
    free(whole);
}

void checkpoint_save(struct parallel *p, const char *path, const struct shape *shape, const struct checkpoint *c)
{
    struct file f = {.stream = NULL};
    if (p->rank == 0) {
        open_to_write(&f, path, shape, c->step);
    }
    if (p->data_rank == 0) {
        gather_all(p, &f, c);
    }
    if (p->rank == 0) {
        close_write(&f, path, p->status == TUTTI_OK);
    }
    check_file(p, &f);
}
