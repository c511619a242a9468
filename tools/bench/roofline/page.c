/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that all ranks share, for measurements without the library. */
#include "bench/roofline/roofline.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)TTI_ROOFLINE_PAGE)

static unsigned char *map(int file)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static unsigned char *create_file(int *file)
{
    *file = memfd_create("tutti-bench", MFD_CLOEXEC);
    return *file < 0 || ftruncate(*file, (off_t)BYTES) != 0 ? NULL : map(*file);
}

static unsigned char *open_file(int64_t process, int64_t descriptor)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)process, (long long)descriptor);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    unsigned char *memory = file < 0 ? NULL : map(file);
    if (file >= 0) {
        close(file);
    }
    return memory;
}

/* Threads: rank 0 sends the address. */
static bool open_threads(struct tti_bench *b, struct tti_roofline_page *page)
{
    unsigned char *memory = b->rank == 0 ? aligned_alloc(BYTES, BYTES) : NULL;
    if (memory) {
        memset(memory, 0, BYTES);
    }
    int64_t address = (int64_t)(uintptr_t)memory;
    const bool good = tti_bench_agree(b, &address, 1, TUTTI_SUM);
    page->memory = good || b->rank == 0 ? (unsigned char *)(uintptr_t)address : NULL;
    return good;
}

/* Processes: rank 0 sends the path of its memory file, and keeps it open until all have opened it. */
static bool open_processes(struct tti_bench *b, struct tti_roofline_page *page)
{
    int file = -1;
    int64_t where[2] = {0, 0};
    page->mapped = true;
    if (b->rank == 0) {
        page->memory = create_file(&file);
        where[0] = getpid();
        where[1] = file;
    }
    bool good = tti_bench_agree(b, where, 2, TUTTI_SUM);
    if (good && b->rank != 0) {
        page->memory = open_file(where[0], where[1]);
    }
    int64_t opened = page->memory != NULL;
    good = good && tti_bench_agree(b, &opened, 1, TUTTI_MIN);
    if (file >= 0) {
        close(file);
    }
    if (good && !opened) {
        tti_roofline_page_close(b, page);
    }
    return good;
}

bool tti_roofline_page_open(struct tti_bench *b, struct tti_roofline_page *page)
{
    const uint32_t capabilities = tutti_group_capabilities(b->group);
    *page = (struct tti_roofline_page){0};
    if (b->size < 2 || !(capabilities & (TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_ONE_HOST))) {
        return true;
    }
    return capabilities & TUTTI_CAP_ONE_PROCESS ? open_threads(b, page) : open_processes(b, page);
}

void tti_roofline_page_close(const struct tti_bench *b, struct tti_roofline_page *page)
{
    if (page->memory && page->mapped) {
        munmap(page->memory, BYTES);
    } else if (page->memory && b->rank == 0) {
        free(page->memory);
    }
    page->memory = NULL;
}
