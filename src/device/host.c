/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's memory as a device. Each function completes before it returns, so streams and events are NULL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/host/boot_id.h"
#include "base/host/cpu.h"
#include "device/types.h"
#include "kernels/kernels.h"

enum { ALIGNMENT = 64 }; /* a cache line, and the widest vector */

static int32_t host_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", "");
    return 1;
}

static int32_t host_count(void)
{
    return 1;
}

static tutti_status host_version(int32_t *driver, tutti_error *error)
{
    (void)error;
    *driver = 0; /* there is none */
    return TUTTI_OK;
}

static tutti_status host_check(int32_t index, tutti_error *error)
{
    return index == 0
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "there is no device cpu:%d: the host is cpu:0", index);
}

static tutti_status host_name_of(int32_t index, char *name, size_t capacity, tutti_error *error)
{
    tutti_status status = host_check(index, error);
    if (status == TUTTI_OK && !tti_cpu_model(name, capacity)) {
        snprintf(name, capacity, "host");
    }
    return status;
}

/* The kernel's boot id: equal in all processes of a host, different on each host. */
static tutti_status host_uuid_of(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error)
{
    char text[TTI_BOOT_ID];
    tutti_status status = host_check(index, error);
    if (status != TUTTI_OK || (status = tti_boot_id(text, error)) != TUTTI_OK) {
        return status;
    }
    int digits = 0;
    for (const char *c = text; *c && digits < 2 * TTI_DEVICE_UUID; c++) {
        static const char hexadecimal[] = "0123456789abcdef";
        const char *digit = strchr(hexadecimal, *c);
        if (digit) {
            const unsigned high = digits % 2 == 0 ? 0 : uuid[digits / 2];
            uuid[digits / 2] = (unsigned char)(high * 16 + (unsigned)(digit - hexadecimal));
            digits++;
        }
    }
    return digits == 2 * TTI_DEVICE_UUID
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_SYSTEM, "the boot id of this host is \"%s\", which is no UUID", text);
}

static tutti_status host_lookup(const void *memory, DLDevice *device, tutti_error *error)
{
    (void)memory;
    (void)error;
    *device = (DLDevice){kDLCPU, 0};
    return TUTTI_OK;
}

static tutti_status host_enter(int32_t index, struct tti_device_scope *scope, tutti_error *error)
{
    *scope = (struct tti_device_scope){.previous = -1};
    return host_check(index, error);
}

static void host_leave(const struct tti_device_scope *scope)
{
    (void)scope;
}

static tutti_status host_alloc(size_t bytes, void **memory, tutti_error *error)
{
    size_t rounded;
    void *got = NULL;
    if (bytes == 0) {
        *memory = NULL;
        return TUTTI_OK;
    }
    if (!__builtin_add_overflow(bytes, (size_t)ALIGNMENT - 1, &rounded)) {
        got = aligned_alloc(ALIGNMENT, rounded / ALIGNMENT * ALIGNMENT);
    }
    if (!got) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %zu bytes of host memory", bytes);
    }
    *memory = got;
    return TUTTI_OK;
}

static tutti_status host_free(void *memory, tutti_error *error)
{
    (void)error;
    free(memory);
    return TUTTI_OK;
}

static tutti_status host_copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    (void)stream;
    (void)error;
    if (bytes > 0) {
        tti_copy_cached(dst, src, bytes);
    }
    return TUTTI_OK;
}

static tutti_status host_copy_rows(const struct tti_device_rows *rows, void *stream, tutti_error *error)
{
    (void)stream;
    (void)error;
    for (size_t i = 0; rows->width > 0 && i < rows->rows; i++) {
        tti_copy_cached((char *)rows->dst + i * rows->dst_pitch, (const char *)rows->src + i * rows->src_pitch,
                        rows->width);
    }
    return TUTTI_OK;
}

/* Of streams and events. */
static tutti_status host_create(void **handle, tutti_error *error)
{
    (void)error;
    *handle = NULL;
    return TUTTI_OK;
}

static tutti_status host_destroy(void *handle, tutti_error *error)
{
    (void)handle;
    (void)error;
    return TUTTI_OK;
}

/* All earlier work is complete, so there is no order to keep. */
static tutti_status host_order(void *first, void *second, tutti_error *error)
{
    (void)first;
    (void)second;
    (void)error;
    return TUTTI_OK;
}

static tutti_status host_event_query(void *event, int32_t *done, tutti_error *error)
{
    (void)event;
    (void)error;
    *done = 1;
    return TUTTI_OK;
}

static tutti_status no_ipc(tutti_error *error)
{
    return tti_error_set(error, TUTTI_UNSUPPORTED,
                         "ordinary host memory cannot be shared with another process: allocate it with tutti_alloc");
}

static tutti_status host_ipc_export(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                                    tutti_error *error)
{
    (void)memory;
    (void)handle;
    (void)offset;
    return no_ipc(error);
}

static tutti_status host_ipc_open(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error)
{
    (void)handle;
    (void)allocation;
    return no_ipc(error);
}

static tutti_status host_ipc_close(void *allocation, tutti_error *error)
{
    (void)allocation;
    return no_ipc(error);
}

const struct tti_device tti_device_host = {
    .name = "cpu",
    .type = kDLCPU,
    .host_type = kDLCPU,
    .managed_type = kDLCPU,
    .available = host_available,
    .count = host_count,
    .version = host_version,
    .name_of = host_name_of,
    .uuid_of = host_uuid_of,
    .lookup = host_lookup,
    .enter = host_enter,
    .leave = host_leave,
    .alloc = host_alloc,
    .free = host_free,
    .alloc_host = host_alloc,
    .free_host = host_free,
    .copy = host_copy,
    .copy_rows = host_copy_rows,
    .stream_create = host_create,
    .stream_destroy = host_destroy,
    .stream_wait_event = host_order,
    .stream_wait_word = NULL,
    .event_create = host_create,
    .event_destroy = host_destroy,
    .event_record = host_order,
    .event_query = host_event_query,
    .ipc_export = host_ipc_export,
    .ipc_open = host_ipc_open,
    .ipc_close = host_ipc_close,
};
