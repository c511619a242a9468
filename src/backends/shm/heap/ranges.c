/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's list of mappings decides what is heap memory: the application may unmap or replace a part at any time,
 * and Tutti is not notified. So a part belongs to a region only if the kernel reports a shared mapping of the region's
 * file (inode and device) at the region's offset there. From Linux 6.11 on the ioctl PROCMAP_QUERY answers this for one
 * address in about a microsecond; otherwise /proc/thread-self/maps is read as text. Before a range becomes heap memory,
 * smaps (VmFlags) shows whether a file may lie over it.
 *
 * A forked child must not write into memory that the other ranks map. A handler of pthread_atfork maps each such part
 * again in the child, as a private copy at the same address, so that pointers into it stay valid.
 */
#include "backends/shm/heap/ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process/fork.h"

/* ---- claimed ranges ---------------------------------------------------------------------------------------------- */

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static struct tti_heap_region *claimed;

static void in_child(void);

static void protect(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static void enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, protect);
    tti_fork_mutex_lock(&lock);
}

bool tti_heap_claim(struct tti_heap_region *region)
{
    bool free_range = true;
    enter();
    for (const struct tti_heap_region *c = claimed; c && free_range; c = c->next_claimed) {
        free_range = region->base >= c->base + c->bytes || c->base >= region->base + region->bytes;
    }
    if (free_range) {
        region->next_claimed = claimed;
        claimed = region;
    }
    tti_fork_mutex_unlock(&lock);
    return free_range;
}

tutti_status tti_heap_claim_file(struct tti_heap_region *region, int fd, tutti_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return tti_error_system(error, errno, "cannot read the attributes of a memory file");
    }
    enter();
    region->inode = st.st_ino;
    region->device_major = major(st.st_dev);
    region->device_minor = minor(st.st_dev);
    region->fd = fd;
    tti_fork_mutex_unlock(&lock);
    return TUTTI_OK;
}

void tti_heap_claim_overlaid(struct tti_heap_region *region)
{
    enter();
    region->overlaid = true;
    tti_fork_mutex_unlock(&lock);
}

void tti_heap_unclaim(struct tti_heap_region *region)
{
    enter();
    for (struct tti_heap_region **link = &claimed; *link; link = &(*link)->next_claimed) {
        if (*link == region) {
            *link = region->next_claimed;
            break;
        }
    }
    region->overlaid = false;
    tti_fork_mutex_unlock(&lock);
}

/* ---- asking the kernel for one mapping --------------------------------------------------------------------------- */

/* <linux/fs.h> of Linux 6.11 */
struct procmap_query {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t vma_start;
    uint64_t vma_end;
    uint64_t vma_flags;
    uint64_t vma_page_size;
    uint64_t vma_offset;
    uint64_t inode;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint32_t vma_name_size;
    uint32_t build_id_size;
    uint64_t vma_name_addr;
    uint64_t build_id_addr;
};
#define QUERY        _IOWR('f', 17, struct procmap_query)
#define QUERY_SHARED 0x08u
#define QUERY_NEXT   0x10u /* the one that covers the address, or the next one */

static bool query(int maps, const void *address, struct procmap_query *q)
{
    *q = (struct procmap_query){.size = sizeof(*q), .query_flags = QUERY_NEXT, .query_addr = (uintptr_t)address};
    return ioctl(maps, QUERY, q) == 0;
}

/* The mapping shows the region's file where the region has it. */
static bool is_part(const struct tti_heap_region *r, uint64_t start, uint64_t offset, uint64_t inode, unsigned major,
                    unsigned minor)
{
    return inode == r->inode && major == r->device_major && minor == r->device_minor &&
           offset == start - (uintptr_t)r->base;
}

static bool is_queried_part(const struct tti_heap_region *r, const struct procmap_query *q)
{
    return (q->vma_flags & QUERY_SHARED) &&
           is_part(r, q->vma_start, q->vma_offset, q->inode, q->dev_major, q->dev_minor);
}

int tti_heap_maps_open(void)
{
    struct procmap_query q;
    int maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    if (maps >= 0 && !query(maps, &q, &q)) {
        close(maps);
        maps = -1;
    }
    return maps;
}

bool tti_heap_still_mapped(int maps, const struct tti_heap_region *region, const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory;
    uintptr_t end = at + bytes;
    struct procmap_query q;
    while (maps >= 0 && at < end) {
        if (!query(maps, (const void *)at, &q)) {
            return errno != ENOENT; /* nothing there, or cannot be asked */
        }
        if (q.vma_start > at || !is_queried_part(region, &q)) {
            return false;
        }
        at = (uintptr_t)q.vma_end;
    }
    return true;
}

/* ---- forked children --------------------------------------------------------------------------------------------- */

/*
 * Runs in the child, which has one thread. The parts that are the region's file still become private copies of it,
 * read-only if memory is accounted so strictly that there is no room for them.
 */
static void make_copy(const struct tti_heap_region *r, unsigned char *begin, size_t bytes)
{
    off_t offset = begin - r->base;
    if (mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, r->fd, offset) ==
        MAP_FAILED) {
        (void)mmap(begin, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, r->fd, offset);
    }
}

static void copy_region(int maps, const struct tti_heap_region *r)
{
    unsigned char *at = r->base;
    unsigned char *end = r->base + r->bytes;
    struct procmap_query q;
    while (maps >= 0 && at < end && query(maps, at, &q) && q.vma_start < (uintptr_t)end) {
        if (is_queried_part(r, &q)) {
            make_copy(r, (unsigned char *)(uintptr_t)q.vma_start, (size_t)(q.vma_end - q.vma_start));
        }
        at = (unsigned char *)(uintptr_t)q.vma_end;
    }
    if (maps < 0) { /* glibc keeps allocation and files usable in a child */
        struct tti_heap_part *parts = NULL;
        size_t count = 0;
        tti_heap_parts(r, &parts, &count, NULL);
        for (size_t i = 0; i < count; i++) {
            make_copy(r, parts[i].begin, parts[i].bytes);
        }
        free(parts);
    }
}

static void in_child(void)
{
    int maps = claimed ? tti_heap_maps_open() : -1;
    for (struct tti_heap_region *r = claimed; r; r = r->next_claimed) {
        if (r->overlaid) {
            copy_region(maps, r);
        }
    }
    if (maps >= 0) {
        close(maps);
    }
    claimed = NULL; /* a grandchild inherits the copies as they are */
}

/* ---- reading the list of mappings -------------------------------------------------------------------------------- */

struct mapping {
    uintptr_t start;
    uintptr_t end;
    char permissions[8];
    uint64_t offset;
    unsigned device_major;
    unsigned device_minor;
    uint64_t inode;
    char name[64];
};

/* False, and *m as before: the line is not that of a mapping. */
static bool parse_mapping(const char *line, struct mapping *m)
{
    struct mapping read = {.name = ""};
    const int fields =
        sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %x:%x %" SCNu64 " %63[^\n]", &read.start, &read.end,
               read.permissions, &read.offset, &read.device_major, &read.device_minor, &read.inode, read.name);
    *m = fields >= 7 ? read : *m;
    return fields >= 7;
}

tutti_status tti_heap_parts(const struct tti_heap_region *region, struct tti_heap_part **parts, size_t *count,
                            tutti_error *error)
{
    char line[512];
    struct mapping m;
    *parts = NULL;
    *count = 0;
    FILE *f = fopen("/proc/thread-self/maps", "re");
    if (!f) {
        return tti_error_system(error, errno, "cannot read /proc/self/maps");
    }
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && fgets(line, sizeof(line), f)) {
        if (!parse_mapping(line, &m) || m.start < (uintptr_t)region->base ||
            m.end > (uintptr_t)region->base + region->bytes || m.permissions[3] != 's' ||
            !is_part(region, m.start, m.offset, m.inode, m.device_major, m.device_minor)) {
            continue;
        }
        struct tti_heap_part *more = realloc(*parts, (*count + 1) * sizeof(*more));
        if (more) {
            *parts = more;
            more[(*count)++] = (struct tti_heap_part){.begin = (unsigned char *)m.start, .bytes = m.end - m.start};
        } else {
            status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory to read /proc/self/maps");
        }
    }
    fclose(f);
    if (status != TUTTI_OK) {
        free(*parts);
        *parts = NULL;
        *count = 0;
    }
    return status;
}

/* Flags of a mapping (VmFlags in /proc/self/smaps) that cannot become heap memory. */
static const struct {
    char flag[4];
    const char *reason;
} refused_flags[] = {
    {" ht", "is made of huge pages of hugetlb"},
    {" lo", "is locked (mlock)"},
    {" gd", "is a stack"},
    {" um", "is watched by userfaultfd"},
    {" uw", "is watched by userfaultfd"},
    {" ui", "is watched by userfaultfd"},
    {" dc", "is kept from forked children (MADV_DONTFORK), as memory is that a device has pinned"},
    {" wf", "is wiped in forked children (MADV_WIPEONFORK)"},
    {" io", "belongs to a device"},
    {" pf", "belongs to a device"},
};

static const char *refuse_mapping(const struct mapping *m)
{
    if (m->permissions[3] == 's') {
        return "is shared already";
    }
    if (m->inode != 0) {
        return "is a mapped file";
    }
    if (strncmp(m->name, "[stack", 6) == 0) {
        return "is a stack";
    }
    return m->permissions[0] == 'r' && m->permissions[1] == 'w' ? NULL : "cannot be read and written";
}

static const char *refuse_flags(const char *line)
{
    for (size_t i = 0; i < sizeof(refused_flags) / sizeof(refused_flags[0]); i++) {
        if (strstr(line, refused_flags[i].flag)) {
            return refused_flags[i].reason;
        }
    }
    return NULL;
}

tutti_status tti_heap_check_range(const unsigned char *begin, size_t bytes, bool *huge, tutti_error *error)
{
    char line[512];
    struct mapping m;
    uintptr_t next = (uintptr_t)begin; /* all in front of it has been found mapped */
    uintptr_t end = next + bytes;
    bool inside = false;
    bool own_stack = (uintptr_t)line >= next && (uintptr_t)line < end; /* those of threads are marked in no list */
    const char *reason = NULL;
    if (own_stack) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "the memory at %p is a stack", (const void *)begin);
    }
    FILE *f = fopen("/proc/thread-self/smaps", "re");
    if (!f) {
        return tti_error_system(error, errno, "cannot read /proc/self/smaps, which says what can be registered");
    }
    *huge = false;
    while (!reason && fgets(line, sizeof(line), f)) {
        if (parse_mapping(line, &m)) {
            inside = m.start < end && m.end > (uintptr_t)begin;
            if (next >= end && !inside) {
                break;
            }
            reason = inside ? refuse_mapping(&m) : NULL;
            next = inside && m.start <= next ? m.end : next;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            reason = refuse_flags(line);
            *huge = *huge || strstr(line, " hg");
        }
    }
    fclose(f);
    if (reason) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "the memory at %p %s", (void *)m.start, reason);
    }
    if (next < end) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "there is no memory at %p", (void *)next);
    }
    return TUTTI_OK;
}
