/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined timeout=120 */
/*
 * The backend nccl on the doubles of NCCL and CUDA: its name in upper and lower case, every collective, and unsupported
 * operations.
 */
#include "ledger_device.h"

static const struct ledger_vendor cuda = {.device = "cuda",
                                          .driver = "cuda/libcuda.so.1",
                                          .library = "nccl_new/libnccl.so.2",
                                          .backend = "NCCL",
                                          .type = kDLCUDA};

/* 2.7.8: communicators block, have no number of channels of their own, and no average. */
static const struct ledger_vendor cuda_old = {.device = "cuda",
                                              .driver = "cuda_old/libcuda.so.1",
                                              .library = "nccl_old/libnccl.so.2",
                                              .backend = "nccl",
                                              .type = kDLCUDA};

static void rank_main(tutti_group *group, int rank)
{
    const DLDevice device = tutti_group_device(group);
    const char *backend = tutti_group_backend(group);
    EXPECT(device.device_type == kDLCUDA && device.device_id == rank);
    EXPECT(backend && strcmp(backend, "nccl") == 0);
    ledger_device_reductions(group, rank);
    ledger_device_moves(group, rank);
    ledger_device_barrier(group, rank);
    ledger_device_refusals(group);
}

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static void older(tutti_group *group, int rank)
{
    EXPECT(strcmp(value_of("NCCL_MIN_NCHANNELS"), "2") == 0 && strcmp(value_of("NCCL_MAX_NCHANNELS"), "2") == 0);
    ledger_device_reductions(group, rank);
    ledger_device_moves(group, rank);
    ledger_device_barrier(group, rank);
}

/* On a machine without a device. */
static void without(void)
{
    char why[200] = "";
    tutti_group *group = NULL;
    tutti_error error = {.message = ""};
    setenv("TUTTI_DOUBLE_CUDA", "devices=0", 1);
    EXPECT(tutti_backend_available(tutti_backend_find("nccl"), why, sizeof(why)) == 0 && strstr(why, "device"));
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "nccl", .world_size = 1), &group, &error) == TUTTI_NOT_AVAILABLE);
    EXPECT(strstr(error.message, "device"));
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
    static const char *const settings[] = {"nccl.channels=2", NULL};
    const char *part = argc > 1 ? argv[1] : "";
    if (strcmp(part, "without") == 0) {
        ledger_choose(&cuda);
        without();
    } else if (strcmp(part, "older") == 0) {
        ledger_choose(&cuda_old);
        ledger_open_driver();
        ledger_on_devices("memory:ledger-nccl-older", settings, older);
        EXPECT(ledger_logged("CommInitRank") && ledger_logged("AllReduce") && ledger_logged("ReduceScatter"));
    } else {
        char why[200] = "";
        ledger_choose(&cuda);
        ledger_open_driver();
        EXPECT(tutti_backend_available(tutti_backend_find("nccl"), why, sizeof(why)) == 1);
        ledger_on_devices("memory:ledger-nccl", NULL, rank_main);
        EXPECT(ledger_logged("AllReduce") && ledger_logged("Broadcast") && ledger_logged("CommDestroy"));
        in_own_process(argv[0], "without");
        in_own_process(argv[0], "older");
    }
    unlink(ledger_device.log);
    return ledger_result();
}
