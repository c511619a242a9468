/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device in another process. A handle names the process, its descriptor of the file behind the allocation,
 * and the file's number. So a handle of freed memory is refused, also if the descriptor has been reused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_state.h"

#define MAGIC UINT64_C(0x7475747469697063)

struct handle {
    uint64_t magic;
    uint64_t bytes;
    uint64_t offset;
    uint64_t inode;
    int32_t process;
    int32_t descriptor;
    unsigned char zeros[24];
};
_Static_assert(sizeof(struct handle) == TTI_DOUBLE_IPC, "the vendors' handles have 64 bytes");

int tti_double_ipc_export(const void *memory, unsigned char handle[TTI_DOUBLE_IPC])
{
    pthread_mutex_lock(&tti_double.lock);
    const struct tti_double_block *block = tti_double_block_at((uintptr_t)memory);
    const bool possible = block && block->kind == TTI_DOUBLE_DEVICE;
    if (possible) {
        const struct handle exported = {.magic = MAGIC,
                                        .bytes = block->bytes,
                                        .offset = (uintptr_t)memory - block->begin,
                                        .inode = block->inode,
                                        .process = getpid(),
                                        .descriptor = block->fd};
        memcpy(handle, &exported, sizeof(exported));
    }
    pthread_mutex_unlock(&tti_double.lock);
    return possible ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_VALUE;
}

/* The file behind the allocation, or -1 if it has been freed. */
static int open_file(const struct handle *handle)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->descriptor);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file) || file.st_ino != handle->inode || (uint64_t)file.st_size < handle->bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct tti_double_block *import(int device, const struct handle *handle)
{
    struct tti_double_block *block = calloc(1, sizeof(*block));
    if (!block) {
        return NULL;
    }
    block->kind = TTI_DOUBLE_IMPORTED;
    block->device = device;
    block->bytes = handle->bytes;
    block->inode = handle->inode;
    block->fd = open_file(handle);
    if (block->fd < 0) {
        free(block);
        return NULL;
    }
    if (!tti_double_block_map(block)) {
        close(block->fd);
        free(block);
        return NULL;
    }
    if (!tti_double_block_add(block)) {
        munmap(block->shadow, block->mapped);
        close(block->fd);
        free(block);
        return NULL;
    }
    return block;
}

int tti_double_ipc_open(int device, const unsigned char bytes[TTI_DOUBLE_IPC], void **memory)
{
    struct handle handle;
    memcpy(&handle, bytes, sizeof(handle));
    if (handle.magic != MAGIC || handle.bytes == 0 || handle.offset >= handle.bytes) {
        return TTI_DOUBLE_INVALID_VALUE;
    }
    if (handle.process == getpid()) {
        return TTI_DOUBLE_INVALID_CONTEXT;
    }
    int code = TTI_DOUBLE_OK;
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_block *block = tti_double_block_imported(handle.inode, device);
    if (!block) {
        block = import(device, &handle);
    }
    if (block) {
        block->opened++;
        const uintptr_t address = block->begin + handle.offset;
        memcpy(memory, &address, sizeof(address));
    } else {
        code = TTI_DOUBLE_MAP_FAILED;
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_ipc_close(void *memory)
{
    int code = TTI_DOUBLE_INVALID_VALUE;
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_block *block = tti_double_block_at((uintptr_t)memory);
    if (block && block->kind == TTI_DOUBLE_IMPORTED) {
        const uint64_t id = block->id;
        code = tti_double_device_drain(block->device);
        block = tti_double_block_at((uintptr_t)memory); /* another thread may have closed it meanwhile */
        if (!code && block && block->id == id) {
            if (--block->opened == 0) {
                tti_double_block_remove(block);
            }
        } else if (!code) {
            code = TTI_DOUBLE_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}
