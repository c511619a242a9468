/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=120 trees=release,debug,address,undefined */
/*
 * tutti_register and tutti_unregister between processes: every kind of memory keeps its content through both calls;
 * memory that cannot be registered is refused on all ranks with the reason; a forked child has a copy.
 */
#include "heap_support.h"
#include "time_limits.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without the check of threads that thread sanitizer makes at an exit: only the parent can join threads that have
 * ended. */
__attribute__((noreturn)) static void end_child(int code)
{
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

#define PAGE ((size_t)4096)

static unsigned char in_bss[20 * 4096];
static unsigned char in_data[20 * 4096] = {1};

static unsigned char *pages_with(size_t bytes, int protection, int flags)
{
    unsigned char *memory = mmap(NULL, bytes, protection, MAP_ANONYMOUS | flags, -1, 0);
    EXPECT(memory != MAP_FAILED);
    return memory;
}

static unsigned char *pages(size_t bytes)
{
    return pages_with(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void fill(unsigned char *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)(i * 31 + i / PAGE + (size_t)seed);
    }
}

static int is_filled(const unsigned char *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != (unsigned char)(i * 31 + i / PAGE + (size_t)seed)) {
            return 0;
        }
    }
    return 1;
}

/* There and back, with sums in between. */
static void through(tutti_group *g, unsigned char *memory, size_t bytes)
{
    int rank = tutti_group_rank(g);
    unsigned char *floats = memory + (16 - (uintptr_t)memory % 16) % 16;
    fill(memory, bytes, rank);
    EXPECT_OK(tutti_register(g, memory, bytes, &err));
    EXPECT(is_filled(memory, bytes, rank));
    if (bytes >= 64) {
        check_sum(g, floats, (bytes - 16) / sizeof(float));
        check_sum(g, floats, 10);
    }
    fill(memory, bytes, rank + 1);
    EXPECT_OK(tutti_unregister(g, memory, &err));
    EXPECT(is_filled(memory, bytes, rank + 1));
    if (bytes >= 64) {
        check_sum(g, floats, (bytes - 16) / sizeof(float));
    }
}

static void all_kinds(tutti_group *g)
{
    size_t large = (7 << 20) + 1234;
    unsigned char *mapped = pages(large);
    unsigned char *big = malloc(large);
    unsigned char *small = malloc(100000);
    unsigned char *advised = pages(large);
    madvise(advised, large, MADV_HUGEPAGE);
    through(g, mapped, large);
    through(g, mapped + 100, 3 * PAGE);
    through(g, mapped + 100, 2 * PAGE - 200);
    through(g, mapped + PAGE, PAGE);
    through(g, mapped + 1, PAGE + 5);
    through(g, mapped, 0);
    through(g, NULL, 0);
    through(g, big, large);
    through(g, small, 100000);
    through(g, in_bss, sizeof(in_bss));
    through(g, advised, large);
    through(g, mapped, large);
    munmap(mapped, large);
    munmap(advised, large);
    free(small);
    free(big);
    void *again = malloc(large); /* the allocator has noticed nothing */
    memset(again, 1, large);
    free(again);
}

/* Different ranges on the ranks: none, less than a page, and more each. */
static void own_sizes(tutti_group *g)
{
    static const size_t sizes[] = {5 * 4096 + 77, 0, 100, 3 << 20};
    size_t bytes = sizes[tutti_group_rank(g)];
    unsigned char *memory = bytes ? malloc(bytes) : NULL;
    fill(memory, bytes, 3);
    EXPECT_OK(tutti_register(g, memory, bytes, &err));
    EXPECT(is_filled(memory, bytes, 3));
    EXPECT_OK(tutti_unregister(g, memory, &err));
    EXPECT(is_filled(memory, bytes, 3));
    free(memory);
}

/* The last rank registers this, the others valid memory: all get the error, and all memory stays as it was. */
static void refuse(tutti_group *g, unsigned char *bad, size_t bytes, tutti_status want, const char *reason, int line)
{
    int32_t last = tutti_group_size(g) - 1;
    unsigned char *sound = pages(8 * PAGE);
    char name[24];
    snprintf(name, sizeof(name), "rank %d", last);
    fill(sound, 8 * PAGE, 1);
    tutti_status got =
        tutti_group_rank(g) == last ? tutti_register(g, bad, bytes, &err) : tutti_register(g, sound, 8 * PAGE, &err);
    expect_that(got == want && strstr(err.message, reason) && strstr(err.message, name) && err.suspect == last, line,
                reason);
    EXPECT(is_filled(sound, 8 * PAGE, 1));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not registered", tutti_unregister(g, sound, &err));
    EXPECT_OK(tutti_register(g, sound, 8 * PAGE, &err));
    EXPECT_OK(tutti_unregister(g, sound, &err));
    munmap(sound, 8 * PAGE);
}

#define REFUSE(bad, bytes, want, reason) refuse(g, (bad), (bytes), (want), (reason), __LINE__)

static void refused_by_kind(tutti_group *g)
{
    size_t bytes = 4 * PAGE;
    int fd = memfd_create("file", 0);
    EXPECT(ftruncate(fd, (off_t)bytes) == 0);
    unsigned char *file = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    REFUSE(file, bytes, TUTTI_UNSUPPORTED, "a mapped file");
    REFUSE(in_data, sizeof(in_data), TUTTI_UNSUPPORTED, "a mapped file");
    REFUSE(pages_with(bytes, PROT_READ | PROT_WRITE, MAP_SHARED), bytes, TUTTI_UNSUPPORTED, "shared already");
    REFUSE(pages_with(bytes, PROT_READ, MAP_PRIVATE), bytes, TUTTI_UNSUPPORTED, "cannot be read and written");
    REFUSE(pages_with(bytes, PROT_NONE, MAP_PRIVATE), bytes, TUTTI_UNSUPPORTED, "cannot be read and written");
    unsigned char *locked = pages(bytes);
    if (syscall(SYS_mlock, locked + PAGE, PAGE) == 0) { /* sanitizers make a function of that name do nothing */
        char reason[60] = "is locked";
        if (tutti_group_rank(g) == tutti_group_size(g) - 1) {
            snprintf(reason, sizeof(reason), "the memory at %p is locked", (void *)(locked + PAGE));
        }
        REFUSE(locked, bytes, TUTTI_UNSUPPORTED, reason);
        syscall(SYS_munlock, locked + PAGE, PAGE);
        through(g, locked, bytes);
    }
    unsigned char *apart = pages(bytes);
    madvise(apart, PAGE, MADV_DONTFORK);
    REFUSE(apart, bytes, TUTTI_UNSUPPORTED, "kept from forked children");
    madvise(apart, PAGE, MADV_DOFORK);
    madvise(apart, PAGE, MADV_WIPEONFORK);
    REFUSE(apart, bytes, TUTTI_UNSUPPORTED, "wiped in forked children");
    unsigned char *hole = pages(bytes);
    munmap(hole + PAGE, PAGE);
    REFUSE(hole, bytes, TUTTI_INVALID_ARGUMENT, "no memory at");
    REFUSE((unsigned char *)PAGE, bytes, TUTTI_INVALID_ARGUMENT, "no memory at");
    unsigned char on_stack[16 * 4096];
    REFUSE(on_stack, sizeof(on_stack), TUTTI_UNSUPPORTED, "a stack");
    unsigned char *huge = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    int32_t can = huge != MAP_FAILED; /* only where huge pages are reserved */
    EXPECT_OK(tutti_broadcast(g, &(DLTensor){.data = &can, .device = {kDLCPU, 0}, .dtype = {kDLInt, 32, 1}},
                              tutti_group_size(g) - 1, NULL));
    if (can) {
        REFUSE(huge, 2 << 20, TUTTI_UNSUPPORTED, "hugetlb");
    }
    REFUSE((unsigned char *)(UINT64_C(1) << 60), bytes, TUTTI_UNSUPPORTED, "too high");
    munmap(file, bytes);
    close(fd);
}

static void refused_by_state(tutti_group *g)
{
    size_t bytes = 16 * PAGE;
    unsigned char *memory = pages(bytes);
    unsigned char *block = NULL;
    EXPECT_OK(tutti_alloc(g, bytes, (void **)&block, &err));
    EXPECT_OK(tutti_register(g, memory + 4 * PAGE, 4 * PAGE, &err));
    REFUSE(memory + 4 * PAGE, 4 * PAGE, TUTTI_INVALID_ARGUMENT, "registered or allocated");
    REFUSE(memory, 5 * PAGE, TUTTI_INVALID_ARGUMENT, "registered or allocated");
    REFUSE(memory + 7 * PAGE, 5 * PAGE, TUTTI_INVALID_ARGUMENT, "registered or allocated");
    REFUSE(memory, bytes, TUTTI_INVALID_ARGUMENT, "registered or allocated");
    REFUSE(block, bytes, TUTTI_INVALID_ARGUMENT, "registered or allocated");
    EXPECT_OK(tutti_register(g, memory, 4 * PAGE, &err));
    EXPECT_OK(tutti_register(g, memory + 8 * PAGE, 4 * PAGE, &err));
    check_sum(g, memory, 10 * PAGE / sizeof(float)); /* over three regions: private, and right */
    check_sum(g, memory + 5 * PAGE, PAGE / sizeof(float));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not registered", tutti_unregister(g, memory + PAGE, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "rank 0",
                 tutti_unregister(g, tutti_group_rank(g) == 0 ? block : memory, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, memory, &err)); /* before it is unregistered */
    EXPECT_OK(tutti_unregister(g, memory, &err));
    EXPECT_OK(tutti_unregister(g, memory + 4 * PAGE, &err));
    check_sum(g, memory, bytes / sizeof(float));
    EXPECT_OK(tutti_unregister(g, memory + 8 * PAGE, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "NULL", tutti_register(g, NULL, 10, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "beyond", tutti_register(g, memory, SIZE_MAX - 10, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "NULL", tutti_register(NULL, memory, 10, &err));
    EXPECT_OK(tutti_free(g, block, &err));
    munmap(memory, bytes);
}

static int child_ends(pid_t pid)
{
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Parent and child do not see what the other writes; parts that the program has replaced are not touched. */
static void forked(tutti_group *g)
{
    size_t bytes = 600 * PAGE;
    unsigned char *memory = pages(bytes);
    fill(memory, bytes, 1);
    EXPECT_OK(tutti_register(g, memory, bytes, &err));
    unsigned char *replaced =
        mmap(memory + 10 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    replaced[0] = 99;
    pid_t pid = fork();
    if (pid == 0) {
        int right = is_filled(memory, 10 * PAGE, 1) && replaced[0] == 99 && replaced[1] == 0;
        memset(memory, 7, bytes);
        right = right && tutti_unregister(g, memory, &err) == TUTTI_FORKED;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            end_child(memory[0] == 7 && memory[bytes - 1] == 7 ? 0 : 1);
        }
        end_child(right && child_ends(grandchild) ? 0 : 1);
    }
    EXPECT(child_ends(pid));
    EXPECT(is_filled(memory, 10 * PAGE, 1) && replaced[0] == 99);
    EXPECT_OK(tutti_unregister(g, memory, &err));
    EXPECT(is_filled(memory, 10 * PAGE, 1) && replaced[0] == 99);
    munmap(memory, bytes);
}

/* Through sub-groups: a group only uses memory that all its ranks have registered. */
static void sub_groups(tutti_group *g)
{
    int32_t rank = tutti_group_rank(g);
    tutti_group *pair = NULL;
    size_t count = 100000;
    unsigned char *memory = pages(count * sizeof(float));
    EXPECT_OK(tutti_group_split(g, rank / 2, rank, NULL, &pair, &err));
    EXPECT_OK(tutti_register(pair, memory, count * sizeof(float), &err));
    check_sum(pair, memory, count);
    check_sum(g, memory, count);
    EXPECT_OK(tutti_unregister(pair, memory, &err));
    EXPECT_OK(tutti_register(g, memory, count * sizeof(float), &err));
    check_sum(pair, memory, count);
    check_sum(g, memory, count);
    EXPECT_OK(tutti_group_destroy(pair, &err));
    EXPECT_OK(tutti_unregister(g, memory, &err));
    munmap(memory, count * sizeof(float));
}

/* Memory that a pending message needs stays where it is, in every group. */
static void used_by_messages(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    const int64_t count = 100000;
    const size_t bytes = (size_t)count * sizeof(int32_t);
    int32_t *memory = (int32_t *)pages(bytes);
    DLTensor tensor = tutti_tensor_1d(memory, &count, TUTTI_I32);
    tutti_group *pair = NULL;
    EXPECT_OK(tutti_group_split(world, rank / 2, rank, NULL, &pair, &err));
    for (int round = 0; round < 4; round++) { /* rank 0 sends or receives, in the world or in its pair */
        tutti_group *g = round & 1 ? pair : world;
        const bool sends = round & 2;
        tutti_work *work = NULL;
        memory[count - 1] = rank;
        EXPECT_OK(tutti_register(world, memory, bytes, &err));
        if (rank == 0 && sends) {
            EXPECT_OK(tutti_send_async(g, &tensor, 1, round, TUTTI_CALL(.error = &err), &work));
        } else if (rank == 0) {
            EXPECT_OK(tutti_recv_async(g, &tensor, 1, round, TUTTI_CALL(.error = &err), NULL, &work));
        }
        EXPECT_ERROR(TUTTI_BUSY, "rank 0: a message", tutti_unregister(world, memory, &err));
        if (rank == 1 && sends) {
            EXPECT_OK(tutti_recv(g, &tensor, 0, round, TUTTI_CALL(.error = &err), NULL));
        } else if (rank == 1) {
            EXPECT_OK(tutti_send(g, &tensor, 0, round, TUTTI_CALL(.error = &err)));
        }
        if (work) {
            EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
            tutti_work_release(work);
        }
        EXPECT_OK(tutti_unregister(world, memory, &err));
        EXPECT(memory[count - 1] == (rank < 2 ? !sends : rank));
    }
    EXPECT_OK(tutti_group_destroy(pair, &err));
    munmap(memory, bytes);
}

/* A group that has failed, or is destroyed, gives the memory back, too. */
static void without_the_others(tutti_group *world)
{
    tutti_group *g = NULL;
    int32_t rank = tutti_group_rank(world);
    unsigned char *memory = pages(40 * PAGE);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = 10000), &g, &err));
    fill(memory, 40 * PAGE, 4);
    EXPECT_OK(tutti_register(g, memory, 40 * PAGE, &err));
    EXPECT_OK(tutti_barrier(world, NULL));
    if (rank > 0) {
        EXPECT(tutti_unregister(g, memory, &err) == TUTTI_TIMEOUT && err.suspect == 0);
        EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "", tutti_free(g, memory, &err));
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, &err));
    EXPECT(is_filled(memory, 40 * PAGE, 4));
    pid_t pid = fork(); /* nothing of it is left */
    if (pid == 0) {
        memset(memory, 1, 40 * PAGE);
        end_child(0);
    }
    EXPECT(child_ends(pid));
    EXPECT(is_filled(memory, 40 * PAGE, 4));
    munmap(memory, 40 * PAGE);
}

int main(void)
{
    tutti_group *world = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm"), &world, &err));
    if (failures == 0) {
        all_kinds(world);
        own_sizes(world);
        refused_by_kind(world);
        refused_by_state(world);
        forked(world);
        sub_groups(world);
        used_by_messages(world);
        without_the_others(world);
        all_kinds(world);
    }
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
