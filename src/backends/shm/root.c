/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting the groups that share a root, and mapping its blocks. A block is mapped from the last page before it,
 * because peers' descriptors are closed: see tti_mapping_continue. So the blocks of a rank are mapped in order.
 */
#include "backends/shm/root.h"

#include <stdlib.h>

#include "base/file_limit.h"
#include "engine/engine.h"
#include "engine/failure/liveness_monitor.h"

#define ROOM_MOST  ((size_t)16 << 20)
#define ROOMS_MOST ((size_t)256 << 20) /* of all ranks */

struct tti_fitted_tuning {
    struct tti_fitted_tuning *next;
    int size;
    struct tti_tuning tuning;
};

struct tti_root *tti_root_create(int size, int rank)
{
    struct tti_root *root = calloc(1, sizeof(*root));
    if (!root) {
        return NULL;
    }
    root->segments = calloc((size_t)size, sizeof(*root->segments));
    root->blocks = calloc((size_t)size, sizeof(*root->blocks));
    if (!root->segments || !root->blocks) {
        free(root->segments);
        free(root->blocks);
        free(root);
        return NULL;
    }
    pthread_mutex_init(&root->lock, NULL);
    root->size = size;
    root->rank = rank;
    root->references = 1;
    root->doorbell.fd = -1;
    for (int r = 0; r < size; r++) {
        root->segments[r].fd = -1;
    }
    return root;
}

void tti_root_retain(struct tti_root *root)
{
    pthread_mutex_lock(&root->lock);
    root->references++;
    pthread_mutex_unlock(&root->lock);
}

static void unmap(struct tti_root *root)
{
    for (int r = 0; r < root->size; r++) {
        for (unsigned block = 0; block < TTI_ROOT_BLOCKS && root->blocks[r][block]; block++) {
            tti_mapping_drop(root->blocks[r][block], TTI_ROOT_BLOCK << block);
        }
        tti_mapping_close(&root->segments[r]);
    }
    tti_mapping_close(&root->doorbell);
}

void tti_root_release(struct tti_root *root)
{
    pthread_mutex_lock(&root->lock);
    const bool last = --root->references == 0;
    pthread_mutex_unlock(&root->lock);
    if (!last) {
        return;
    }
    if (root->engine) {
        tti_engine_destroy(root->engine);
    }
    if (root->kept) {
        struct tti_segment_header *own = tti_root_header(root, root->rank);
        /* release: as in tti_engine_leave, which may not have been called */
        atomic_store_explicit(&own->left, 1, memory_order_release);
        tti_liveness_unregister(own);
    }
    unmap(root);
    while (root->fitted) {
        struct tti_fitted_tuning *next = root->fitted->next;
        free(root->fitted);
        root->fitted = next;
    }
    if (root->free_kinds) {
        root->free_kinds(root);
    }
    pthread_mutex_destroy(&root->lock);
    free(root->segments);
    free(root->blocks);
    free(root);
}

void tti_root_tuning(struct tti_root *root, int size, struct tti_tuning *tuning)
{
    pthread_mutex_lock(&root->lock);
    const struct tti_fitted_tuning *fitted = root->fitted;
    while (fitted && fitted->size != size) {
        fitted = fitted->next;
    }
    if (fitted) {
        *tuning = fitted->tuning;
    } else {
        tti_tuning_from_basis(&root->tuning, size, tuning);
        struct tti_fitted_tuning *kept = malloc(sizeof(*kept)); /* without memory the next group fits it again */
        if (kept) {
            *kept = (struct tti_fitted_tuning){.next = root->fitted, .size = size, .tuning = *tuning};
            root->fitted = kept;
        }
    }
    pthread_mutex_unlock(&root->lock);
}

size_t tti_root_segment_bytes(const struct tti_layout *layout)
{
    return layout->segment_bytes + TTI_DIRECTORY_BYTES;
}

size_t tti_root_spare_bytes(const struct tti_layout *layout)
{
    size_t spare = 0;
    const uint64_t own = tti_root_segment_bytes(layout);
    const uint64_t most = tti_file_limit();
    for (unsigned blocks = 1; blocks <= TTI_ROOT_BLOCKS && own + tti_root_block_offset(blocks) <= most; blocks++) {
        spare = tti_root_block_offset(blocks);
    }
    return spare;
}

size_t tti_root_doorbell_room(int size)
{
    const size_t share = ROOMS_MOST / (size_t)size / TTI_PAGE * TTI_PAGE;
    return share < ROOM_MOST ? share : ROOM_MOST;
}

/* A block that the file of the rank has. */
static bool map_block(struct tti_root *root, int rank, unsigned block)
{
    struct tti_mapping *segment = &root->segments[rank];
    if (root->blocks[rank][block]) {
        return true;
    }
    if (tti_root_block_offset(block + 1) > segment->spare || (block > 0 && !map_block(root, rank, block - 1))) {
        return false;
    }
    unsigned char *end =
        block > 0 ? root->blocks[rank][block - 1] + (TTI_ROOT_BLOCK << (block - 1)) : segment->base + segment->bytes;
    root->blocks[rank][block] = tti_mapping_continue(end, TTI_ROOT_BLOCK << block);
    return root->blocks[rank][block] != NULL;
}

unsigned char *tti_root_address(struct tti_root *root, int rank, uint64_t offset, size_t bytes)
{
    for (unsigned block = 0; block < TTI_ROOT_BLOCKS; block++) {
        const uint64_t begin = tti_root_block_offset(block);
        const uint64_t end = tti_root_block_offset(block + 1);
        if (offset < end) {
            return bytes <= end - offset && map_block(root, rank, block) ? root->blocks[rank][block] + (offset - begin)
                                                                         : NULL;
        }
    }
    return NULL;
}

bool tti_root_map_used(struct tti_root *root, int rank)
{
    /* relaxed: a share in a later block is mapped when its entry is found */
    const uint32_t used = atomic_load_explicit(&tti_root_header(root, rank)->blocks, memory_order_relaxed);
    return used == 0 || map_block(root, rank, (used < TTI_ROOT_BLOCKS ? used : TTI_ROOT_BLOCKS) - 1);
}
