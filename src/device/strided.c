/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strided tensors on devices. A copy engine copies rows of bytes at a pitch: two dimensions. The tensor is first
 * reduced to the fewest dimensions. The innermost is the row if its elements are adjacent; else one element is. Of the
 * others, the longest becomes the second dimension of each copy, because in compact memory every dimension has a pitch.
 * A counter walks through the rest, with one copy each.
 *
 * Cost: one copy for a slice of a matrix; for its transpose as many as its shorter side is long. Rows that overlap or
 * run backwards have no pitch, so each one is a copy.
 */
#include "tensor/strided.h"

#include "device/device.h"

/* A dimension: its length, and the distance of its elements in the tensor and in compact memory, in bytes. */
struct axis {
    int64_t count;
    int64_t stride;
    int64_t pitch;
};

/* The innermost first, without those of length 1; adjacent ones are merged. The tensor is not empty. */
struct layout {
    int32_t ndim;
    struct axis axes[TUTTI_MAX_NDIM];
};

struct transfer {
    const struct tti_device *device;
    void *stream;
    bool pack;
};

static struct layout layout_of(const DLTensor *t)
{
    struct layout layout = {.ndim = 0};
    int64_t pitch = (int64_t)t->dtype.bits * t->dtype.lanes / 8;
    const int64_t size = pitch;
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 1) {
            continue;
        }
        const struct axis axis = {t->shape[i], t->strides ? t->strides[i] * size : pitch, pitch};
        struct axis *inner = layout.ndim > 0 ? &layout.axes[layout.ndim - 1] : NULL;
        int64_t reach;
        if (inner && !__builtin_mul_overflow(inner->stride, inner->count, &reach) && axis.stride == reach) {
            inner->count *= axis.count;
        } else {
            layout.axes[layout.ndim++] = axis;
        }
        pitch *= axis.count;
    }
    return layout;
}

static struct axis take_axis(struct layout *layout, int32_t index)
{
    const struct axis axis = layout->axes[index];
    layout->ndim--;
    for (int32_t i = index; i < layout->ndim; i++) {
        layout->axes[i] = layout->axes[i + 1];
    }
    return axis;
}

/* The dimension that saves most copies, or -1: rows of `width` bytes must not overlap. */
static int32_t longest(const struct layout *layout, int64_t width)
{
    int32_t best = -1;
    for (int32_t i = 0; i < layout->ndim; i++) {
        const struct axis *axis = &layout->axes[i];
        if (axis->stride >= width && (best < 0 || axis->count > layout->axes[best].count)) {
            best = i;
        }
    }
    return best;
}

static tutti_status copy_once(const struct transfer *transfer, char *strided, char *compact, const struct axis *rows,
                              size_t width, tutti_error *error)
{
    const struct tti_device *device = transfer->device;
    if (rows->count == 1) {
        return device->copy(transfer->pack ? compact : strided, transfer->pack ? strided : compact, width,
                            transfer->stream, error);
    }
    struct tti_device_rows copy = {.dst = compact,
                                   .dst_pitch = (size_t)rows->pitch,
                                   .src = strided,
                                   .src_pitch = (size_t)rows->stride,
                                   .width = width,
                                   .rows = (size_t)rows->count};
    if (!transfer->pack) {
        copy.dst = strided;
        copy.dst_pitch = (size_t)rows->stride;
        copy.src = compact;
        copy.src_pitch = (size_t)rows->pitch;
    }
    return device->copy_rows(&copy, transfer->stream, error);
}

static tutti_status walk(const struct transfer *transfer, const DLTensor *t, char *compact, tutti_error *error)
{
    if (tutti_tensor_count(t) <= 0) {
        return TUTTI_OK;
    }
    struct layout layout = layout_of(t);
    int64_t width = (int64_t)t->dtype.bits * t->dtype.lanes / 8;
    if (layout.ndim > 0 && layout.axes[0].stride == width) {
        width *= take_axis(&layout, 0).count;
    }
    const int32_t second = longest(&layout, width);
    const struct axis rows = second >= 0 ? take_axis(&layout, second) : (struct axis){.count = 1};
    char *strided = tti_tensor_data(t);
    int64_t index[TUTTI_MAX_NDIM] = {0};
    for (;;) {
        tutti_status status = copy_once(transfer, strided, compact, &rows, (size_t)width, error);
        if (status != TUTTI_OK) {
            return status;
        }
        int32_t d = 0;
        for (; d < layout.ndim && index[d] == layout.axes[d].count - 1; d++) {
            strided -= index[d] * layout.axes[d].stride;
            compact -= index[d] * layout.axes[d].pitch;
            index[d] = 0;
        }
        if (d == layout.ndim) {
            return TUTTI_OK;
        }
        index[d]++;
        strided += layout.axes[d].stride;
        compact += layout.axes[d].pitch;
    }
}

tutti_status tti_device_pack(const struct tti_device *device, void *compact, const DLTensor *tensor, void *stream,
                             tutti_error *error)
{
    if (device->type == kDLCPU) {
        tti_tensor_pack(compact, tensor);
        return TUTTI_OK;
    }
    const struct transfer transfer = {.device = device, .stream = stream, .pack = true};
    return walk(&transfer, tensor, compact, error);
}

tutti_status tti_device_unpack(const struct tti_device *device, const DLTensor *tensor, const void *compact,
                               void *stream, tutti_error *error)
{
    if (device->type == kDLCPU) {
        tti_tensor_unpack(tensor, compact);
        return TUTTI_OK;
    }
    const struct transfer transfer = {.device = device, .stream = stream, .pack = false};
    return walk(&transfer, tensor, (char *)compact, error); /* only read: pack is false */
}
