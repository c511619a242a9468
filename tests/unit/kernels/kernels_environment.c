/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's floating-point environment neither changes a result nor is changed; TUTTI_ISA lowers the set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels_inputs.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

static uint64_t control_read(void)
{
    return _mm_getcsr();
}

static void control_write(uint64_t value)
{
    _mm_setcsr((unsigned)value);
}

/* Flush to zero and denormals are zero; round up; round to zero with flags raised; traps for invalid and overflow. */
static const uint64_t environments[] = {0x9fc0, 0x5f80, 0x7fbf, 0x1f80 & ~0x0480u};

#else

static uint64_t control_read(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static void control_write(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

/* Flush to zero; round up; round to zero. */
static const uint64_t environments[] = {1u << 24, 1u << 22, 3u << 22};

#endif

enum { COUNT = 100, SOURCES = 3 };

static uint64_t inputs[SOURCES][COUNT];

static void fold(tutti_dtype dtype, tutti_reduce_op op, const double *scales, uint64_t *out)
{
    const void *src[SOURCES] = {inputs[0], inputs[1], inputs[2]};
    const struct tti_fold how = {.dtype = dtype, .op = op, .scales = scales};
    memset(out, 0, COUNT * sizeof(*out));
    tti_fold(out, src, SOURCES, COUNT, &how);
}

static void test_environment(void **unused)
{
    (void)unused;
    const uint64_t standard = control_read();
    const double scales[SOURCES] = {1.0 / 3, 0.1, -0.7};
    uint64_t state = 3;
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        for (size_t k = 0; k < SOURCES; k++) {
            for (size_t i = 0; i < COUNT; i++) {
                store_element(inputs[k], i, tutti_dtype_size(dtype), random_element(dtype, &state));
            }
        }
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (!tutti_reduce_op_valid(op, dtype)) {
                continue;
            }
            uint64_t wanted[COUNT];
            fold(dtype, op, scales, wanted);
            for (size_t e = 0; e < sizeof(environments) / sizeof(environments[0]); e++) {
                uint64_t got[COUNT];
                control_write(environments[e]);
                fold(dtype, op, scales, got);
                const uint64_t after = control_read();
                control_write(standard);
                assert_int_equal(after, environments[e]);
                if (memcmp(got, wanted, sizeof(got)) != 0) {
                    fail_msg("%s %s under environment 0x%llx", tutti_dtype_name(dtype), tutti_reduce_op_name(op),
                             (unsigned long long)environments[e]);
                }
            }
        }
    }
}

/* Proves that the test above can fail: these environments change results where kernels do not undo them. */
static void test_environments_matter(void **unused)
{
    (void)unused;
    const uint64_t standard = control_read();
    volatile float tiny = 0x1p-140f;
    volatile float tenth = 0.1f;
    const float added = tiny + tenth;
    const float doubled = tiny + tiny;
    control_write(environments[0]);
    volatile float flushed = tiny + tiny;
    control_write(environments[1]);
    volatile float up = tiny + tenth;
    control_write(standard);
    assert_true(doubled != flushed);
    assert_true(added != up);
}

/* The result of tti_kernels_isa in a fresh process: the variable is read once. Call it before this process has read
 * it. */
static int isa_rank_with(const char *value)
{
    const pid_t child = fork();
    if (child == 0) {
        if (value) {
            setenv("TUTTI_ISA", value, 1);
        } else {
            unsetenv("TUTTI_ISA");
        }
        const char *isa = tti_kernels_isa();
        _exit(strcmp(isa, "base") == 0 ? 0 : strcmp(isa, "avx2") == 0 ? 1 : strcmp(isa, "avx512") == 0 ? 2 : 3);
    }
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_isa_from_the_environment(void **unused)
{
    (void)unused;
    const int best = isa_rank_with(NULL);
    assert_in_range(best, 0, 2);
    assert_int_equal(isa_rank_with("base"), 0);
    assert_int_equal(isa_rank_with("avx2"), best < 1 ? best : 1);
    assert_int_equal(isa_rank_with("avx512"), best);
    assert_int_equal(isa_rank_with("nonsense"), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isa_from_the_environment), /* first: forks before anything has chosen */
        cmocka_unit_test(test_environments_matter),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
