/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plug-in's functions, called as the core calls them, with a rendezvous that fails in each of its calls or returns
 * invalid values. An exception that left the plug-in would end this program.
 */
#include <dlfcn.h>

#include <tutti/backend.h>

#include "api/check.h"

/* How the rendezvous fails from its call number `at` on. */
static struct {
    int calls;
    int at;
    enum { FAILS, LIES } how;
} plan;

static tutti_status refuse(tutti_error *error)
{
    error->size = (uint32_t)sizeof(*error);
    error->status = TUTTI_NOT_FOUND;
    snprintf(error->message, sizeof(error->message), "the rendezvous is out of order");
    return TUTTI_NOT_FOUND;
}

/* The rendezvous returns this rank's own values under the keys of all ranks. */
static struct {
    char key[64];
    char value[16384];
    size_t length;
} kept[16];
static int kept_count;

static tutti_status set(void *self, const char *key, const void *value, size_t length, tutti_error *error)
{
    (void)self;
    if (++plan.calls >= plan.at && plan.how == FAILS) {
        return refuse(error);
    }
    snprintf(kept[kept_count].key, sizeof(kept[0].key), "%s", key);
    memcpy(kept[kept_count].value, value, length);
    kept[kept_count].length = length;
    kept_count += kept_count < 15;
    return TUTTI_OK;
}

static tutti_status get(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error)
{
    (void)self;
    (void)timeout_ms;
    if (++plan.calls >= plan.at) {
        if (plan.how == FAILS) {
            return refuse(error);
        }
        memset(value, 0x5a, capacity < 100 ? capacity : 100);
        *length = 100;
        return TUTTI_OK;
    }
    const char *slash = strrchr(key, '/');
    for (int i = 0; i < kept_count; i++) { /* "gloo/addresses/1" is answered by "gloo/addresses/0" */
        if (strncmp(kept[i].key, key, (size_t)(slash - key)) == 0 && kept[i].length <= capacity) {
            memcpy(value, kept[i].value, kept[i].length);
            *length = kept[i].length;
            return TUTTI_OK;
        }
    }
    return refuse(error);
}

static const char *interface = "";

static const char *setting(const void *settings, const char *key)
{
    (void)settings;
    return strcmp(key, "gloo.interface") == 0 ? interface : "262144"; /* gloo.segment */
}

static tutti_status open_pair(const tutti_backend *gloo, tutti_error *error)
{
    static const int32_t ranks[] = {0, 1};
    const tutti_rendezvous rendezvous = {.size = sizeof(rendezvous), .set = set, .get = get};
    const tutti_open_info info = {.size = sizeof(info),
                                  .world_size = 2,
                                  .lanes = 1,
                                  .timeout_ms = 2000,
                                  .rendezvous = &rendezvous,
                                  .global_ranks = ranks,
                                  .setting = setting};
    void *state = NULL;
    plan.calls = 0;
    kept_count = 0;
    const tutti_status status = gloo->ops->open(&info, &state, error);
    EXPECT(state == NULL);
    return status;
}

static void open_fails(const tutti_backend *gloo)
{
    tutti_error error;
    plan.how = FAILS;
    for (plan.at = 1; plan.at <= 5; plan.at++) {
        EXPECT_ERROR(&error, TUTTI_NOT_FOUND, "the rendezvous is out of order", open_pair(gloo, &error));
    }
    plan.how = LIES;
    plan.at = 2;
    EXPECT_ERROR(&error, TUTTI_PROTOCOL, "published no addresses", open_pair(gloo, &error));
    /* Gloo itself detects this one: the other rank's address is invalid, so it throws */
    plan.at = 6;
    EXPECT(open_pair(gloo, &error) != TUTTI_OK && error.message[0] != '\0');
    interface = "nowhere0";
    EXPECT_ERROR(&error, TUTTI_NOT_AVAILABLE, "nowhere0", open_pair(gloo, &error));
    interface = "";
}

static void one_rank(const tutti_backend *gloo)
{
    const int32_t zero = 0;
    const tutti_open_info info = {.size = sizeof(info),
                                  .world_size = 1,
                                  .lanes = 1,
                                  .timeout_ms = 1000,
                                  .global_ranks = &zero,
                                  .setting = setting};
    void *state = NULL;
    tutti_error error;
    char text[300];
    EXPECT_OK(gloo->ops->open(&info, &state, &error));
    EXPECT(gloo->ops->describe(state, text, sizeof(text)) > 0 && strstr(text, "alone"));
    float in = 2;
    float out = 0;
    tutti_op op = {.size = sizeof(op),
                   .kind = TUTTI_OP_ALL_REDUCE,
                   .dtype = TUTTI_F32,
                   .redop = TUTTI_AVG,
                   .src = &in,
                   .dst = &out,
                   .count = 1,
                   .timeout_ms = 1000};
    EXPECT(gloo->ops->run(state, &op, &error) == TUTTI_OK && out == 2);
    tutti_error cause = {.size = sizeof(cause), .status = TUTTI_TIMEOUT, .suspect = -1, .message = "rank 1 gave up"};
    gloo->ops->abort(state, -1, &cause);
    EXPECT(gloo->ops->run(state, &op, &error) == TUTTI_REVOKED && strstr(error.message, "rank 1 gave up"));
    EXPECT(gloo->ops->failure(state, &error) == TUTTI_TIMEOUT);
    gloo->ops->close(state);
}

int main(int argc, char **argv)
{
    void *file = dlopen(argc > 1 ? argv[1] : "tutti-gloo.so", RTLD_NOW | RTLD_LOCAL);
    tutti_backend_entry_function entry = NULL;
    if (file) {
        *(void **)&entry = dlsym(file, "tutti_backend_entry");
    }
    if (!entry) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const tutti_backend *gloo = entry();
    char why[200] = "";
    EXPECT(gloo->ops->available(why, sizeof(why)) == 1 && strstr(why, "Gloo 0."));
    open_fails(gloo);
    one_rank(gloo);
    return test_result();
}
