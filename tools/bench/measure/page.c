/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 makes a file in memory and keeps it open until all ranks, processes or threads, have opened it by its path in
 * /proc. */
#include "bench/measure/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/measure/agree.h"

#define BYTES ((size_t)TTI_BENCH_PAGE)

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

bool tti_bench_page_open(struct tti_bench *b, struct tti_bench_page *page)
{
    int file = -1;
    int64_t where[2] = {0, 0};
    page->memory = NULL;
    if (b->size < 2 || !(tutti_group_capabilities(b->group) & (TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_ONE_HOST))) {
        return true;
    }
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
        tti_bench_page_close(page);
    }
    return good;
}

void tti_bench_page_close(struct tti_bench_page *page)
{
    if (page->memory) {
        munmap(page->memory, BYTES);
        page->memory = NULL;
    }
}
