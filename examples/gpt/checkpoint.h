/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint: one file with the whole matrices of a model, whatever the split of the ranks that wrote it, so that
 * ranks with any other split can read it. Rank 0 alone reads and writes; the matrices are gathered and scattered one by
 * one, so rank 0 needs memory for the largest one only.
 *
 * The file is little-endian:
 *     struct checkpoint_header    128 bytes
 *     for each parameter, in the order of the list: values, then `states` more arrays (the optimiser's), f32
 *     CRC-32 of everything before, 4 bytes
 *
 * A writer fills NAME.part, syncs it to the disk, and renames it. So NAME is the old checkpoint or the new one, also
 * after a crash or with a full disk.
 */
#ifndef EXAMPLES_GPT_CHECKPOINT_H
#define EXAMPLES_GPT_CHECKPOINT_H

#include "model/parameters.h"
#include "model/shape.h"
#include "parallel.h"

#define CHECKPOINT_STATES 2 /* AdamW's two moments */

struct checkpoint_header {
    char magic[8];
    uint32_t version;
    uint32_t states; /* arrays of the optimiser behind each parameter */
    struct shape shape;
    int32_t reserved;
    int64_t step; /* that the training has finished */
    uint8_t unused[68];
    uint32_t checksum; /* CRC-32 of the header before */
};

/* What a checkpoint holds. The arrays of `state` have the order and the split of parameters->values; a NULL is skipped
 * when reading. */
struct checkpoint {
    struct parameters *parameters;
    float *state[CHECKPOINT_STATES];
    int64_t step;
};

/* Reads the shape and the step of a checkpoint on rank 0 of `world`, and passes them to all. Ends the program on all
 * ranks, with one sentence, if the file is missing, is none, has another version or is cut short. Collective. */
void checkpoint_shape(tutti_group *world, const char *path, struct shape *shape, int64_t *step);

/* Reads a checkpoint of that shape into the ranks' parts. Ends the program on all ranks, with one sentence, if it is
 * not whole or has another shape. An error of communication is left in p->status. Collective. */
void checkpoint_load(struct parallel *p, const char *path, const struct shape *shape, struct checkpoint *c);

/* Writes a checkpoint. Ends the program on all ranks, with one sentence, if the file cannot be written; the old one is
 * then as before. An error of communication is left in p->status. Collective. */
void checkpoint_save(struct parallel *p, const char *path, const struct shape *shape, const struct checkpoint *c);

#endif
