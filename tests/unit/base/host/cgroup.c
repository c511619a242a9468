/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* The CPU quota of control groups, read from trees of files like those of the kernel and of containers. */
#include "base/host/cgroup.h"

#include "made_tree.h"

#define HYBRID_MOUNTS                                                                                                  \
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                                                       \
    "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                                                \
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"                             \
    "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

/* Version 1: quota and period of a group. */
static void put_pair(const char *group, const char *quota, const char *period)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s/cpu.cfs_quota_us", group);
    put(name, quota);
    snprintf(name, sizeof(name), "%s/cpu.cfs_period_us", group);
    put(name, period);
}

static uint32_t granted(void)
{
    return tti_cgroup_cpus(root).thousandths;
}

static void nothing_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(granted(), 0); /* no /proc */
    put_process("0::/\n", UNIFIED_MOUNT);
    assert_int_equal(granted(), 0); /* the root group has no cpu.max */
    put_process("", "");
    assert_int_equal(granted(), 0);
    put_process("garbage\n::\n0:\n", "also garbage\n - \n - cgroup2\n1 2 - cgroup2 a rw\n");
    assert_int_equal(granted(), 0);
}

static void unified_quota_counts_in_fractions(void **state)
{
    static const struct {
        const char *text;
        uint32_t thousandths;
    } cases[] = {{"150000 100000\n", 1500}, {"max 100000\n", 0},
                 {"100000 100000\n", 1000}, {"1000 100000\n", 10},
                 {"1 1000000\n", 1},        {"400000 50000\n", 8000},
                 {"33333 100000\n", 333},   {"", 0},
                 {"200000\n", 0},           {"-5 100000\n", 0},
                 {"100000 0\n", 0},         {"9223372036854775807 1\n", 1000000000}};
    (void)state;
    put_process("0::/job\n", UNIFIED_MOUNT);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("/sys/fs/cgroup/job/cpu.max", cases[i].text);
        assert_int_equal(granted(), cases[i].thousandths);
    }
}

static void smallest_on_the_path_counts(void **state)
{
    (void)state;
    put_process("0::/a/b/c\n", UNIFIED_MOUNT);
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/c/cpu.max", "300000 100000\n");
    put("/sys/fs/cgroup/other/cpu.max", "1000 100000\n");
    assert_int_equal(granted(), 2500);
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(granted(), 500);
    put("/sys/fs/cgroup/cpu.max", "20000 100000\n"); /* a container's own root has one */
    assert_int_equal(granted(), 200);
}

static void older_version_is_read(void **state)
{
    (void)state;
    put_process("9:cpuset:/other\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/cpu\n0::/elsewhere\n", HYBRID_MOUNTS);
    put_pair("/sys/fs/cgroup/cpu,cpuacct/docker/x", "150000\n", "100000\n");
    put_pair("/sys/fs/cgroup/cpu,cpuacct/docker", "-1\n", "100000\n");
    put_pair("/sys/fs/cgroup/cpu,cpuacct", "-1\n", "100000\n");
    put_pair("/sys/fs/cgroup/cpuset/other", "1000\n", "100000\n"); /* not the hierarchy of CPU time */
    assert_int_equal(granted(), 1500);
    put_pair("/sys/fs/cgroup/cpu,cpuacct/docker", "100000\n", "100000\n");
    assert_int_equal(granted(), 1000);
    put("/sys/fs/cgroup/unified/elsewhere/cpu.max", "75000 100000\n"); /* whichever hierarchy has the controller */
    assert_int_equal(granted(), 750);
}

/* A container without a cgroup namespace: /proc has the host's path, of which only the end is mounted. */
static void only_a_part_is_mounted(void **state)
{
    (void)state;
    put_process("4:cpu:/docker/x/inner\n", "33 31 0:30 /docker/x /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    put_pair("/sys/fs/cgroup/cpu/inner", "300000\n", "100000\n");
    put_pair("/sys/fs/cgroup/cpu", "200000\n", "100000\n");
    put_pair("/sys/fs/cgroup/cpu/docker/x", "1000\n", "100000\n");
    assert_int_equal(granted(), 2000);
    /* a group outside of the mount: then only the mount's own limit is known */
    put_process("4:cpu:/docker/xy\n", "33 31 0:30 /docker/x /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    assert_int_equal(granted(), 2000);
    put_process("0::/../../elsewhere\n", UNIFIED_MOUNT);
    put("/sys/fs/cgroup/cpu.max", "120000 100000\n");
    assert_int_equal(granted(), 1200);
}

static void odd_paths_are_found(void **state)
{
    (void)state;
    put_process("0::/a b:c\n", "30 23 0:26 / /my\\040groups rw - cgroup2 none rw\n");
    put("/my groups/a b:c/cpu.max", "70000 100000\n");
    assert_int_equal(granted(), 700);
    char deep[2 * PATH_MAX];
    memset(deep, 'x', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    memcpy(deep, "0::/", 4);
    put_process(deep, UNIFIED_MOUNT);
    assert_int_equal(granted(), 0);
}

static void sharers_of_a_limit_are_recognised(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/b/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/a/inner/cpu.max", "max 100000\n");
    put_process("0::/a\n", UNIFIED_MOUNT);
    const struct tti_cgroup_cpus a = tti_cgroup_cpus(root);
    put_process("0::/a/inner\n", UNIFIED_MOUNT);
    const struct tti_cgroup_cpus inner = tti_cgroup_cpus(root);
    put_process("0::/b\n", UNIFIED_MOUNT);
    const struct tti_cgroup_cpus b = tti_cgroup_cpus(root);
    assert_true(a.group == inner.group);
    assert_true(a.group != b.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(nothing_is_no_limit),
        TREE_TEST(unified_quota_counts_in_fractions),
        TREE_TEST(smallest_on_the_path_counts),
        TREE_TEST(older_version_is_read),
        TREE_TEST(only_a_part_is_mounted),
        TREE_TEST(odd_paths_are_found),
        TREE_TEST(sharers_of_a_limit_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
