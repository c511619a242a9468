/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined timeout=120 */
/*
 * CUDA tensors on an engine that takes host memory only: the library copies them through pinned memory, unseen by the
 * caller.
 */
#include "ledger_device.h"

static const struct ledger_vendor cuda = {
    .device = "cuda", .driver = "cuda/libcuda.so.1", .backend = "local", .type = kDLCUDA};

static void messages(tutti_group *group, int rank)
{
    float data[LEDGER_LENGTH];
    float out[LEDGER_LENGTH];
    struct ledger_vector v;
    struct ledger_vector w;
    DLManagedTensorVersioned *came = NULL;
    tutti_message message = TUTTI_MESSAGE_INIT;
    ledger_device_fill(data, rank);
    ledger_make(group, &v, LEDGER_LENGTH, TUTTI_F32, data);
    ledger_make(group, &w, LEDGER_LENGTH, TUTTI_F32, NULL);
    if (rank == 0) {
        EXPECT(tutti_send(group, &v.tensor, 1, 3, NULL) == TUTTI_OK);
        EXPECT(tutti_send(group, &v.tensor, 1, 4, NULL) == TUTTI_OK);
    } else {
        EXPECT(tutti_recv(group, &w.tensor, 0, 3, NULL, &message) == TUTTI_OK && message.count == LEDGER_LENGTH);
        ledger_fetch(&w, out);
        for (int64_t i = 0; i < LEDGER_LENGTH; i++) {
            EXPECT(out[i] == (float)ledger_device_value(0, i));
        }
        EXPECT(tutti_recv_alloc(group, 0, 4, NULL, &came, NULL) == TUTTI_OK && came);
        if (came) {
            EXPECT(came->dl_tensor.device.device_type == kDLCUDA && came->dl_tensor.device.device_id == 1);
            memset(out, 0, sizeof(out));
            ledger_copy(out, came->dl_tensor.data, sizeof(out));
            EXPECT(out[LEDGER_LENGTH - 1] == (float)ledger_device_value(0, LEDGER_LENGTH - 1));
            came->deleter(came);
        }
    }
    EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK && tutti_free(group, w.memory, NULL) == TUTTI_OK);
}

static void rank_main(tutti_group *group, int rank)
{
    const DLDevice device = tutti_group_device(group);
    const char *backend = tutti_group_backend(group);
    char text[4096] = "";
    EXPECT(device.device_type == kDLCUDA && device.device_id == rank);
    EXPECT(backend && strcmp(backend, "local") == 0);
    EXPECT(tutti_group_describe(group, text, sizeof(text), NULL, NULL) == TUTTI_OK);
    EXPECT(strstr(text, "through host memory"));
    ledger_device_reductions(group, rank);
    ledger_device_moves(group, rank);
    ledger_device_barrier(group, rank);
    messages(group, rank);
    ledger_device_refusals(group);
}

int main(void)
{
    static const char *const settings[] = {"device.chunk=4K", NULL};
    ledger_choose(&cuda);
    ledger_open_driver();
    ledger_on_devices("memory:ledger-devices", settings, rank_main);
    return ledger_result();
}
