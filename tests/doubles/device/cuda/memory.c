/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuda.so.1: memory of devices and of the host, attributes of pointers, memory of other processes. */
#include <string.h>

#include "interface.h"

static CUresult allocate(const char *function, enum tti_double_kind kind, size_t bytes, unsigned flags, void **memory)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(function, &device);
    if (code || !memory || bytes == 0) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)tti_double_alloc(kind, device, bytes, flags, memory);
}

static CUresult allocate_at(const char *function, enum tti_double_kind kind, size_t bytes, unsigned flags,
                            CUdeviceptr *memory)
{
    void *allocated = NULL;
    const CUresult code = allocate(function, kind, memory ? bytes : 0, flags, &allocated);
    if (!code) {
        *memory = (uintptr_t)allocated;
    }
    return code;
}

static CUresult release(const char *function, unsigned kinds, void *memory)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(function, &device);
    return code ? code : (CUresult)tti_double_free(kinds, memory);
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    return allocate_at(__func__, TTI_DOUBLE_DEVICE, bytes, 0, memory);
}

CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned int flags)
{
    const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    return allocate_at(__func__, TTI_DOUBLE_MANAGED, known ? bytes : 0, flags, memory);
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    return release(__func__, 1u << TTI_DOUBLE_DEVICE | 1u << TTI_DOUBLE_MANAGED, tti_double_cuda_pointer(memory));
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !free_bytes || !total) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    tti_double_memory_info(device, free_bytes, total);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    return allocate(__func__, TTI_DOUBLE_PINNED, flags < 8 ? bytes : 0, flags, memory);
}

CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
    return allocate(__func__, TTI_DOUBLE_PINNED, bytes, 0, memory);
}

CUresult cuMemFreeHost(void *memory)
{
    return release(__func__, 1u << TTI_DOUBLE_PINNED, memory);
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !memory || bytes == 0 || flags > 15) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    return (CUresult)tti_double_register(device, memory, bytes, flags);
}

CUresult cuMemHostUnregister(void *memory)
{
    const CUresult code = release(__func__, 1u << TTI_DOUBLE_REGISTERED, memory);
    return code == CUDA_ERROR_INVALID_VALUE && memory ? (CUresult)TTI_DOUBLE_NOT_REGISTERED : code;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_pointer, void *memory, unsigned int flags)
{
    int device = 0;
    struct tti_double_memory found;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !device_pointer || flags || !tti_double_lookup(memory, &found) ||
        (found.kind != TTI_DOUBLE_PINNED && found.kind != TTI_DOUBLE_REGISTERED)) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    *device_pointer = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory)
{
    int device = 0;
    struct tti_double_memory found;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code) {
        return code;
    }
    if (!tti_double_lookup(tti_double_cuda_pointer(memory), &found)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base) {
        *base = (uintptr_t)found.base;
    }
    if (bytes) {
        *bytes = found.bytes;
    }
    return CUDA_SUCCESS;
}

static bool is_host(const struct tti_double_memory *memory)
{
    return memory->kind == TTI_DOUBLE_PINNED || memory->kind == TTI_DOUBLE_REGISTERED;
}

/* `memory` NULL: unknown. Then `data` becomes the vendor's value for unknown memory, with its code. Each attribute has
 * its own type. */
static CUresult attribute_of(void *data, CUpointer_attribute attribute, const struct tti_double_memory *memory,
                             CUdeviceptr address)
{
    union {
        unsigned type;
        int number;
        size_t bytes;
        unsigned long long id;
        CUdeviceptr pointer;
        CUcontext context;
        bool flag;
    } value = {0};
    size_t size = 0;
    CUresult code = memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        size = sizeof(value.context);
        value.context = memory ? tti_double_cuda_context(memory->device) : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        size = sizeof(value.type);
        value.type = !memory ? 0 : is_host(memory) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        size = sizeof(value.pointer);
        value.pointer = memory ? address : 0;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        size = sizeof(value.pointer);
        if (memory && (is_host(memory) || memory->kind == TTI_DOUBLE_MANAGED)) {
            value.pointer = address;
        } else {
            code = CUDA_ERROR_INVALID_VALUE;
        }
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        size = sizeof(value.id);
        value.id = memory ? memory->id : 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        size = sizeof(value.number);
        value.number = memory && memory->kind == TTI_DOUBLE_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        size = sizeof(value.number);
        value.number = memory ? memory->device : -2;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        size = sizeof(value.flag);
        value.flag = memory && memory->kind == TTI_DOUBLE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        size = sizeof(value.pointer);
        value.pointer = memory ? (uintptr_t)memory->base : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        size = sizeof(value.bytes);
        value.bytes = memory ? memory->bytes : 0;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        size = sizeof(value.flag);
        value.flag = memory;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    memcpy(data, &value, size);
    return code;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr memory)
{
    struct tti_double_memory found;
    unsigned long long unused[4];
    int code = tti_double_enter(__func__);
    if (!code && attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
        tti_double_current(&code);
    }
    if (code || !data) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_VALUE;
    }
    if (!tti_double_lookup(tti_double_cuda_pointer(memory), &found)) {
        /* The result is unchanged. */
        return attribute_of(unused, attribute, NULL, memory);
    }
    return attribute_of(data, attribute, &found, memory);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr memory)
{
    struct tti_double_memory found;
    const int code = tti_double_enter(__func__);
    if (code || !attributes || !data || count == 0) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_VALUE;
    }
    const bool known = tti_double_lookup(tti_double_cuda_pointer(memory), &found);
    for (unsigned i = 0; i < count; i++) {
        const CUresult one = attribute_of(data[i], attributes[i], known ? &found : NULL, memory);
        if (one == CUDA_ERROR_NOT_SUPPORTED) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory)
{
    int device = 0;
    struct tti_double_memory found;
    unsigned char bytes[TTI_DOUBLE_IPC];
    void *pointer = tti_double_cuda_pointer(memory);
    CUresult code = tti_double_cuda_enter(__func__, &device);
    /* The base of an allocation, and nothing else. */
    if (code || !handle || !tti_double_lookup(pointer, &found) || found.base != pointer) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    code = (CUresult)tti_double_ipc_export(pointer, bytes);
    if (!code) {
        memcpy(handle->reserved, bytes, sizeof(bytes));
    }
    return code;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle, unsigned int flags)
{
    int device = 0;
    void *opened = NULL;
    unsigned char bytes[TTI_DOUBLE_IPC];
    CUresult code = tti_double_cuda_enter(__func__, &device);
    if (code || !memory || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(bytes, handle.reserved, sizeof(bytes));
    code = (CUresult)tti_double_ipc_open(device, bytes, &opened);
    if (!code) {
        *memory = (uintptr_t)opened;
    }
    return code;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_ipc_close(tti_double_cuda_pointer(memory));
}
