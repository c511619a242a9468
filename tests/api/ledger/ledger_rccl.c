/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined timeout=120 */
/* The backend rccl on the doubles of RCCL and HIP: the factory, the settings, every collective, and what is refused. */
#include <math.h>
#include <tutti/backend.h>

#include "ledger_device.h"

static const struct ledger_vendor rocm_old = {.device = "rocm",
                                              .driver = "hip5/libamdhip64.so.5",
                                              .library = "rccl_old/librccl.so.1",
                                              .backend = "rccl",
                                              .type = kDLROCM};

/* Tensors in host memory, which are copied to the device and back. */
static const struct ledger_vendor rocm_staged = {.device = "cpu",
                                                 .driver = "hip6/libamdhip64.so.6",
                                                 .library = "rccl_new/librccl.so.1",
                                                 .backend = "rccl",
                                                 .type = kDLROCM};

static const struct ledger_vendor rocm = {.device = "rocm",
                                          .driver = "hip6/libamdhip64.so.6",
                                          .library = "rccl_new/librccl.so.1",
                                          .backend = "rccl",
                                          .type = kDLROCM};

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Lengths that no other call here has, so that the log shows these calls. */
enum { FEW = 3 /* elements */, REGISTERED = 24576 /* bytes */ };

/* Before the first group: the backend is available, and has its name and priority. */
static void factory(void)
{
    char why[200] = "";
    const tutti_backend *rccl = tutti_backend_find("RCCL");
    EXPECT(rccl && rccl->priority == 90 && strcmp(rccl->name, "rccl") == 0);
    EXPECT(rccl && tutti_backend_available(rccl, why, sizeof(why)) == 1);
}

static void configuration(tutti_group *group)
{
    char text[4096] = "";
    EXPECT(strcmp(value_of("NCCL_DEBUG"), "INFO") == 0);
    EXPECT(strcmp(value_of("NCCL_BUFFSIZE"), "4194304") == 0);
    EXPECT(strstr(value_of("NCCL_ALGO"), "ing") != NULL); /* Ring, in the spelling of the version */
    EXPECT(strcmp(value_of("RCCL_OWN"), "1") == 0);
    EXPECT(tutti_group_describe(group, text, sizeof(text), NULL, NULL) == TUTTI_OK);
    EXPECT(strstr(text, "tree_threshold")); /* a setting that no version honours any more is reported, not dropped */
    tutti_group *other = NULL;
    int32_t both[] = {0, 1};
    const char *const late[] = {"rccl.buffer_size=1M", NULL};
    tutti_error error = {.message = ""};
    /* too late: RCCL has read its variables */
    EXPECT(tutti_group_create(group, both, 2, TUTTI_CONFIG(.settings = late), &other, &error) == TUTTI_BAD_STATE);
    EXPECT(strstr(error.message, "buffer_size"));
}

/* Every element type that RCCL has, by a sum. */
static void dtypes(tutti_group *group, int rank)
{
    static const tutti_dtype all[] = {TUTTI_I8,  TUTTI_U8,  TUTTI_I32, TUTTI_U32, TUTTI_I64,
                                      TUTTI_U64, TUTTI_F16, TUTTI_F32, TUTTI_F64};
    for (size_t d = 0; d < sizeof(all) / sizeof(all[0]); d++) {
        const size_t size = tutti_dtype_size(all[d]);
        unsigned char one[8] = {1}; /* little endian, the integers' */
        const double f64 = 1;
        const float f32 = 1;
        const uint16_t f16 = 0x3c00;
        unsigned char sum[8] = {2};
        const double f64_sum = 2;
        const float f32_sum = 2;
        const uint16_t f16_sum = 0x4000;
        if (all[d] == TUTTI_F64) {
            memcpy(one, &f64, 8);
            memcpy(sum, &f64_sum, 8);
        } else if (all[d] == TUTTI_F32) {
            memcpy(one, &f32, 4);
            memcpy(sum, &f32_sum, 4);
        } else if (all[d] == TUTTI_F16) {
            memcpy(one, &f16, 2);
            memcpy(sum, &f16_sum, 2);
        }
        struct ledger_vector v;
        unsigned char out[8] = {0};
        tutti_error error = {.message = ""};
        v = (struct ledger_vector){.count = FEW, .dtype = all[d]};
        EXPECT(tutti_alloc(group, FEW * size, &v.memory, &error) == TUTTI_OK && v.memory);
        if (v.memory) {
            v.tensor = tutti_tensor_1d(v.memory, &v.count, all[d]);
            v.tensor.device = (DLDevice){kDLROCM, rank};
            for (size_t i = 0; i < FEW; i++) {
                ledger_copy((char *)v.memory + i * size, one, size);
            }
            EXPECT(tutti_all_reduce(group, &v.tensor, &v.tensor, TUTTI_SUM, NULL) == TUTTI_OK);
            for (size_t i = 0; i < FEW; i++) {
                ledger_copy(out, (char *)v.memory + i * size, size);
                EXPECT(memcmp(out, sum, size) == 0);
            }
        }
        EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK);
    }
}

/* Operators on integers. RCCL lacks the last one: the library runs it through host memory instead of refusing it. */
static void integers(tutti_group *group, int rank)
{
    static const tutti_reduce_op ops[] = {TUTTI_PRODUCT, TUTTI_MAX, TUTTI_MIN, TUTTI_BXOR};
    char text[4096] = "";
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        int32_t data[LEDGER_LENGTH];
        struct ledger_vector v;
        for (int32_t i = 0; i < LEDGER_LENGTH; i++) {
            data[i] = rank == 0 ? i : 17 - 2 * i;
        }
        ledger_make(group, &v, LEDGER_LENGTH, TUTTI_I32, data);
        EXPECT(tutti_all_reduce(group, &v.tensor, &v.tensor, ops[o], NULL) == TUTTI_OK);
        ledger_fetch(&v, data);
        for (int32_t i = 0; i < LEDGER_LENGTH; i++) {
            const int32_t other = 17 - 2 * i;
            EXPECT(data[i] == (ops[o] == TUTTI_PRODUCT ? i * other
                               : ops[o] == TUTTI_MAX   ? (i > other ? i : other)
                               : ops[o] == TUTTI_MIN   ? (i < other ? i : other)
                                                       : (i ^ other)));
        }
        EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK);
    }
    EXPECT(tutti_group_describe(group, text, sizeof(text), NULL, NULL) == TUTTI_OK);
    EXPECT(strstr(text, "all_reduce: native\n") && strstr(text, "through host memory")); /* a sum; messages */
}

/* Memory of the application that is registered with RCCL, beside the memory that tutti_alloc registers. */
static void registered(tutti_group *group, int rank)
{
    int (*allocate)(void **memory, size_t bytes) = NULL;
    int (*release)(void *memory) = NULL;
    float data[LEDGER_LENGTH];
    float out[LEDGER_LENGTH] = {0};
    const int64_t count = LEDGER_LENGTH;
    void *memory = NULL;
    void *library = dlopen(getenv("TUTTI_HIP_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    *(void **)&allocate = ledger_function(library, "hipMalloc");
    *(void **)&release = ledger_function(library, "hipFree");
    EXPECT(allocate(&memory, REGISTERED) == 0 && memory);
    EXPECT(tutti_register(group, memory, REGISTERED, NULL) == TUTTI_OK);
    DLTensor t = ledger_tensor(memory, &count, TUTTI_F32);
    t.device = (DLDevice){kDLROCM, rank};
    ledger_device_fill(data, rank);
    ledger_copy(memory, data, sizeof(data));
    EXPECT(tutti_all_reduce(group, &t, &t, TUTTI_SUM, NULL) == TUTTI_OK);
    ledger_copy(out, memory, sizeof(out));
    for (int64_t i = 0; i < LEDGER_LENGTH; i++) {
        EXPECT(out[i] == ledger_device_fold(TUTTI_SUM, i));
    }
    EXPECT(tutti_unregister(group, memory, NULL) == TUTTI_OK);
    EXPECT(release(memory) == 0);
}

/* A NaN of rank 0 and a number of rank 1: RCCL's own maximum and minimum drop the NaN, Tutti's give it. */
static void extremes(tutti_group *group, int rank, bool native)
{
    static const tutti_reduce_op ops[] = {TUTTI_MAX, TUTTI_MIN};
    for (int o = 0; o < 2; o++) {
        float values[FEW] = {(float)rank + 1, rank == 0 ? NAN : 5, NAN};
        struct ledger_vector v;
        ledger_make(group, &v, FEW, TUTTI_F32, values);
        EXPECT(tutti_all_reduce(group, &v.tensor, &v.tensor, ops[o], NULL) == TUTTI_OK);
        ledger_fetch(&v, values);
        EXPECT(values[0] == (ops[o] == TUTTI_MAX ? 2 : 1));
        EXPECT(native ? values[1] == 5 : isnan(values[1]));
        EXPECT(isnan(values[2]));
        EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK);
    }
    EXPECT(((tutti_group_capabilities(group) & TUTTI_CAP_DROPS_NAN) != 0) == native);
}

static void rank_main(tutti_group *group, int rank)
{
    const DLDevice device = tutti_group_device(group);
    const char *backend = tutti_group_backend(group);
    EXPECT(device.device_type == kDLROCM && device.device_id == rank);
    EXPECT(backend && strcmp(backend, "rccl") == 0);
    EXPECT(tutti_group_rank(group) == rank && tutti_group_size(group) == LEDGER_RANKS);
    configuration(group);
    ledger_device_reductions(group, rank);
    extremes(group, rank, false);
    ledger_device_moves(group, rank);
    ledger_device_barrier(group, rank);
    dtypes(group, rank);
    integers(group, rank);
    registered(group, rank);
    ledger_device_refusals(group);
}

static atomic_int noted; /* ranks that got the error from RCCL itself */

/* An error of RCCL, with its code and its text. The group has failed then, on the other rank perhaps before its
 * call. */
static void fails(tutti_group *group, int rank)
{
    float data[LEDGER_LENGTH];
    struct ledger_vector v;
    tutti_error error = {.message = ""};
    ledger_device_fill(data, rank);
    ledger_make(group, &v, LEDGER_LENGTH, TUTTI_F32, data);
    const tutti_status status =
        tutti_all_reduce(group, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.error = &error, .timeout_ms = 2000));
    EXPECT(status != TUTTI_OK && strcmp(error.backend, "rccl") == 0);
    if (status == TUTTI_BACKEND && error.vendor_code == 5 && strstr(error.message, "ncclAllReduce") &&
        strstr(error.message, "invalid usage") /* ncclGetErrorString's */) {
        atomic_fetch_add_explicit(&noted, 1, memory_order_relaxed); /* read after the threads are joined */
    }
    EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK);
}

/* An older RCCL, with trees: it spells the setting differently. */
static void older(tutti_group *group, int rank)
{
    EXPECT(strcmp(value_of("NCCL_ALGO"), "Tree") == 0);
    EXPECT(strcmp(value_of("NCCL_DEBUG"), "WARN") == 0);
    ledger_device_reductions(group, rank);
    ledger_device_moves(group, rank);
}

static void staged(tutti_group *group, int rank)
{
    float data[LEDGER_LENGTH];
    const int64_t count = LEDGER_LENGTH;
    DLTensor t = ledger_tensor(data, &count, TUTTI_F32);
    EXPECT(tutti_group_device(group).device_type == kDLCPU && strcmp(tutti_group_backend(group), "rccl") == 0);
    ledger_device_fill(data, rank);
    EXPECT(tutti_all_reduce(group, &t, &t, TUTTI_SUM, NULL) == TUTTI_OK);
    for (int64_t i = 0; i < LEDGER_LENGTH; i++) {
        EXPECT(data[i] == ledger_device_fold(TUTTI_SUM, i));
    }
}

static void expect_called(const char *const *functions)
{
    for (; *functions; functions++) {
        if (!ledger_logged(*functions)) {
            printf("RCCL was not called for %s\n", *functions);
            EXPECT(!"RCCL does the work");
        }
    }
}

/* RCCL's own numbers: of its types in sums, of its operators on integers, and of the mean of floats. */
static void expect_numbers(void)
{
    char line[80];
    for (int type = 0; type <= 8; type++) {
        snprintf(line, sizeof(line), "AllReduce rank=0 count=%d type=%d op=0", FEW, type);
        EXPECT(ledger_logged(line));
    }
    for (int op = 1; op <= 3; op++) {
        snprintf(line, sizeof(line), "AllReduce rank=0 count=%d type=2 op=%d", LEDGER_LENGTH, op);
        EXPECT(ledger_logged(line));
    }
    snprintf(line, sizeof(line), "AllReduce rank=0 count=%d type=7 op=4", LEDGER_LENGTH);
    EXPECT(ledger_logged(line));
    for (int r = 0; r < LEDGER_RANKS; r++) {
        snprintf(line, sizeof(line), "CommRegister rank=%d bytes=%d", r, REGISTERED);
        EXPECT(ledger_logged(line));
    }
}

static void whole(void)
{
    static const char *const settings[] = {"rccl.debug=info",
                                           "rccl.buffer_size=4M",
                                           "rccl.algo=ring",
                                           "rccl.channels=2",
                                           "rccl.env.RCCL_OWN=1",
                                           "rccl.tree_threshold=1M",
                                           NULL};
    static const char *const both[] = {"rccl.algo=ring,tree", NULL};
    static const char *const called[] = {
        "GetUniqueId",   "CommInitRankConfig", "AllReduce",    "Reduce",      "Broadcast", "AllGather",
        "ReduceScatter", "CommRegister",       "CommFinalize", "CommDestroy", NULL};
    tutti_group *group = NULL;
    tutti_error error = {.message = ""};
    factory();
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "rccl", .world_size = 1, .settings = both), &group, &error) ==
           TUTTI_INVALID_ARGUMENT);
    ledger_on_devices("memory:ledger-rccl", settings, rank_main);
    expect_called(called);
    expect_numbers();
}

static void native_extremes(tutti_group *group, int rank)
{
    extremes(group, rank, true);
}

/* On a machine without a device. */
static void without(void)
{
    char why[200] = "";
    tutti_group *group = NULL;
    tutti_error error = {.message = ""};
    setenv("TUTTI_DOUBLE_HIP", "devices=0", 1);
    EXPECT(tutti_backend_available(tutti_backend_find("rccl"), why, sizeof(why)) == 0 && strstr(why, "RCCL"));
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "rccl", .world_size = 1), &group, &error) == TUTTI_NOT_AVAILABLE);
    EXPECT(strstr(error.message, "rocm") && strstr(error.message, "device"));
}

/* Each part runs in a process of its own: the double reads its environment at its first use only. */
static void in_own_process(const char *program, const char *part)
{
    char command[4200];
    snprintf(command, sizeof(command), "'%s' %s", program, part);
    EXPECT(system(command) == 0);
}

int main(int argc, char **argv)
{
    static const char *const settings[] = {"rccl.algo=tree", "rccl.channels=2", "rccl.debug=warn", NULL};
    static const char *const called[] = {"AllReduce", "Broadcast", NULL};
    const char *part = argc > 1 ? argv[1] : "";
    char orders[4200];
    if (strcmp(part, "fails") == 0) {
        ledger_choose(&rocm);
        snprintf(orders, sizeof(orders), "log=%s,fail=AllReduce:1=5", ledger_device.log);
        setenv("TUTTI_DOUBLE_NCCL", orders, 1); /* the first rank that calls gets the error */
        ledger_open_driver();
        ledger_on_devices("memory:ledger-rccl-fails", NULL, fails);
        EXPECT(atomic_load(&noted) > 0);
        EXPECT(ledger_logged("CommAbort")); /* a group that has failed does not end politely */
    } else if (strcmp(part, "without") == 0) {
        ledger_choose(&rocm);
        without();
    } else if (strcmp(part, "extremes") == 0) {
        static const char *const asked[] = {"rccl.native_min_max=yes", NULL};
        char line[80];
        ledger_choose(&rocm);
        ledger_open_driver();
        ledger_on_devices("memory:ledger-rccl-extremes", asked, native_extremes);
        for (int op = 2; op <= 3; op++) {
            snprintf(line, sizeof(line), "AllReduce rank=0 count=%d type=7 op=%d", FEW, op);
            EXPECT(ledger_logged(line));
        }
    } else if (strcmp(part, "staged") == 0) {
        static const char *const copied[] = {"rccl.host_staging=yes", NULL};
        static const char *const summed[] = {"AllReduce", NULL};
        ledger_choose(&rocm_staged);
        ledger_open_driver();
        ledger_on_devices("memory:ledger-rccl-staged", copied, staged);
        expect_called(summed);
    } else if (strcmp(part, "older") == 0) {
        ledger_choose(&rocm_old);
        ledger_open_driver();
        ledger_on_devices("memory:ledger-rccl-older", settings, older);
        expect_called(called);
    } else {
        ledger_choose(&rocm);
        ledger_open_driver();
        whole();
        in_own_process(argv[0], "fails");
        in_own_process(argv[0], "without");
        in_own_process(argv[0], "older");
        in_own_process(argv[0], "staged");
        in_own_process(argv[0], "extremes");
    }
    unlink(ledger_device.log);
    return ledger_result();
}
