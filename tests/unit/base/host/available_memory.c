/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* The memory that the host and the control groups of this process have left, read from trees of files. */
#include "base/host/available_memory.h"

#include "made_tree.h"

#define UNLIMITED "9223372036854771712\n" /* as version 1 says it */

static void put_in(const char *group, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, name);
    put(path, text);
}

static void put_unified(const char *group, const char *limit, const char *used)
{
    put_in(group, "memory.max", limit);
    put_in(group, "memory.current", used);
}

static void put_older(const char *group, const char *limit, const char *used)
{
    put_in(group, "memory.limit_in_bytes", limit);
    put_in(group, "memory.usage_in_bytes", used);
}

static uint64_t left(void)
{
    return tti_available_memory_read(root).limit;
}

static uint64_t group(void)
{
    return tti_available_memory_read(root).cgroup;
}

static void host_counts_memory_and_swap(void **state)
{
    (void)state;
    assert_true(tti_available_memory_read(root).host == UINT64_MAX);
    put("/proc/meminfo", "MemTotal:       100 kB\nMemAvailable:    7 kB\nSwapCached:      9 kB\n");
    assert_int_equal(tti_available_memory_read(root).host, 7 * 1024);
    put("/proc/meminfo", "MemTotal:       100 kB\nMemAvailable:    7 kB\nSwapFree:        5 kB\n");
    assert_int_equal(tti_available_memory_read(root).host, 12 * 1024);
    put("/proc/meminfo", "MemAvailable:    0 kB\nSwapFree:        0 kB\n");
    assert_int_equal(tti_available_memory_read(root).host, 0);
    assert_true(left() == UINT64_MAX && group() == 0);
}

static void smallest_rest_on_the_path_counts(void **state)
{
    (void)state;
    put_process("0::/a/b/c\n", UNIFIED_MOUNT);
    put_unified("/a/b/c", "max\n", "4096\n");
    assert_true(left() == UINT64_MAX && group() == 0);
    put_unified("/a/b", "50000\n", "4096\n");
    assert_int_equal(left(), 50000 - 4096);
    put_unified("/a", "60000\n", "30000\n");
    put_unified("/other", "100\n", "0\n");
    assert_int_equal(left(), 30000);
    put_unified("/a", "60000\n", "70000\n");
    assert_int_equal(left(), 0);
}

static void caches_can_be_dropped(void **state)
{
    (void)state;
    put_process("0::/a\n", UNIFIED_MOUNT);
    put_unified("/a", "50000\n", "40000\n");
    put_in("/a", "memory.stat", "anon 1\nfile 30000\ninactive_anon 1\ninactive_file 10000\nactive_file 5000\n");
    assert_int_equal(left(), 25000);
    put_in("/a", "memory.stat", "inactive_file 50000\n"); /* read a moment later than the use */
    assert_int_equal(left(), 50000);
}

/* The controller shares its hierarchy with another one: neither the mount nor the line has the name "memory" alone. */
static void older_version_is_read(void **state)
{
    (void)state;
    put_process("9:cpuset:/other\n3:cpu,memory:/job/x\n0::/elsewhere\n",
                "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                "33 31 0:30 / /sys/fs/cgroup/cpu,memory rw shared:9 - cgroup cgroup rw,cpu,memory\n"
                "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put_older("/cpu,memory", UNLIMITED, "90000\n");
    put_older("/cpu,memory/job/x", UNLIMITED, "9000\n");
    assert_true(left() == UINT64_MAX && group() == 0);
    put_older("/cpu,memory/job", "60000\n", "20000\n");
    put_in("/cpu,memory/job", "memory.stat", "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 700\n");
    assert_int_equal(left(), 41000);
}

static void ranks_under_one_limit_share_it(void **state)
{
    (void)state;
    put_unified("/job", "50000\n", "0\n");
    put_unified("/job/a", "max\n", "0\n");
    put_unified("/job/b", "max\n", "0\n");
    put_unified("/job/c", "50000\n", "0\n");
    put_process("0::/job/a\n", UNIFIED_MOUNT);
    const uint64_t a = group();
    put_process("0::/job/b\n", UNIFIED_MOUNT);
    const uint64_t b = group();
    put_process("0::/job/c\n", UNIFIED_MOUNT);
    const uint64_t c = group();
    assert_true(a != 0 && a == b);
    assert_true(c != 0 && c != a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(host_counts_memory_and_swap),    TREE_TEST(smallest_rest_on_the_path_counts),
        TREE_TEST(caches_can_be_dropped),          TREE_TEST(older_version_is_read),
        TREE_TEST(ranks_under_one_limit_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
