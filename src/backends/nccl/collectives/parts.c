/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of joined tensors. The library takes contiguous parts only. So parts that span rows are packed into scratch
 * memory of the device first, or unpacked from there, by two-dimensional copies on the lane's stream.
 *
 * Cost: one copy for each rank, twice the bytes of the tensor over the device's own memory, which is about ten times
 * faster than a link between devices.
 */
#include "backends/nccl/collectives/parts.h"

#include "base/error.h"
#include "tensor/parts.h"

void tti_nccl_part_next(const tutti_parts *parts, struct tti_nccl_part *part)
{
    const int32_t rank = part->next++;
    part->packed += part->bytes;
    part->width = tti_parts_width(parts, rank);
    part->bytes = parts->outer * part->width;
    part->at = parts->displacements ? (size_t)parts->displacements[rank] * parts->unit : part->follows;
    part->follows += part->width;
}

void tti_nccl_part_of(const tutti_parts *parts, int32_t rank, struct tti_nccl_part *part)
{
    *part = (struct tti_nccl_part){0};
    while (part->next <= rank) {
        tti_nccl_part_next(parts, part);
    }
}

static tutti_status copy_rows(struct tti_nccl_call *c, const struct tti_device_rows *rows)
{
    const struct tti_device *device = c->group->device;
    if (rows->dst == rows->src) {
        return TUTTI_OK;
    }
    return rows->rows == 1 ? device->copy(rows->dst, rows->src, rows->width, c->lane->stream, c->error)
                           : device->copy_rows(rows, c->lane->stream, c->error);
}

static tutti_status copy_out(struct tti_nccl_call *c, void *compact, const void *joined, const tutti_parts *parts,
                             const struct tti_nccl_part *part)
{
    if (part->bytes == 0) { /* the pointers may be NULL */
        return TUTTI_OK;
    }
    const struct tti_device_rows rows = {.dst = compact,
                                         .dst_pitch = part->width,
                                         .src = (const unsigned char *)joined + part->at,
                                         .src_pitch = parts->pitch,
                                         .width = part->width,
                                         .rows = parts->outer};
    return copy_rows(c, &rows);
}

static tutti_status copy_in(struct tti_nccl_call *c, void *joined, const tutti_parts *parts,
                            const struct tti_nccl_part *part, const void *compact)
{
    if (part->bytes == 0) {
        return TUTTI_OK;
    }
    const struct tti_device_rows rows = {.dst = (unsigned char *)joined + part->at,
                                         .dst_pitch = parts->pitch,
                                         .src = compact,
                                         .src_pitch = part->width,
                                         .width = part->width,
                                         .rows = parts->outer};
    return copy_rows(c, &rows);
}

tutti_status tti_nccl_pack(struct tti_nccl_call *c, unsigned char *packed, const void *joined, const tutti_parts *parts)
{
    struct tti_nccl_part part = {0};
    tutti_status status = TUTTI_OK;
    for (int32_t r = 0; r < c->group->size && status == TUTTI_OK; r++) {
        tti_nccl_part_next(parts, &part);
        status = copy_out(c, packed + part.packed, joined, parts, &part);
    }
    return status;
}

tutti_status tti_nccl_unpack(struct tti_nccl_call *c, void *joined, const tutti_parts *parts,
                             const unsigned char *packed, int32_t except)
{
    struct tti_nccl_part part = {0};
    tutti_status status = TUTTI_OK;
    for (int32_t r = 0; r < c->group->size && status == TUTTI_OK; r++) {
        tti_nccl_part_next(parts, &part);
        if (r != except) {
            status = copy_in(c, joined, parts, &part, packed + part.packed);
        }
    }
    return status;
}

tutti_status tti_nccl_part_out(struct tti_nccl_call *c, void *compact, const void *joined, const tutti_parts *parts,
                               int32_t rank)
{
    struct tti_nccl_part part;
    tti_nccl_part_of(parts, rank, &part);
    return copy_out(c, compact, joined, parts, &part);
}

tutti_status tti_nccl_part_in(struct tti_nccl_call *c, void *joined, const tutti_parts *parts, int32_t rank,
                              const void *compact)
{
    struct tti_nccl_part part;
    tti_nccl_part_of(parts, rank, &part);
    return copy_in(c, joined, parts, &part, compact);
}

tutti_status tti_nccl_part_across(struct tti_nccl_call *c, void *to, const tutti_parts *to_parts, const void *from,
                                  const tutti_parts *from_parts, int32_t rank)
{
    struct tti_nccl_part out;
    struct tti_nccl_part in;
    tti_nccl_part_of(from_parts, rank, &out);
    tti_nccl_part_of(to_parts, rank, &in);
    if (out.width != in.width || from_parts->outer != to_parts->outer) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: rank %d sends %zu bytes to itself, but receives %zu",
                             tutti_operation_name(c->op->kind), rank, out.bytes, in.bytes);
    }
    if (out.bytes == 0) {
        return TUTTI_OK;
    }
    const struct tti_device_rows rows = {.dst = (unsigned char *)to + in.at,
                                         .dst_pitch = to_parts->pitch,
                                         .src = (const unsigned char *)from + out.at,
                                         .src_pitch = from_parts->pitch,
                                         .width = out.width,
                                         .rows = from_parts->outer};
    return copy_rows(c, &rows);
}
