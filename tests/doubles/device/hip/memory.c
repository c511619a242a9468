/* SPDX-License-Identifier: BSD-3-Clause */
/* libamdhip64.so: memory of devices and of the host, attributes of pointers, memory of other processes. */
#include <string.h>

#include "interface.h"

/* Nothing is allocated for no bytes, and freed for NULL. */
static hipError_t allocate(const char *function, enum tti_double_kind kind, size_t bytes, unsigned flags, void **memory)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(function, &device);
    if (code || !memory) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    *memory = NULL;
    return bytes ? tti_double_hip_result(tti_double_alloc(kind, device, bytes, flags, memory)) : hipSuccess;
}

static hipError_t release(const char *function, unsigned kinds, void *memory)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(function, &device);
    if (code || !memory) {
        return code;
    }
    return tti_double_hip_result(tti_double_free(kinds, memory));
}

static bool is_host(const struct tti_double_memory *memory)
{
    return memory->kind == TTI_DOUBLE_PINNED || memory->kind == TTI_DOUBLE_REGISTERED;
}

hipError_t hipMalloc(void **memory, size_t bytes)
{
    return allocate(__func__, TTI_DOUBLE_DEVICE, bytes, 0, memory);
}

hipError_t hipFree(void *memory)
{
    struct tti_double_memory found;
    const hipError_t code = release(__func__, 1u << TTI_DOUBLE_DEVICE | 1u << TTI_DOUBLE_MANAGED, memory);
    if (code == hipErrorInvalidValue && tti_double_lookup(memory, &found) && is_host(&found)) {
        return tti_double_hip_result(hipErrorInvalidDevicePointer);
    }
    return code;
}

hipError_t hipMallocManaged(void **memory, size_t bytes, unsigned int flags)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !memory || bytes == 0 || (flags != hipMemAttachGlobal && flags != hipMemAttachHost)) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    return tti_double_hip_result(tti_double_alloc(TTI_DOUBLE_MANAGED, device, bytes, flags, memory));
}

hipError_t hipHostMalloc(void **memory, size_t bytes, unsigned int flags)
{
    const unsigned coherence = hipHostMallocCoherent | hipHostMallocNonCoherent;
    if ((flags & coherence) == coherence) {
        return tti_double_hip_result(hipErrorInvalidValue);
    }
    return allocate(__func__, TTI_DOUBLE_PINNED, bytes, flags, memory);
}

hipError_t hipHostFree(void *memory)
{
    return release(__func__, 1u << TTI_DOUBLE_PINNED, memory);
}

hipError_t hipHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !memory || bytes == 0 || flags > 15) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    return tti_double_hip_result(tti_double_register(device, memory, bytes, flags));
}

hipError_t hipHostUnregister(void *memory)
{
    if (!memory) {
        return tti_double_hip_result(hipErrorInvalidValue);
    }
    const hipError_t code = release(__func__, 1u << TTI_DOUBLE_REGISTERED, memory);
    return code == hipErrorInvalidValue ? tti_double_hip_result(TTI_DOUBLE_NOT_REGISTERED) : code;
}

hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !free_bytes || !total) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    tti_double_memory_info(device, free_bytes, total);
    return hipSuccess;
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t memory)
{
    int device = 0;
    struct tti_double_memory found;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !base || !bytes) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    if (!tti_double_lookup(memory, &found)) {
        return tti_double_hip_result(hipErrorNotFound);
    }
    *base = found.base;
    *bytes = found.bytes;
    return hipSuccess;
}

/* Version 5 has no number for managed memory: it is host memory that is managed. */
static hipMemoryType type_of(const struct tti_double_memory *memory)
{
#if TTI_DOUBLE_HIP >= 6
    if (memory->kind == TTI_DOUBLE_MANAGED) {
        return hipMemoryTypeManaged;
    }
#endif
    return is_host(memory) || memory->kind == TTI_DOUBLE_MANAGED ? hipMemoryTypeHost : hipMemoryTypeDevice;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *memory)
{
    int device = 0;
    struct tti_double_memory found;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !attributes || !memory) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    memset(attributes, 0, sizeof(*attributes));
    if (!tti_double_lookup(memory, &found)) {
#if TTI_DOUBLE_HIP >= 6
        attributes->type = hipMemoryTypeUnregistered;
        attributes->device = -2;
        return hipSuccess;
#else
        return tti_double_hip_result(hipErrorInvalidValue);
#endif
    }
#if TTI_DOUBLE_HIP >= 6
    attributes->type = type_of(&found);
#else
    attributes->memoryType = type_of(&found);
#endif
    attributes->device = found.device;
    memcpy(&attributes->devicePointer, &memory, sizeof(memory));
    if (is_host(&found) || found.kind == TTI_DOUBLE_MANAGED) {
        attributes->hostPointer = attributes->devicePointer;
    }
    attributes->isManaged = found.kind == TTI_DOUBLE_MANAGED;
    attributes->allocationFlags = found.flags;
    return hipSuccess;
}

/* Each attribute has its own type, and not always the one that CUDA's has. */
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t memory)
{
    union {
        uint32_t number;
        void *pointer;
        bool flag;
        int device;
    } value = {0};
    size_t size = 0;
    int device = 0;
    struct tti_double_memory found;
    hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !data || !memory) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    const bool known = tti_double_lookup(memory, &found);
    code = known ? hipSuccess : hipErrorInvalidValue;
    switch ((int)attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: /* managed memory counts as the host's */
        size = sizeof(value.number);
        value.number = !known                                                ? 0
                       : is_host(&found) || found.kind == TTI_DOUBLE_MANAGED ? hipMemoryTypeHost
                                                                             : hipMemoryTypeDevice;
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
        size = sizeof(value.pointer);
        value.pointer = known ? memory : NULL;
        break;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        size = sizeof(value.pointer);
        if (known && (is_host(&found) || found.kind == TTI_DOUBLE_MANAGED)) {
            value.pointer = memory;
        } else {
            code = hipErrorInvalidValue;
        }
        break;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
        size = sizeof(value.number);
        value.number = known ? (uint32_t)found.id : 0;
        break;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
        size = sizeof(value.flag);
        value.flag = known && found.kind == TTI_DOUBLE_MANAGED;
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        size = sizeof(value.device);
        value.device = known ? found.device : -2;
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        size = sizeof(value.pointer);
        value.pointer = known ? found.base : NULL;
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        size = sizeof(value.number);
        value.number = known ? (uint32_t)found.bytes : 0;
        break;
    case HIP_POINTER_ATTRIBUTE_MAPPED:
        size = sizeof(value.flag);
        value.flag = known;
        break;
    default:
        return tti_double_hip_result(hipErrorNotSupported);
    }
    memcpy(data, &value, size);
    return tti_double_hip_result(code);
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *memory)
{
    int device = 0;
    unsigned char bytes[TTI_DOUBLE_IPC];
    hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !handle || !memory) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    code = (hipError_t)tti_double_ipc_export(memory, bytes);
    if (!code) {
        memcpy(handle->reserved, bytes, sizeof(bytes));
    }
    return tti_double_hip_result(code);
}

hipError_t hipIpcOpenMemHandle(void **memory, hipIpcMemHandle_t handle, unsigned int flags)
{
    int device = 0;
    unsigned char bytes[TTI_DOUBLE_IPC];
    hipError_t code = tti_double_hip_enter(__func__, &device);
    if (code || !memory || flags != hipIpcMemLazyEnablePeerAccess) {
        return code ? code : tti_double_hip_result(hipErrorInvalidValue);
    }
    memcpy(bytes, handle.reserved, sizeof(bytes));
    code = (hipError_t)tti_double_ipc_open(device, bytes, memory);
    return tti_double_hip_result((int)code == TTI_DOUBLE_MAP_FAILED ? hipErrorInvalidDevicePointer : code);
}

hipError_t hipIpcCloseMemHandle(void *memory)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : tti_double_hip_result(tti_double_ipc_close(memory));
}
