/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/* The drivers cuda and rocm: properties of devices, and libraries that are present, old, or missing. */
#include "device_support.h"

static void facts(void)
{
    unsigned char first[TTI_DEVICE_UUID];
    unsigned char second[TTI_DEVICE_UUID];
    char name[128] = "";
    char small[4] = "xyz";
    int32_t version = 0;
    OK(d->version(&version, &error));
    CHECK(version == (is_cuda ? 12030 : 60300000));
    OK(d->name_of(1, name, sizeof(name), &error));
    CHECK(strlen(name) > 3);
    OK(d->name_of(1, small, sizeof(small), &error));
    CHECK(strlen(small) < sizeof(small) && strncmp(name, small, strlen(small)) == 0);
    OK(d->uuid_of(0, first, &error));
    OK(d->uuid_of(1, second, &error));
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    OK(d->uuid_of(0, second, &error));
    CHECK(memcmp(first, second, sizeof(first)) == 0);
    CHECK(d->name_of(4, name, sizeof(name), &error) == TUTTI_INVALID_ARGUMENT);
    CHECK(d->uuid_of(4, first, &error) == TUTTI_INVALID_ARGUMENT);
}

/* The driver is not available: `available` and every other function give a reason that contains `argument`. */
static void unavailable(const char *argument)
{
    struct tti_device_scope scope;
    unsigned char uuid[TTI_DEVICE_UUID];
    char why[256] = "";
    char again[256] = "";
    char cut[8] = "";
    DLDevice device = {kDLMetal, 5};
    int32_t version = -1;
    CHECK(d->available(why, sizeof(why)) == 0);
    if (!strstr(why, argument)) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", argument, why);
        exit(1);
    }
    CHECK(d->available(again, sizeof(again)) == 0 && strcmp(why, again) == 0);
    CHECK(d->available(cut, sizeof(cut)) == 0 && strlen(cut) == 7 && strncmp(cut, why, 7) == 0);
    CHECK(d->available(NULL, 0) == 0);
    CHECK(d->count() == 0);
    CHECK(d->enter(0, &scope, &error) == TUTTI_NOT_AVAILABLE && strstr(error.message, argument));
    CHECK(d->lookup(why, &device, &error) == TUTTI_NOT_AVAILABLE && device.device_id == 5);
    CHECK(d->version(&version, &error) == TUTTI_NOT_AVAILABLE && version == -1);
    CHECK(d->name_of(0, why, sizeof(why), &error) == TUTTI_NOT_AVAILABLE);
    CHECK(d->uuid_of(0, uuid, &error) == TUTTI_NOT_AVAILABLE);
}

/* An older library lacks some functions; the driver uses the others. */
static void old(void)
{
    struct tti_device_scope scope;
    unsigned char uuid[TTI_DEVICE_UUID];
    uint32_t *gate;
    void *stream;
    OK(d->uuid_of(0, uuid, &error));
    OK(d->enter(0, &scope, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->alloc_host(sizeof(*gate), (void **)&gate, &error));
    *gate = 0;
    CHECK(d->stream_wait_word(stream, gate, 1, &error) == TUTTI_UNSUPPORTED);
    OK(d->free_host(gate, &error));
    OK(d->stream_destroy(stream, &error));
    d->leave(&scope);
}

/* The process has opened another library of that kind itself, from a later place in the order. */
static void loaded(const char *soname)
{
    int32_t version = 0;
    CHECK(dlopen(soname, RTLD_NOW | RTLD_LOCAL));
    OK(d->version(&version, &error));
    CHECK(version / 10000000 == 6);
}

static const struct scenario scenarios[] = {
    {"facts", facts, NULL},
    {"unavailable", NULL, unavailable},
    {"old", old, NULL},
    {"loaded", NULL, loaded},
};

static void test_facts(void **state)
{
    static const struct run runs[] = {{"facts", "cuda", "cuda", "version=12030", NULL},
                                      {"facts", "rocm", "hip6", "version=60300000", NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_unavailable(void **state)
{
    static const struct run runs[] = {
        {"unavailable", "cuda", "/nonexistent/libcuda.so.1", NULL, "no driver: /nonexistent/libcuda.so.1: cannot open"},
        {"unavailable", "cuda", "/nonexistent/libcuda.so.1", NULL, "TUTTI_CUDA_LIBRARY"},
        {"unavailable", "rocm", "/nonexistent/libamdhip64.so", NULL,
         "no driver: /nonexistent/libamdhip64.so: cannot open"},
        {"unavailable", "rocm", "/nonexistent/libamdhip64.so", NULL, "TUTTI_HIP_LIBRARY"},
        {"unavailable", "cuda", "libm.so.6", NULL, "libm.so.6 has no cuInit"},
        {"unavailable", "rocm", "libm.so.6", NULL, "libm.so.6 has no hipRuntimeGetVersion"},
        {"unavailable", "cuda", "cuda", "devices=0", "CUDA_ERROR_NO_DEVICE, 100"},
        {"unavailable", "rocm", "hip6", "devices=0", "hipErrorNoDevice, 100"},
        {"unavailable", "cuda", "cuda", "init=34", "cuInit failed: "},
        {"unavailable", "cuda", "cuda", "init=34", "(CUDA_ERROR_STUB_LIBRARY, 34)"},
        {"unavailable", "cuda", "cuda", "fail=cuDeviceGetCount=3", "cuDeviceGetCount failed: "},
        {"unavailable", "rocm", "hip6", "fail=hipGetDeviceCount=101", "(hipErrorInvalidDevice, 101)"},
        {"old", "cuda", "cuda_old", NULL, NULL},
        {"unavailable", "rocm", "hip_old", NULL, "libamdhip64.so.5 has no hip"}};
    (void)state;
    CHECK_RUNS(runs);
}

/* Without the variables: the loader's search path. A library that the process has loaded comes before a newer one. */
static void test_search(void **state)
{
    static const struct run found[] = {{"facts", "cuda", "", "version=12030", NULL},
                                       {"loaded", "rocm", "", NULL, "libamdhip64.so.6"}};
    static const struct run next[] = {{"facts", "rocm", "", "version=60300000", NULL}};
    static const struct run missing[] = {
        {"unavailable", "cuda", "", NULL, "no driver: libcuda.so.1: cannot open shared object file"},
        {"unavailable", "rocm", "", NULL, "no driver: libamdhip64.so.7: cannot open shared object file"}};
    const char *build = getenv("TUTTI_BUILD");
    const char *before = getenv("LD_LIBRARY_PATH");
    char *saved = before ? strdup(before) : NULL;
    char paths[8192];
    (void)state;
    snprintf(paths, sizeof(paths), "%s/tests/doubles/cuda:%s/tests/doubles/hip7:%s/tests/doubles/hip6", build, build,
             build);
    setenv("LD_LIBRARY_PATH", paths, 1);
    CHECK_RUNS(found);
    snprintf(paths, sizeof(paths), "%s/tests/doubles/hip6", build);
    setenv("LD_LIBRARY_PATH", paths, 1);
    CHECK_RUNS(next);
    if (saved) {
        setenv("LD_LIBRARY_PATH", saved, 1);
        free(saved);
    } else {
        unsetenv("LD_LIBRARY_PATH");
    }
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) { /* unless a machine has them */
        void *there = dlopen(i == 0 ? "libcuda.so.1" : "libamdhip64.so.7", RTLD_LAZY | RTLD_LOCAL);
        if (!there) {
            check_runs(&missing[i], 1);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_unavailable),
    };
    DEVICE_MAIN(argc, argv, scenarios, tests);
}
