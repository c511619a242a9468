/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hop: ranks 0 and 1 store into a line of their own and wait for the other's, again and again, as the smallest
 * all_reduce of two ranks would. What one such exchange takes tells where the two run: virtual CPUs may be threads of one
 * core in one minute and lie far apart in the next, and times of both states must not be compared.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/roofline.h"

#define LINE      128 /* two cache lines, which some CPUs fetch together */
#define PAGE      4096
#define TRIALS    16
#define EXCHANGES 32                  /* in a trial */
#define BUDGET_NS INT64_C(1000000)    /* for all of them: ranks that share a CPU take microseconds for each */
#define PATIENCE  INT64_C(2000000000) /* ns; then the other rank is thought to be gone */
#define YIELD     256                 /* looks at the other's line between two yields: it may need this CPU ... */
#define ASK_CLOCK 4096                /* ... and between two at the clock */

struct tti_hop_page {
    struct {
        _Alignas(LINE) _Atomic(uint64_t) word; /* release by its rank, acquire by the other */
    } lines[2];
};

/* A word: the number of the exchange, and whether rank 0 wants no more behind it. */
static uint64_t word_of(uint64_t sequence, bool last)
{
    return sequence * 2 + last;
}

static struct tti_hop_page *shared_memory(int *descriptor)
{
    *descriptor = memfd_create("tutti-bench-hop", MFD_CLOEXEC);
    if (*descriptor < 0 || ftruncate(*descriptor, PAGE) != 0) {
        return NULL;
    }
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *descriptor, 0);
    return page == MAP_FAILED ? NULL : page;
}

static struct tti_hop_page *memory_of(int64_t process, int64_t descriptor)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)process, (long long)descriptor);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) {
        close(file);
    }
    return page == MAP_FAILED ? NULL : page;
}

/* Threads: rank 0 tells the address. */
static tutti_status open_threads(struct tti_bench *b, struct tti_hop *hop)
{
    hop->page = b->rank == 0 ? aligned_alloc(LINE, PAGE) : NULL;
    for (int i = 0; hop->page && i < 2; i++) {
        atomic_init(&hop->page->lines[i].word, 0);
    }
    int64_t address = (int64_t)(uintptr_t)hop->page;
    const tutti_status status = tti_bench_agree(b, &address, 1, TUTTI_SUM);
    hop->page = status == TUTTI_OK || b->rank == 0 ? (struct tti_hop_page *)(uintptr_t)address : NULL;
    return status;
}

/* Processes: rank 0 tells how its memory file can be opened, and keeps it open until rank 1 has. */
static tutti_status open_processes(struct tti_bench *b, struct tti_hop *hop)
{
    int file = -1;
    int64_t where[2] = {0, 0};
    hop->mapped = true;
    if (b->rank == 0) {
        hop->page = shared_memory(&file);
        where[0] = getpid();
        where[1] = file;
    }
    tutti_status status = tti_bench_agree(b, where, 2, TUTTI_SUM);
    if (status == TUTTI_OK && b->rank == 1) {
        hop->page = memory_of(where[0], where[1]);
    }
    int64_t opened = 1;
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &opened, 1, TUTTI_MIN);
    }
    if (file >= 0) {
        close(file);
    }
    return status;
}

tutti_status tti_hop_open(struct tti_bench *b, struct tti_hop *hop)
{
    const uint32_t capabilities = tutti_group_capabilities(b->group);
    *hop = (struct tti_hop){0};
    if (b->size < 2 || !(capabilities & (TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_ONE_HOST))) {
        return TUTTI_OK;
    }
    tutti_status status = capabilities & TUTTI_CAP_ONE_PROCESS ? open_threads(b, hop) : open_processes(b, hop);
    int64_t known = hop->page || b->rank > 1;
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &known, 1, TUTTI_MIN);
    }
    hop->known = status == TUTTI_OK && known;
    return status;
}

void tti_hop_close(struct tti_bench *b, struct tti_hop *hop)
{
    if (hop->page && hop->mapped) {
        munmap(hop->page, PAGE);
    } else if (hop->page && b->rank == 0) {
        free(hop->page);
    }
    hop->page = NULL;
    hop->known = false;
}

/* The other's word, once it has come as far; 0 if it does not come. */
static uint64_t wait_for(const struct tti_bench *b, const _Atomic(uint64_t) *other, uint64_t sequence)
{
    int64_t since = 0;
    for (uint64_t looks = 1;; looks++) {
        const uint64_t word = atomic_load_explicit(other, memory_order_acquire);
        if (word >= word_of(sequence, false)) {
            return word;
        }
        if (b->shares_cpu || looks % YIELD == 0) {
            sched_yield();
        }
        if (looks % ASK_CLOCK == 0) {
            const int64_t now = tti_now_ns();
            since = since == 0 ? now : since;
            if (now - since > PATIENCE) {
                return 0;
            }
        }
    }
}

/*
 * The quickest of a few trials, in picoseconds; INT64_MAX if the other rank does not come. Rank 0 says when it is enough.
 * Rank 1 may see that one exchange early, when rank 0 is there already, but only one: rank 0 waits for it in each.
 */
static int64_t run_trials(const struct tti_bench *b, struct tti_hop *hop)
{
    _Atomic(uint64_t) *mine = &hop->page->lines[b->rank].word;
    const _Atomic(uint64_t) *other = &hop->page->lines[1 - b->rank].word;
    const int64_t begin = tti_now_ns();
    int64_t best = INT64_MAX - 1;
    int64_t start = begin;
    uint64_t last = UINT64_MAX;
    for (int done = 1; hop->sequence != last; done++) {
        const bool enough = done == TRIALS * EXCHANGES || (done % EXCHANGES == 0 && start - begin > BUDGET_NS);
        hop->sequence++;
        last = b->rank == 0 && enough ? hop->sequence : last;
        atomic_store_explicit(mine, word_of(hop->sequence, b->rank == 0 && enough), memory_order_release);
        const uint64_t word = wait_for(b, other, hop->sequence);
        if (word == 0) {
            return INT64_MAX;
        }
        last = word % 2 == 1 ? word / 2 : last;
        if (done % EXCHANGES == 0) {
            const int64_t now = tti_now_ns();
            const int64_t each = (now - start) * 1000 / EXCHANGES;
            best = each < best ? each : best;
            start = now;
        }
    }
    return best;
}

tutti_status tti_hop_measure(struct tti_bench *b, struct tti_hop *hop, double *ns)
{
    *ns = 0;
    if (!hop->known) {
        return TUTTI_OK;
    }
    int64_t start;
    tutti_status status = tti_bench_meet(b, &start);
    int64_t each = status == TUTTI_OK && b->rank < 2 ? run_trials(b, hop) : 0;
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &each, 1, TUTTI_MAX);
    }
    hop->known = status == TUTTI_OK && each != INT64_MAX;
    *ns = hop->known ? (double)each / 1000 : 0;
    return status;
}
