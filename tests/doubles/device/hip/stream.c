/* SPDX-License-Identifier: BSD-3-Clause */
/* libamdhip64.so: streams, events, and queued work. */
#include "interface.h"

/* The error of most functions for a stream that does not exist. */
static hipError_t of_stream(int code)
{
    return tti_double_hip_result(code == TTI_DOUBLE_INVALID_HANDLE ? hipErrorContextIsDestroyed : code);
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
    int device = 0;
    void *created = NULL;
    hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !stream || flags > hipStreamNonBlocking) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    code = tti_double_hip_result(tti_double_stream_create(device, flags == hipStreamDefault, &created));
    if (!code) {
        *stream = created;
    }
    return code;
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !stream) {
        return code ? code : tti_double_hip_result(hipErrorInvalidHandle);
    }
    return of_stream(tti_double_stream_destroy(device, stream));
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : of_stream(tti_double_stream_query(device, stream));
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : of_stream(tti_double_stream_synchronize(device, stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !event || flags) {
        return code ? code : tti_double_hip_result(event ? hipErrorInvalidValue : hipErrorInvalidHandle);
    }
    return tti_double_hip_result(tti_double_stream_wait_event(__func__, device, stream, event));
}

/* Unlike CUDA's, not cyclic: a counter must not wrap around. */
static bool at_least(uint32_t word, uint32_t value)
{
    return word >= value;
}

hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags, uint32_t mask)
{
    static bool (*const conditions[])(uint32_t, uint32_t) = {[hipStreamWaitValueGte] = at_least,
                                                             [hipStreamWaitValueEq] = tti_double_equal,
                                                             [hipStreamWaitValueAnd] = tti_double_shares_a_bit,
                                                             [hipStreamWaitValueNor] = tti_double_lacks_a_bit};
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || flags > hipStreamWaitValueNor) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    const struct tti_double_word word = {.address = address,
                                         .value = flags == hipStreamWaitValueNor ? value & mask : value,
                                         .mask = mask,
                                         .holds = conditions[flags]};
    return of_stream(tti_double_wait_word(__func__, device, stream, &word));
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    const unsigned fences = hipEventReleaseToDevice | hipEventReleaseToSystem;
    const unsigned known = fences | hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess;
    const unsigned fence = flags & fences;
    int device = 0;
    void *created = NULL;
    hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !event || flags & ~known || (fence & (fence - 1)) ||
        ((flags & hipEventInterprocess) && !(flags & hipEventDisableTiming))) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    code = tti_double_hip_result(tti_double_event_create(device, &created));
    if (!code) {
        *event = created;
    }
    return code;
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !event) {
        return code ? code : tti_double_hip_result(hipErrorInvalidHandle);
    }
    return of_stream(tti_double_event_destroy(event));
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    int device = 0;
    int owner = 0;
    bool blocking = false;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !event) {
        return code ? code : tti_double_hip_result(hipErrorInvalidHandle);
    }
    if (tti_double_stream_info(device, stream, &owner, &blocking)) {
        return tti_double_hip_result(hipErrorContextIsDestroyed);
    }
    return tti_double_hip_result(tti_double_event_record(__func__, device, event, stream));
}

hipError_t hipEventQuery(hipEvent_t event)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : tti_double_hip_result(tti_double_event_query(event));
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : tti_double_hip_result(tti_double_event_synchronize(event));
}

/* HIP compares the direction with the addresses only if both are unknown to it. */
static bool is_possible(const void *dst, const void *src, hipMemcpyKind kind)
{
    struct tti_double_memory found;
    return kind == hipMemcpyHostToHost || kind == hipMemcpyDefault || tti_double_lookup(dst, &found) ||
           tti_double_lookup(src, &found);
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
    const struct tti_double_copy copy = {
        .dst = dst, .dst_pitch = bytes, .src = src, .src_pitch = bytes, .width = bytes, .rows = 1};
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || (unsigned)kind > hipMemcpyDefault) {
        return code ? code : tti_double_hip_result(hipErrorInvalidMemcpyDirection);
    }
    if (bytes > 0 && !is_possible(dst, src, kind)) {
        return tti_double_hip_result(hipErrorInvalidValue);
    }
    return of_stream(tti_double_copy(__func__, device, &copy, stream));
}

hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t rows,
                            hipMemcpyKind kind, hipStream_t stream)
{
    const struct tti_double_copy copy = {
        .dst = dst, .dst_pitch = dst_pitch, .src = src, .src_pitch = src_pitch, .width = width, .rows = rows};
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || (unsigned)kind > hipMemcpyDefault) {
        return code ? code : tti_double_hip_result(hipErrorInvalidMemcpyDirection);
    }
    if (width > 0 && rows > 0 && (width > dst_pitch || width > src_pitch)) {
        return tti_double_hip_result(hipErrorInvalidPitchValue);
    }
    if (width > 0 && rows > 0 && !is_possible(dst, src, kind)) {
        return tti_double_hip_result(hipErrorInvalidValue);
    }
    const int result = tti_double_copy(__func__, device, &copy, stream);
    return tti_double_hip_result(result == TTI_DOUBLE_INVALID_HANDLE ? hipErrorInvalidValue : result);
}

hipError_t hipMemsetAsync(void *memory, int byte, size_t bytes, hipStream_t stream)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : of_stream(tti_double_fill(__func__, device, memory, (unsigned char)byte, bytes, stream));
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !function) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    return of_stream(tti_double_host_function(__func__, device, stream, function, data));
}
