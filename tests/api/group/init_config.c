/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tutti_init refuses before it contacts other ranks: bad values of the configuration's fields, of variables, and
 * of settings that are numbers, sizes, booleans or choices. The status says what is wrong, the message names the
 * argument, and the group is not written. Afterwards a good tutti_init still works.
 */
#include "init_processes.h"

#include <tutti/backend.h>

#define LONG_NAME 400

static tutti_group *const untouched = (tutti_group *)(uintptr_t)0x1234;

static void refused(const char *file, int line, const tutti_config *config, tutti_status want, const char *word)
{
    tutti_error e;
    memset(&e, 0x55, sizeof(e));
    tutti_group *g = untouched;
    tutti_status status = tutti_init(config, &g, &e);
    test_status(file, line, "tutti_init", status, want, &e, word);
    if (g != untouched) {
        test_fail(file, line, "the group was written though tutti_init failed");
    }
    if (e.size != sizeof(e) || e.operation != TUTTI_OP_INIT) {
        test_fail(file, line, "the error does not say that it comes from init");
    }
    if (tutti_init(config, &g, NULL) != want) {
        test_fail(file, line, "another status without an error struct");
    }
}

#define REFUSED(want, word, ...) refused(__FILE__, __LINE__, TUTTI_CONFIG(__VA_ARGS__), (want), (word))

/* Makes a world of one rank, uses it and destroys it. */
static void good(const char *file, int line, const tutti_config *config)
{
    tutti_error e;
    tutti_group *g = NULL;
    test_status(file, line, "tutti_init", tutti_init(config, &g, &e), TUTTI_OK, &e, "");
    if (g) {
        test_still_works(file, line, g);
        test_status(file, line, "tutti_group_destroy", tutti_group_destroy(g, &e), TUTTI_OK, &e, "");
    }
}

#define GOOD(config) good(__FILE__, __LINE__, (config))

static void fields(void)
{
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_init(NULL, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_init(TUTTI_CONFIG(.world_size = 1), NULL, &e));

    tutti_config c;
    tutti_config_init(&c);
    static const uint32_t sizes[] = {0, 1, sizeof(tutti_config) - 8, sizeof(tutti_config) + 8, UINT32_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        c.size = sizes[i];
        refused(__FILE__, __LINE__, &c, TUTTI_INVALID_ARGUMENT, "config.size");
    }
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.flags 0x1", .flags = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.flags 0x80000000", .flags = 0x80000000u);

    REFUSED(TUTTI_INVALID_ARGUMENT, "config.rank is 3", .rank = 3, .world_size = 3, .backend = "null");
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.rank is -1", .rank = -1, .world_size = 3, .backend = "null");
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.world_size -2", .world_size = -2);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.rank is 2147483647", .rank = INT32_MAX, .world_size = INT32_MAX);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.rank is 3, but config.world_size is 0", .rank = 3);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.rank is -1, but config.world_size is 0", .rank = -1, .backend = "null");
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.world_size: a world of 65537 ranks", .world_size = 65537,
            .store = "memory:too-many", .timeout_ms = 100);
    REFUSED(TUTTI_UNSUPPORTED, "backend shm takes up to 1024 ranks, not 1025; mpi and gloo take more",
            .world_size = 1025, .store = "memory:too-many", .backend = "SHM", .timeout_ms = 100);
    REFUSED(TUTTI_UNSUPPORTED, "backend shm takes up to 1024 ranks, not 1025", .world_size = 1025,
            .store = "memory:too-many", .backend = "cpu:shm,cuda:nccl", .timeout_ms = 100);
    REFUSED(TUTTI_UNSUPPORTED, "backend local takes up to 1024 ranks, not 65536", .rank = 7, .world_size = 65536,
            .store = "memory:too-many", .backend = "mock", .timeout_ms = 100);
    REFUSED(TUTTI_TIMEOUT, "missing: rank 1, 2, ", .world_size = 1024, .store = "memory:1024", .backend = "shm",
            .timeout_ms = 100);
    REFUSED(TUTTI_TIMEOUT, "missing: rank 1, 2, ", .world_size = 65536, .store = "memory:many", .timeout_ms = 100);
    REFUSED(TUTTI_TIMEOUT, ", 51, ...", .world_size = 65536, .store = "memory:many", .timeout_ms = 100);
    tutti_config_init(&c);
    GOOD(&c); /* all zeros: one rank, since the environment names no world */
    GOOD(TUTTI_CONFIG(.rank = 0, .world_size = 0));

    REFUSED(TUTTI_INVALID_ARGUMENT, "config.timeout_ms", .timeout_ms = -2, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.timeout_ms", .timeout_ms = INT64_MIN, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.timeout_ms", .timeout_ms = INT64_MAX, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.lanes", .lanes = TUTTI_MAX_LANES + 1, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.lanes", .lanes = -1, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.lanes", .lanes = INT32_MIN, .world_size = 1);

    REFUSED(TUTTI_INVALID_ARGUMENT, "config.device", .device = "tpu", .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.device", .device = "", .world_size = 1);
    GOOD(NULL);
}

static void lanes(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.lanes = 0, .world_size = 1), &g, &e));
    EXPECT(tutti_group_lanes(g) == 1);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.lanes = TUTTI_MAX_LANES, .world_size = 1), &g, &e));
    EXPECT(tutti_group_lanes(g) == TUTTI_MAX_LANES);
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.lane = TUTTI_MAX_LANES - 1)));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "lane",
                 tutti_barrier(g, TUTTI_CALL(.lane = TUTTI_MAX_LANES, .error = &e)));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static void bad_settings(void)
{
    static const struct {
        const char *text;
        const char *word;
    } bad[] = {
        {"no.such.key=1", "the setting \"no.such.key=1\" is unknown"},
        {"lanes", "the setting \"lanes\" has no value: write it as key=value"},
        {"no.such.key", "the setting \"no.such.key\" has no value"},
        {"=4", "=4"},
        {"", "\"\""},
        {"Lanes=4", "Lanes"},
        {"lanes =4", "lanes "},
        {"lanes=", "lanes"},
        {"lanes=0", "lanes"},
        {"lanes=17", "lanes"},
        {"lanes=-1", "lanes"},
        {"lanes= 2", "lanes"},
        {"lanes=2x", "lanes"},
        {"lanes=2K", "lanes"},
        {"lanes=0x2", "lanes"},
        {"lanes=99999999999999999999", "lanes"},
        {"timeout_ms=-2", "timeout_ms"},
        {"timeout_ms=soon", "timeout_ms"},
        {"engine.window=16383", "engine.window"},
        {"engine.window=64T", "engine.window"},
        {"engine.window=1KB", "engine.window"},
        {"engine.window=9223372036854775807G", "engine.window"},
        {"engine.window=8G", "engine.window"},
        {"engine.window=0", "it must be auto or a number from 16384 to 67108864, K, M and G allowed"},
        {"engine.stage=0", "engine.stage is \"0\"; it must be auto or a number"},
        {"engine.stage=aut", "engine.stage"},
        {"engine.stage=Auto", "engine.stage"},
        {"engine.one_shot=-1", "engine.one_shot is \"-1\"; it must be auto or a number from 0"},
        {"engine.one_shot=65M", "engine.one_shot"},
        {"engine.one_shot=auto|auto", "engine.one_shot"},
        {"engine.packets=2K", "engine.packets"},
        {"engine.packets=", "engine.packets"},
        {"engine.stream_bytes=1T", "engine.stream_bytes"},
        {"engine.zero_copy_bytes=-4K", "engine.zero_copy_bytes"},
        {"engine.heap_capacity=auto", "engine.heap_capacity is \"auto\"; it must be a number"},
        {"lanes=auto", "lanes is \"auto\"; it must be a number from 1"},
        {"engine.zero_copy=maybe", "engine.zero_copy"},
        {"engine.zero_copy=2", "engine.zero_copy"},
        {"engine.zero_copy=", "engine.zero_copy"},
        {"engine.spin_us=-2", "engine.spin_us"},
        {"engine.yield_us=1000001", "engine.yield_us"},
        {"device=cpu|cuda", "device"},
        {"device=cp", "device"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const list[] = {"engine.window=64K", bad[i].text, NULL};
        tutti_error e;
        tutti_group *g = untouched;
        tutti_status status = tutti_init(TUTTI_CONFIG(.world_size = 1, .settings = list), &g, &e);
        if (status != TUTTI_INVALID_ARGUMENT || !strstr(e.message, bad[i].word) || g != untouched) {
            fprintf(stderr, "setting \"%s\": got %s: %s\n", bad[i].text, tutti_status_name(status), e.message);
            test_fail(__FILE__, __LINE__, "a bad setting");
        }
    }
}

static void good_settings(void)
{
    const char *const fine[] = {"lanes=3", "timeout_ms=-1", "engine.window=64k", "engine.zero_copy=OFF", NULL};
    const char *const sizes[] = {"engine.one_shot=64K",
                                 "engine.packets=1k",
                                 "engine.stream_bytes=1G",
                                 "engine.zero_copy_bytes=64k",
                                 "engine.stage=256K",
                                 "engine.window=16K",
                                 "engine.one_shot=0",
                                 "engine.packets=0",
                                 "engine.stream_bytes=0",
                                 "engine.zero_copy_bytes=0",
                                 "engine.stage=512K",
                                 "engine.reduce_sliced_bytes=1G",
                                 NULL};
    const char *const automatic[] = {"engine.one_shot=64K",
                                     "engine.one_shot=auto",
                                     "engine.packets=auto",
                                     "engine.stage=auto",
                                     "engine.stream_bytes=auto",
                                     "engine.window=auto",
                                     "engine.reduce_sliced_bytes=auto",
                                     "engine.zero_copy_bytes=auto",
                                     NULL};
    const char *const none[] = {NULL};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .settings = fine), &g, NULL));
    EXPECT(tutti_group_lanes(g) == 3);
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    GOOD(TUTTI_CONFIG(.world_size = 1, .settings = none));
    GOOD(TUTTI_CONFIG(.world_size = 1, .settings = sizes));
    GOOD(TUTTI_CONFIG(.world_size = 1, .settings = automatic));
}

/* One variable at a time: the message names it. */
static void variables(void)
{
    static const struct {
        const char *name;
        const char *value;
    } bad[] = {
        {"TUTTI_LANES", "17"},
        {"TUTTI_LANES", "many"},
        {"TUTTI_LANES", ""},
        {"TUTTI_TIMEOUT_MS", "-2"},
        {"TUTTI_TIMEOUT_MS", "1s"},
        {"TUTTI_ENGINE_WINDOW", "1"},
        {"TUTTI_ENGINE_WINDOW", "1Q"},
        {"TUTTI_ENGINE_ONE_SHOT", "-1"},
        {"TUTTI_ENGINE_STAGE", "0"},
        {"TUTTI_ENGINE_SPIN_US", "x"},
        {"TUTTI_ENGINE_ZERO_COPY", "si"},
        {"TUTTI_DEVICE", "fpga"},
        {"TUTTI_RANK", "0"},
        {"TUTTI_WORLD_SIZE", "1"},
        {"RANK", "0"},
        {"WORLD_SIZE", "2"},
        {"PMIX_RANK", "0"},
        {"OMPI_COMM_WORLD_RANK", "0"},
        {"PMI_SIZE", "3"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tutti_error e;
        tutti_group *g = untouched;
        setenv(bad[i].name, bad[i].value, 1);
        tutti_status status = tutti_init(NULL, &g, &e);
        if (status != TUTTI_INVALID_ARGUMENT || !strstr(e.message, bad[i].name) || g != untouched) {
            fprintf(stderr, "%s=%s: got %s: %s\n", bad[i].name, bad[i].value, tutti_status_name(status), e.message);
            test_fail(__FILE__, __LINE__, "a bad variable");
        }
        unsetenv(bad[i].name);
    }
}

/* Variables of one family that contradict each other. */
static void contradictions(void)
{
    setenv("RANK", "1", 1);
    setenv("WORLD_RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "WORLD_RANK", .backend = "null");
    unsetenv("WORLD_RANK");
    setenv("LOCAL_RANK", "2", 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "LOCAL_RANK", .backend = "null");
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "LOCAL_WORLD_SIZE", .backend = "null");
    test_stand_alone();
}

/* The configuration comes before its settings, and these before a variable. */
static void precedence(void)
{
    setenv("TUTTI_LANES", "5", 1);
    const char *const list[] = {"lanes=6", NULL};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(NULL, &g, NULL));
    EXPECT(tutti_group_lanes(g) == 5);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.settings = list), &g, NULL));
    EXPECT(tutti_group_lanes(g) == 6);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.settings = list, .lanes = 7), &g, NULL));
    EXPECT(tutti_group_lanes(g) == 7);
    /* A sub-group takes its parent's values, not the variable's, unless its configuration sets them. */
    const int32_t self = 0;
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_create(g, &self, 1, NULL, &child, NULL));
    EXPECT(tutti_group_lanes(child) == 7);
    EXPECT_OK(tutti_group_destroy(child, NULL));
    EXPECT_OK(tutti_group_create(g, &self, 1, TUTTI_CONFIG(.lanes = 2), &child, NULL));
    EXPECT(tutti_group_lanes(child) == 2);
    EXPECT_OK(tutti_group_destroy(child, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    unsetenv("TUTTI_LANES");
}

static void long_names(void)
{
    char name[LONG_NAME + 1];
    char text[LONG_NAME + 32];
    memset(name, 'n', LONG_NAME);
    name[LONG_NAME] = '\0';
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.backend", .backend = name, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.device", .device = name, .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.store", .store = name, .world_size = 1);
    snprintf(text, sizeof(text), "unix:%s", name);
    REFUSED(TUTTI_INVALID_ARGUMENT, "config.store", .store = text, .world_size = 1);
    snprintf(text, sizeof(text), "unix:%.200s", name);
    REFUSED(TUTTI_INVALID_ARGUMENT, "unix:nnn", .store = text, .world_size = 1); /* no such long socket names */
    snprintf(text, sizeof(text), "%s=1", name);
    const char *const list[] = {text, NULL};
    REFUSED(TUTTI_INVALID_ARGUMENT, "nnnn", .world_size = 1, .settings = list);
    REFUSED(TUTTI_NOT_FOUND, "nnnn", .world_size = 1, .backend = name + LONG_NAME - 250);
    setenv("TUTTI_STORE", name, 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "TUTTI_STORE", .flags = 0);
    unsetenv("TUTTI_STORE");
    setenv("TUTTI_BACKEND", name, 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "TUTTI_BACKEND", .flags = 0);
    unsetenv("TUTTI_BACKEND");
    GOOD(NULL);
}

static void backends(void)
{
    static const char *const known[] = {"auto", "shm", "local", "null"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        REFUSED(TUTTI_NOT_FOUND, known[i], .backend = "infiniband", .world_size = 1);
    }
    REFUSED(TUTTI_NOT_FOUND, "\"infiniband\"", .backend = "infiniband", .world_size = 1);
    REFUSED(TUTTI_NOT_FOUND, "\"nickel\"", .backend = "cpu:shm,cuda:nickel", .world_size = 1);
    REFUSED(TUTTI_NOT_FOUND, "\"gloom\"", .backend = "cpu:gloom", .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "tpu:shm", .backend = "tpu:shm", .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "cpu:shm,", .backend = "cpu:shm,", .world_size = 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "cpu:local", .backend = "cpu:shm,cpu:local", .world_size = 1); /* two for one */
    REFUSED(TUTTI_NOT_AVAILABLE, "cuda", .device = "cuda", .world_size = 1);
    REFUSED(TUTTI_NOT_AVAILABLE, "rocm", .device = "rocm", .device_index = 1, .world_size = 1);
    /* the error names the backend that the caller asked for */
    REFUSED(TUTTI_NOT_AVAILABLE, "backend nccl is not available: device cuda cannot be used here: ", .backend = "nccl");
    REFUSED(TUTTI_NOT_AVAILABLE, "backend nccl is not available: device cuda", .backend = "cpu:shm,cuda:nccl",
            .device = "cuda");
    REFUSED(TUTTI_NOT_AVAILABLE, "backend rccl is not available: device rocm cannot be used here: ", .backend = "RCCL");
    REFUSED(TUTTI_NOT_AVAILABLE, "backend mpi is not available on rank 0: no launcher", .backend = "mpi");
    tutti_error e;
    tutti_group *none = NULL;
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "rccl"), &none, &e) == TUTTI_NOT_AVAILABLE);
    EXPECT(strcmp(e.backend, "rccl") == 0);
    setenv("TUTTI_BACKEND", "carrier-pigeon", 1);
    REFUSED(TUTTI_NOT_FOUND, "carrier-pigeon", .flags = 0);
    unsetenv("TUTTI_BACKEND");

    static const struct {
        const char *asked;
        const char *got;
    } good_ones[] = {{"SHM", "shm"}, {"Local", "local"}, {"mock", "local"},     {"MOCK", "local"}, {"cpu:shm", "shm"},
                     {"AUTO", NULL}, {"cpu:auto", NULL}, {"cpu:Mock", "local"}, {"Null", "null"}};
    for (size_t i = 0; i < sizeof(good_ones) / sizeof(good_ones[0]); i++) {
        tutti_group *g = NULL;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = good_ones[i].asked, .world_size = 1), &g, &e));
        const char *name = tutti_group_backend(g);
        EXPECT(name && (!good_ones[i].got || strcmp(name, good_ones[i].got) == 0));
        if (g) {
            EXPECT_USABLE(g);
            EXPECT_OK(tutti_group_destroy(g, &e));
        }
    }
}

static tutti_status no_set(void *user, const char *key, const void *value, size_t length)
{
    (void)user;
    (void)key;
    (void)value;
    (void)length;
    return TUTTI_NO_RESOURCE;
}

static tutti_status no_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                           int64_t timeout_ms)
{
    (void)user;
    (void)key;
    (void)value;
    (void)capacity;
    (void)timeout_ms;
    *length = 0;
    return TUTTI_TIMEOUT;
}

static void stores(void)
{
    REFUSED(TUTTI_INVALID_ARGUMENT, "TUTTI_STORE", .world_size = 2);
    static const char *const bad[] = {"nonsense",
                                      "unix:",
                                      "tcp://",
                                      "tcp://host",
                                      "tcp://127.0.0.1:0x",
                                      "tcp://[::1:5",
                                      "memory:",
                                      "file:",
                                      "http://a:1",
                                      "tcp://a:70000",
                                      "unix:\x01"
                                      "name",
                                      "tcp://:99"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        REFUSED(TUTTI_INVALID_ARGUMENT, "", .store = bad[i], .rank = 1, .world_size = 2, .timeout_ms = 1000);
    }
    setenv("TUTTI_STORE", "", 1);
    REFUSED(TUTTI_INVALID_ARGUMENT, "TUTTI_STORE", .flags = 0);
    unsetenv("TUTTI_STORE");
    REFUSED(TUTTI_SYSTEM, "/no/such/folder/store", .store = "file:/no/such/folder/store", .world_size = 1);

    tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .set = no_set, .get = no_get};
    REFUSED(TUTTI_INVALID_ARGUMENT, "store_callbacks", .store = "memory:a", .store_callbacks = &callbacks);
    REFUSED(TUTTI_NO_RESOURCE, "callback set", .store_callbacks = &callbacks, .world_size = 2);
    callbacks.size = 0;
    REFUSED(TUTTI_INVALID_ARGUMENT, "size", .store_callbacks = &callbacks, .world_size = 2);
    callbacks.size = sizeof(callbacks) + 8;
    REFUSED(TUTTI_INVALID_ARGUMENT, "size", .store_callbacks = &callbacks, .world_size = 2);
    callbacks.size = sizeof(callbacks);
    callbacks.flags = 2;
    REFUSED(TUTTI_INVALID_ARGUMENT, "flags", .store_callbacks = &callbacks, .world_size = 2);
    callbacks.flags = 0;
    callbacks.get = NULL;
    REFUSED(TUTTI_INVALID_ARGUMENT, "get", .store_callbacks = &callbacks, .world_size = 2);
    GOOD(NULL);
}

int main(void)
{
    test_stand_alone();
    /* no GPU, whatever the machine has: see backends() */
    setenv("TUTTI_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", 1);
    setenv("TUTTI_HIP_LIBRARY", "/nonexistent/libamdhip64.so", 1);
    fields();
    lanes();
    bad_settings();
    good_settings();
    variables();
    contradictions();
    precedence();
    long_names();
    backends();
    stores();
    EXPECT_OK(tutti_finalize(NULL));
    return test_result();
}
