/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_register: three rounds. In the first one each rank reports its range and whether it can be registered. In the
 * second one each makes its file, hands it over and maps the others' files. In the third one, only if all have
 * succeeded, each copies the content of its range into the file and maps the file over the range. That can be undone,
 * so the last round may still fail.
 */
#include "backends/shm/heap/register.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/shm/heap/agree.h"
#include "backends/shm/heap/file.h"
#include "backends/shm/heap/ranges.h"
#include "backends/shm/heap/shared.h"
#include "base/error.h"

/* The state of one call. */
struct registration {
    struct tti_heap_view *view;
    unsigned index; /* of the own region */
    struct tti_heap_record mine;
    struct tti_heap_record *all;
    struct tti_store *channel;
    unsigned char *alias; /* the file, mapped beside the range */
};

static struct tti_heap_region *region_of(const struct registration *x)
{
    return &x->view->shared->regions[x->index];
}

/* Private pages are taken while the shared ones still exist. Without this check the OOM killer ends a process. */
static tutti_status check_memory_left(size_t bytes, tutti_error *error)
{
    const struct tti_available_memory left = tti_available_memory_read("");
    const uint64_t least = left.limit < left.host ? left.limit : left.host;
    if (bytes > least) {
        return tti_error_set(error, TUTTI_NO_MEMORY,
                             "no memory to make %zu bytes private again, %llu are left; they stay shared memory", bytes,
                             (unsigned long long)least);
    }
    return TUTTI_OK;
}

static tutti_status restore_part(const struct tti_heap_region *r, const struct tti_heap_part *part, tutti_error *error)
{
    tutti_status status = check_memory_left(part->bytes, error);
    if (status != TUTTI_OK) {
        return status;
    }
    unsigned char *copy = mmap(NULL, part->bytes, PROT_READ, MAP_SHARED, r->fd, part->begin - r->base);
    if (copy == MAP_FAILED) {
        return tti_error_system(error, errno, "cannot map %zu bytes of registered memory beside it", part->bytes);
    }
    if (mmap(part->begin, part->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        status = tti_error_system(error, errno, "cannot make %zu bytes private again", part->bytes);
    } else {
        if (r->huge) {
            madvise(part->begin, part->bytes, MADV_HUGEPAGE);
        }
        memcpy(part->begin, copy, part->bytes);
    }
    munmap(copy, part->bytes);
    return status;
}

static tutti_status restore(const struct tti_heap_region *r, tutti_error *error)
{
    struct tti_heap_part *parts = NULL;
    size_t count = 0;
    tutti_status status = tti_heap_parts(r, &parts, &count, error);
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = restore_part(r, &parts[i], error);
    }
    free(parts);
    return status;
}

tutti_status tti_heap_end_region(struct tti_heap_shared *h, unsigned index, tutti_error *error)
{
    struct tti_heap_region *r = &h->regions[index];
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&h->lock); /* no view names it any more */
    memset(r->mapped, 0, (size_t)h->members * sizeof(*r->mapped));
    tti_heap_publish(h);
    pthread_mutex_unlock(&h->lock);
    if (r->overlaid) {
        status = restore(r, error);
    }
    if (r->bytes > 0) {
        tti_heap_unclaim(r);
        tti_heap_forget_orphans(&h->orphans, r->base, r->bytes);
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    pthread_mutex_lock(&h->lock);
    tti_heap_free_region(h, index);
    pthread_mutex_unlock(&h->lock);
    return status;
}

/* ---- tutti_register ---------------------------------------------------------------------------------------------- */

/* Claims and checks the whole pages of the range. */
static tutti_status claim(struct registration *x, void *memory, size_t bytes, tutti_error *error)
{
    struct tti_heap_shared *h = x->view->shared;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t last = ((uintptr_t)memory + bytes) / page * page;
    size_t size = last > first && (uintptr_t)memory <= first ? last - first : 0;
    if (size > TTI_HEAP_MAX_BYTES || last > TTI_HEAP_MAX_BEGIN) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "%zu bytes at %p are too many, or too high up, to be registered",
                             bytes, memory);
    }
    pthread_mutex_lock(&h->lock);
    x->index = tti_heap_alloc_region(h);
    if (x->index > 0) {
        struct tti_heap_region *r = region_of(x);
        r->registered = memory;
        r->base = size > 0 ? (unsigned char *)first : NULL;
        h->maps = h->maps < 0 ? tti_heap_maps_open() : h->maps;
    }
    pthread_mutex_unlock(&h->lock);
    if (x->index == 0) {
        return tti_error_set(error, TUTTI_NO_RESOURCE, "%u ranges are registered already; unregister some",
                             TTI_HEAP_REGIONS - 1);
    }
    if (size == 0) {
        return TUTTI_OK;
    }
    struct tti_heap_region *r = region_of(x);
    r->bytes = size;
    if (!tti_heap_claim(r)) {
        r->bytes = 0;
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "a part of the %zu bytes at %p is registered or allocated by Tutti already", bytes,
                             memory);
    }
    return tti_heap_check_range(r->base, size, &r->huge, error);
}

static tutti_status make_file(struct registration *x, tutti_error *error)
{
    struct tti_heap_region *r = region_of(x);
    const struct tti_heap_group_ops group = tti_heap_group_ops_of(x->view);
    int fd = -1;
    tutti_status status = tti_heap_file_create("tutti-registered", r->bytes, &fd, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_heap_claim_file(r, fd, error);
    if (status != TUTTI_OK) {
        close(fd);
        return status;
    }
    status = tti_heap_file_map(fd, r->bytes, false, &x->alias, error);
    return status != TUTTI_OK ? status : tti_heap_file_commit(fd, x->alias, 0, r->bytes, &group, error);
}

/* Whether any rank has a file to hand over. */
static bool is_shared(const struct registration *x)
{
    bool any = false;
    for (int i = 0; i < x->view->size; i++) {
        any = any || x->all[i].memory.bytes > 0;
    }
    return any && x->view->size > 1;
}

/* The second round: makes the file of this rank and maps those of all others. */
static tutti_status share(struct registration *x, const tutti_exchange *exchange, tutti_error *error)
{
    struct tti_heap_view *v = x->view;
    struct tti_heap_region *r = region_of(x);
    bool *wanted = calloc((size_t)v->size, sizeof(*wanted));
    tutti_status status = wanted ? tti_heap_check_available(v, x->all, error) : tti_heap_no_list(v, error);
    for (int i = 0; i < v->size && status == TUTTI_OK; i++) {
        wanted[i] = x->all[i].memory.bytes > 0;
    }
    if (status == TUTTI_OK && r->bytes > 0) {
        status = make_file(x, error);
    }
    if (x->channel && status == TUTTI_OK) {
        status = tti_heap_exchange_fds(v, exchange, x->all, wanted, false, r->fd, x->channel, error);
        x->mine.origin = (uint8_t)tti_store_resource_origin(x->channel);
    } else if (x->channel) {
        tti_heap_put_no_fd(v, x->channel);
    }
    free(wanted);
    return status;
}

static tutti_status copy_in(const struct registration *x, const struct tti_heap_group_ops *group, tutti_error *error)
{
    const struct tti_heap_region *r = region_of(x);
    tutti_status status = TUTTI_OK;
    for (size_t done = 0; done < r->bytes && status == TUTTI_OK; done += TTI_HEAP_STEP) {
        memcpy(x->alias + done, r->base + done, r->bytes - done < TTI_HEAP_STEP ? r->bytes - done : TTI_HEAP_STEP);
        status = tti_heap_group_failure(group, error);
    }
    return status;
}

/* The third round: the content is copied into the file, and the file is mapped over the range. */
static tutti_status map_over(struct registration *x, tutti_error *error)
{
    struct tti_heap_region *r = region_of(x);
    const struct tti_heap_group_ops group = tti_heap_group_ops_of(x->view);
    if (r->bytes == 0) {
        return TUTTI_OK;
    }
    const tutti_status status = copy_in(x, &group, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (mmap(r->base, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->fd, 0) == MAP_FAILED) {
        return tti_error_system(error, errno, "cannot map shared memory over %zu bytes at %p", r->bytes,
                                (void *)r->base);
    }
    tti_heap_claim_overlaid(r);
    madvise(r->base, r->bytes, MADV_HUGEPAGE);
    tti_heap_file_populate(r->base, r->bytes, &group);
    return TUTTI_OK;
}

static void undo(struct registration *x)
{
    struct tti_heap_shared *h = x->view->shared;
    tutti_error ignored;
    if (x->index > 0) {
        tti_heap_end_region(h, x->index, &ignored);
    }
    pthread_mutex_lock(&h->lock);
    for (int r = 0; r < x->view->size && x->all; r++) {
        if (r != x->view->rank && x->all[r].region > 0 && x->all[r].region < TTI_HEAP_REGIONS) {
            tti_heap_replace(h, x->view->member_of[r], x->all[r].region, 0);
        }
    }
    pthread_mutex_unlock(&h->lock);
}

static void publish(struct registration *x)
{
    struct tti_heap_shared *h = x->view->shared;
    const struct tti_heap_region *r = region_of(x);
    pthread_mutex_lock(&h->lock);
    if (r->bytes > 0) {
        tti_heap_replace(h, h->own, x->index, tti_heap_word(r->base, r->bytes));
        tti_heap_mark_mapped(x->view, x->index);
    }
    pthread_mutex_unlock(&h->lock);
}

static tutti_status rounds(struct registration *x, void *memory, size_t bytes, const tutti_exchange *exchange,
                           tutti_error *error)
{
    x->mine.status = x->all ? claim(x, memory, bytes, error) : tti_heap_no_list(x->view, error);
    x->mine.region = x->index;
    x->mine.memory.bytes = x->index > 0 ? region_of(x)->bytes : 0;
    x->mine.memory.available = tti_available_memory_read("");
    if (x->mine.status == TUTTI_OK && getrandom(x->mine.random, sizeof(x->mine.random), 0) != sizeof(x->mine.random)) {
        x->mine.status = tti_error_system(error, errno, "no random name for the descriptor channel");
    }
    tutti_status status = tti_heap_agree(x->view, exchange, "register", &x->mine, x->all, error);
    if (status == TUTTI_OK && is_shared(x)) {
        status = tti_heap_open_fd_channel(x->view, exchange, "register", &x->mine, x->all, &x->channel, error);
    }
    if (status == TUTTI_OK) {
        x->mine.status = share(x, exchange, error);
        status = tti_heap_agree(x->view, exchange, "register", &x->mine, x->all, error);
    }
    if (status == TUTTI_OK) {
        x->mine.status = map_over(x, error);
        status = tti_heap_agree(x->view, exchange, "register", &x->mine, x->all, error);
    }
    return status;
}

tutti_status tti_heap_register(struct tti_heap_view *v, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error)
{
    struct registration x = {.view = v, .all = calloc((size_t)v->size, sizeof(struct tti_heap_record))};
    tutti_status status = rounds(&x, memory, bytes, exchange, error);
    if (status == TUTTI_OK) {
        publish(&x);
    }
    if (x.alias) {
        munmap(x.alias, region_of(&x)->bytes);
    }
    if (status != TUTTI_OK) {
        undo(&x);
    }
    if (x.channel) {
        tti_store_release(x.channel);
    }
    free(x.all);
    return status;
}

/* ---- tutti_unregister -------------------------------------------------------------------------------------------- */

static unsigned find(struct tti_heap_shared *h, const void *memory)
{
    unsigned found = 0;
    pthread_mutex_lock(&h->lock);
    for (unsigned i = TTI_HEAP_ARENA + 1; i < TTI_HEAP_REGIONS && found == 0; i++) {
        found = h->regions[i].taken && h->regions[i].registered == memory ? i : 0;
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

/* A pending message of any group that shares the heap needs its tensor where it is: a peer may still read or write
 * it. */
static bool is_used(struct tti_heap_shared *h, unsigned index)
{
    bool used = false;
    pthread_mutex_lock(&h->lock);
    const struct tti_heap_region *r = &h->regions[index];
    for (const struct tti_heap_view *v = h->views; v && r->bytes > 0 && !used; v = v->next) {
        used = v->group_ops.use && v->group_ops.use(v->group_ops.user, r->base, r->bytes);
    }
    pthread_mutex_unlock(&h->lock);
    return used;
}

static void unmap_others(struct tti_heap_view *v, const struct tti_heap_record *all)
{
    pthread_mutex_lock(&v->shared->lock);
    for (int r = 0; r < v->size; r++) {
        if (r != v->rank && all[r].region > TTI_HEAP_ARENA && all[r].region < TTI_HEAP_REGIONS) {
            tti_heap_replace(v->shared, v->member_of[r], all[r].region, 0);
        }
    }
    pthread_mutex_unlock(&v->shared->lock);
}

/* The first round: whether the range of each rank can be made private, and the memory for that is available. `all`
 * may be NULL, as in tti_heap_agree. */
static tutti_status check_private(struct tti_heap_view *v, const void *memory, const tutti_exchange *exchange,
                                  struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error)
{
    mine->region = find(v->shared, memory);
    if (mine->region == 0) {
        mine->status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%p is not registered", memory);
    } else if (is_used(v->shared, mine->region)) {
        mine->status = tti_error_set(error, TUTTI_BUSY,
                                     "a message that is under way has its tensor in the memory registered at %p; wait "
                                     "for its end first",
                                     memory);
    } else if (!all) {
        mine->status = tti_heap_no_list(v, error);
    } else {
        mine->memory.bytes = v->shared->regions[mine->region].bytes;
        mine->memory.available = tti_available_memory_read("");
    }
    return tti_heap_agree(v, exchange, "unregister", mine, all, error);
}

tutti_status tti_heap_unregister(struct tti_heap_view *v, void *memory, const tutti_exchange *exchange,
                                 tutti_error *error)
{
    struct tti_heap_record mine = {.status = TUTTI_OK};
    struct tti_heap_record *all = calloc((size_t)v->size, sizeof(*all));
    tutti_status status = check_private(v, memory, exchange, &mine, all, error);
    /* a rank without memory for its list fails the call only */
    const bool refused = status == TUTTI_INVALID_ARGUMENT || status == TUTTI_BUSY ||
                         (status == TUTTI_NO_MEMORY && error->scope != TUTTI_SCOPE_GROUP);
    const bool group_failed = status != TUTTI_OK && !refused;
    if (status == TUTTI_OK) {
        status = tti_heap_check_available(v, all, error);
    }
    if (status == TUTTI_OK) {
        unmap_others(v, all);
        mine.status = tti_heap_end_region(v->shared, mine.region, error);
        if (mine.status == TUTTI_NO_MEMORY) {
            mine.status = TUTTI_SYSTEM; /* NO_MEMORY means that nothing has changed */
        }
        status = tti_heap_agree(v, exchange, "unregister", &mine, all, error);
    } else if (group_failed && mine.region > 0) {
        /* the other ranks cannot be notified, but the range must become private */
        tutti_error ignored;
        tti_heap_end_region(v->shared, mine.region, &ignored);
    }
    free(all);
    return status;
}
