/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding backends by name, choosing them by priority, refusing them with a reason, and registering one's own. */
#include "ledger_support.h"

static void lookup(void)
{
    const tutti_backend *local = tutti_backend_find("local");
    const tutti_backend *shm = tutti_backend_find("SHM");
    EXPECT(local && strcmp(local->name, "local") == 0 && local->priority == 70);
    EXPECT(shm && strcmp(shm->name, "shm") == 0 && shm->priority == 80);
    EXPECT(tutti_backend_find("Local") == local);
    EXPECT(tutti_backend_find("mock") == local);
    EXPECT(tutti_backend_find("MOCK") == local);
    EXPECT(tutti_backend_find("null") != NULL);
    EXPECT(tutti_backend_find("no-such-engine") == NULL);

    bool seen = false;
    const tutti_backend *previous = tutti_backend_at(0);
    EXPECT(previous != NULL);
    for (size_t i = 0; previous && tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        EXPECT(b->priority <= previous->priority);
        seen = seen || b == local;
        previous = b;
    }
    EXPECT(seen);

    char why[256] = "";
    EXPECT(local && tutti_backend_available(local, why, sizeof(why)) == 1);
}

static tutti_status one_mock_rank(tutti_group *group, void *user)
{
    (void)user;
    EXPECT(strcmp(tutti_group_backend(group), "local") == 0);
    return TUTTI_OK;
}

static void factory(void)
{
    tutti_error error;
    tutti_group *group = NULL;
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "Mock", .rank = 0, .world_size = 1), &group, &error) == TUTTI_OK);
    const char *name = tutti_group_backend(group);
    EXPECT(name && strcmp(name, "local") == 0);
    int32_t value = 3;
    const int64_t one = 1;
    DLTensor tensor = ledger_tensor(&value, &one, TUTTI_I32);
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, NULL) == TUTTI_OK);
    EXPECT(value == 3);
    EXPECT(tutti_group_destroy(group, &error) == TUTTI_OK);

    group = NULL;
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "no-such-engine", .world_size = 1), &group, &error) == TUTTI_NOT_FOUND);
    EXPECT(strstr(error.message, "no-such-engine") && strstr(error.message, "shm") && strstr(error.message, "local"));
    EXPECT(group == NULL);
    ledger_on_ranks(2, one_mock_rank, NULL);
}

/* A backend of the test: it exists, but reports that it cannot be used here. */
static int32_t never_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "the engine of the test is switched off");
    return 0;
}

static tutti_status open_nothing(const tutti_open_info *info, void **state, tutti_error *error)
{
    (void)info;
    (void)error;
    *state = NULL;
    return TUTTI_BACKEND;
}

static void close_nothing(void *state)
{
    (void)state;
}

static const char *supports_nothing(void *state, const tutti_op *op)
{
    (void)state;
    (void)op;
    return NULL;
}

static tutti_status run_nothing(void *state, tutti_op *op, tutti_error *error)
{
    (void)state;
    (void)op;
    (void)error;
    return TUTTI_UNSUPPORTED;
}

static tutti_status run_no_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    (void)state;
    (void)ops;
    (void)count;
    (void)timeout_ms;
    (void)error;
    return TUTTI_UNSUPPORTED;
}

static tutti_status probe_nothing(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                                  tutti_error *error)
{
    (void)state;
    (void)peer;
    (void)tag;
    (void)found;
    (void)message;
    (void)error;
    return TUTTI_UNSUPPORTED;
}

static const tutti_backend_ops ledger_ops = {
    .size = sizeof(tutti_backend_ops),
    .available = never_available,
    .open = open_nothing,
    .close = close_nothing,
    .supports = supports_nothing,
    .run = run_nothing,
    .run_p2p = run_no_p2p,
    .probe = probe_nothing,
};
static const tutti_backend ledger_backend = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "ledger",
    .priority = 1,
    .ops = &ledger_ops,
};

/* A backend that calls the registry in its `begin`. The first `begin` fails. */
static int begins;
static int ends;

static int32_t always_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "always");
    return 1;
}

static tutti_status begin_asking(tutti_error *error)
{
    (void)error;
    EXPECT(tutti_backend_find("local") != NULL && tutti_backend_at(0) != NULL);
    return ++begins == 1 ? TUTTI_BACKEND : TUTTI_OK;
}

static void end_asking(void)
{
    EXPECT(tutti_backend_find("local") != NULL);
    ends++;
}

static void asking_backend(void)
{
    static tutti_backend_ops asking_ops;
    static tutti_backend asking;
    tutti_error error;
    tutti_group *group = NULL;
    asking_ops = ledger_ops;
    asking_ops.available = always_available;
    asking_ops.init = begin_asking;
    asking_ops.fini = end_asking;
    asking = ledger_backend;
    asking.name = "asking";
    asking.ops = &asking_ops;
    EXPECT(tutti_backend_register(&asking, &error) == TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(tutti_init(TUTTI_CONFIG(.backend = "asking", .world_size = 1), &group, &error) == TUTTI_BACKEND);
    }
    EXPECT(begins == 2 && ends == 0);
    EXPECT(tutti_finalize(&error) == TUTTI_OK);
    EXPECT(begins == 2 && ends == 1);
}

static void own_backend(void)
{
    tutti_error error;
    tutti_group *group = NULL;
    EXPECT(tutti_backend_register(&ledger_backend, &error) == TUTTI_OK);
    EXPECT(tutti_backend_find("Ledger") == &ledger_backend);
    EXPECT(tutti_backend_register(&ledger_backend, &error) == TUTTI_INVALID_ARGUMENT);
    tutti_backend other_abi = ledger_backend;
    other_abi.abi++;
    other_abi.name = "ledger2";
    EXPECT(tutti_backend_register(&other_abi, &error) == TUTTI_VERSION);

    char why[256] = "";
    EXPECT(tutti_backend_available(&ledger_backend, why, sizeof(why)) == 0);
    EXPECT(strcmp(why, "the engine of the test is switched off") == 0);
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "ledger", .world_size = 1), &group, &error) == TUTTI_NOT_AVAILABLE);
    EXPECT(strstr(error.message, "the engine of the test is switched off") != NULL);

    tutti_status status = tutti_backend_load("/nonexistent/plug-in.so", &error);
    EXPECT(status == TUTTI_NOT_FOUND || status == TUTTI_BACKEND);
    EXPECT(strstr(error.message, "/nonexistent/plug-in.so") != NULL);
}

int main(void)
{
    lookup();
    factory();
    own_backend();
    asking_backend();
    return ledger_result();
}
