/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuda.so.1: streams, events, and queued work. */
#include "interface.h"

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    int device = 0;
    void *created = NULL;
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !stream || flags > CU_STREAM_NON_BLOCKING) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)tti_double_stream_create(device, flags == CU_STREAM_DEFAULT, &created);
    if (!code) {
        *stream = created;
    }
    return code;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_stream_destroy(device, stream);
}

CUresult cuStreamQuery(CUstream stream)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_stream_query(device, stream);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_stream_synchronize(device, stream);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    int device = 0;
    int owner = 0;
    bool blocking = false;
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !context) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)tti_double_stream_info(device, stream, &owner, &blocking);
    if (!code) {
        *context = tti_double_cuda_context(owner);
    }
    return code;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    int device = 0;
    int owner = 0;
    bool blocking = false;
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !flags) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)tti_double_stream_info(device, stream, &owner, &blocking);
    if (!code) {
        *flags = blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    }
    return code;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || flags) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)tti_double_stream_wait_event(__func__, device, stream, event);
}

/* A counter that may have wrapped around. */
static bool not_behind(uint32_t word, uint32_t value)
{
    return (int32_t)(word - value) >= 0;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    static bool (*const conditions[])(uint32_t, uint32_t) = {[CU_STREAM_WAIT_VALUE_GEQ] = not_behind,
                                                             [CU_STREAM_WAIT_VALUE_EQ] = tti_double_equal,
                                                             [CU_STREAM_WAIT_VALUE_AND] = tti_double_shares_a_bit,
                                                             [CU_STREAM_WAIT_VALUE_NOR] = tti_double_lacks_a_bit};
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || flags > CU_STREAM_WAIT_VALUE_NOR) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    const struct tti_double_word word = {
        .address = tti_double_cuda_pointer(address), .value = value, .mask = UINT32_MAX, .holds = conditions[flags]};
    return (CUresult)tti_double_wait_word(__func__, device, stream, &word);
}

/* The first form, which the driver disables by default. */
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    (void)stream, (void)address, (void)value, (void)flags;
    return code ? code : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    int device = 0;
    void *created = NULL;
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !event || flags & ~known || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)tti_double_event_create(device, &created);
    if (!code) {
        *event = created;
    }
    return code;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_event_destroy(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_event_record(__func__, device, event, stream);
}

/* Alone among these, it needs no current context. */
CUresult cuEventQuery(CUevent event)
{
    const int code = tti_double_enter(__func__);
    return (CUresult)(code ? code : tti_double_event_query(event));
}

CUresult cuEventSynchronize(CUevent event)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_event_synchronize(event);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    const struct tti_double_copy copy = {.dst = tti_double_cuda_pointer(dst),
                                         .dst_pitch = bytes,
                                         .src = tti_double_cuda_pointer(src),
                                         .src_pitch = bytes,
                                         .width = bytes,
                                         .rows = 1};
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_copy(__func__, device, &copy, stream);
}

/* The address of one end of a two-dimensional copy. Its declared kind of memory must be the real one. */
static CUresult end_of(CUmemorytype type, const void *host, CUdeviceptr at, size_t offset, const void **begin)
{
    struct tti_double_memory memory;
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
        return type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    const uintptr_t address = (type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : at) + offset;
    *begin = tti_double_cuda_pointer(address);
    const bool known = tti_double_lookup(*begin, &memory);
    const bool of_device = known && (memory.kind == TTI_DOUBLE_DEVICE || memory.kind == TTI_DOUBLE_IMPORTED);
    const bool wrong = (type == CU_MEMORYTYPE_HOST && of_device) || (type == CU_MEMORYTYPE_DEVICE && !known);
    return wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream)
{
    struct tti_double_copy copy = {0};
    const void *dst = NULL;
    int device = 0;
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !what) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    copy = (struct tti_double_copy){
        .dst_pitch = what->dstPitch, .src_pitch = what->srcPitch, .width = what->WidthInBytes, .rows = what->Height};
    if (copy.width > 0 && copy.rows > 0) {
        code = end_of(what->srcMemoryType, what->srcHost, what->srcDevice,
                      what->srcXInBytes + what->srcY * what->srcPitch, &copy.src);
        if (!code) {
            code = end_of(what->dstMemoryType, what->dstHost, what->dstDevice,
                          what->dstXInBytes + what->dstY * what->dstPitch, &dst);
        }
        /* A pitch of 0 means rows without gaps; CU_DEVICE_ATTRIBUTE_MAX_PITCH is the most. */
        copy.src_pitch = copy.src_pitch ? copy.src_pitch : copy.width;
        copy.dst_pitch = copy.dst_pitch ? copy.dst_pitch : copy.width;
        if (!code &&
            (copy.src_pitch > INT32_MAX || copy.dst_pitch > INT32_MAX ||
             copy.src_pitch < what->srcXInBytes + copy.width || copy.dst_pitch < what->dstXInBytes + copy.width)) {
            code = CUDA_ERROR_INVALID_VALUE;
        }
        copy.dst = tti_double_cuda_pointer((uintptr_t)dst);
    }
    return code ? code : (CUresult)tti_double_copy(__func__, device, &copy, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char byte, size_t count, CUstream stream)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code
                : (CUresult)tti_double_fill(__func__, device, tti_double_cuda_pointer(memory), byte, count, stream);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !function) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)tti_double_host_function(__func__, device, stream, function, data);
}
