/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ROCm by HIP's run-time interface, the only one that every installation has. Each thread has a current device, which
 * enter saves and leave restores. The contexts are HIP's, shared with the application. DLPack has no type for managed
 * memory of ROCm. The host can read and write it, so it is kDLCPU.
 *
 * HIP keeps a thread's last error until it is read. An application that reads it after its own call must not get an
 * error of Tutti. So each failed or not-ready call here is followed by hipGetLastError, which clears it.
 */
#include "device/hip_api.h"
#include "device/library.h"

#define GPU_DEVICE           tti_device_rocm
#define GPU_NAME             "rocm"
#define GPU_TYPE             kDLROCM
#define GPU_HOST_TYPE        kDLROCMHost
#define GPU_MANAGED_TYPE     kDLCPU
#define GPU_STREAM_WAIT_WORD NULL /* hipStreamWaitValue32 does not wrap, and needs special memory */

static const char library_variable[] = "TUTTI_HIP_LIBRARY";
/* Without a version: the name in Python's packages of ROCm. */
static const char *const library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so", NULL};
static struct tti_driver driver = {
    .display_name = "ROCm", .prefix = GPU_NAME, .mask_variable = "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES"};

#include "device/gpu_functions.h"

static int hip_version; /* HIP_VERSION of the library; written once, by prepare */

static tutti_status initialize(tutti_error *error)
{
    (void)error; /* the first call initializes HIP */
    return TUTTI_OK;
}

static tutti_status prepare(int count, tutti_error *error)
{
    (void)count;
    return check(api.RuntimeGetVersion(&hip_version), error, names.RuntimeGetVersion);
}

static const struct numbers *numbers(void)
{
    static const struct numbers before_6 = {.memory_unknown = -1, /* an error instead */
                                            .memory_host = TTI_HIP5_MEMORY_HOST,
                                            .memory_device = TTI_HIP5_MEMORY_DEVICE,
                                            .ipc_flags = TTI_HIP5_IPC_LAZY_PEER_ACCESS};
    static const struct numbers since_6 = {.memory_unknown = TTI_HIP6_MEMORY_UNREGISTERED,
                                           .memory_host = TTI_HIP6_MEMORY_HOST,
                                           .memory_device = TTI_HIP6_MEMORY_DEVICE,
                                           .ipc_flags = TTI_HIP6_IPC_LAZY_PEER_ACCESS};
    return hip_version < TTI_HIP_VERSION_6 ? &before_6 : &since_6;
}

static tti_gpu_device handle_of(int32_t index)
{
    return index;
}

static int32_t current_device(void)
{
    int current = -1;
    return api.GetDevice(&current) == TTI_GPU_SUCCESS ? current : -1;
}

static const char *error_name(tti_gpu_result code)
{
    return api.GetErrorName(code);
}

static const char *error_text(tti_gpu_result code)
{
    return api.GetErrorString(code);
}

static void clear_last_error(void)
{
    (void)api.GetLastError(); /* reading it clears it */
}

static tutti_status enter(int32_t index, struct tti_device_scope *scope, tutti_error *error)
{
    int current = 0;
    *scope = (struct tti_device_scope){.previous = -1}; /* leave then does nothing */
    tutti_status status = tti_driver_has(started_driver(), index, error);
    if (status == TUTTI_OK) {
        status = check(api.GetDevice(&current), error, names.GetDevice);
    }
    if (status == TUTTI_OK && current != index) {
        status = check_of(api.SetDevice(index), error, names.SetDevice, " to rocm:%d", index);
        scope->previous = status == TUTTI_OK ? current : -1;
    }
    return status;
}

static void leave(const struct tti_device_scope *scope)
{
    if (scope->previous >= 0) {
        (void)check(api.SetDevice(scope->previous), NULL, names.SetDevice); /* it exists: it was current */
    }
}

static tti_gpu_result start_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    return api.MemcpyAsync(dst, src, bytes, TTI_HIP_COPY_DEFAULT, stream);
}

static tti_gpu_result start_copy_rows(const struct tti_device_rows *rows, void *stream)
{
    return api.Memcpy2DAsync(rows->dst, rows->dst_pitch, rows->src, rows->src_pitch, rows->width, rows->rows,
                             TTI_HIP_COPY_DEFAULT, stream);
}
