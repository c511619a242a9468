/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of rank and world size: the struct, the environment of each launcher, or none; and the settings. */
#include "ledger_support.h"

#include <stdlib.h>

static void clear_environment(void)
{
    static const char *const names[] = {
        "TUTTI_RANK",
        "TUTTI_WORLD_SIZE",
        "TUTTI_LOCAL_RANK",
        "TUTTI_LOCAL_WORLD_SIZE",
        "TUTTI_STORE",
        "TUTTI_BACKEND",
        "RANK",
        "WORLD_RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
        "PMI_FD",
        "PMIX_RANK",
        "PMIX_NAMESPACE",
        "SLURM_PROCID",
        "SLURM_NTASKS",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
}

/* Joins with the `null` backend, which needs no other rank, under `first`=`rank` and `second`=`size`. */
static void from_environment(const char *first, const char *second)
{
    tutti_error error;
    tutti_group *group = NULL;
    clear_environment();
    setenv(first, "2", 1);
    setenv(second, "5", 1);
    setenv("TUTTI_STORE", "memory:ledger", 1); /* the rendezvous, which `null` never uses */
    tutti_status status = tutti_init(TUTTI_CONFIG(.backend = "null"), &group, &error);
    if (status != TUTTI_OK) {
        printf("%s and %s: %s\n", first, second, error.message);
    }
    EXPECT(status == TUTTI_OK);
    ledger_say_backend(tutti_group_backend(group));
    EXPECT(tutti_group_rank(group) == 2);
    EXPECT(tutti_group_size(group) == 5);
    EXPECT(tutti_finalize(&error) == TUTTI_OK);

    /* A malformed number is an error that names the variable, never a silent rank 0. */
    setenv(first, "two", 1);
    group = NULL;
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "null"), &group, &error) == TUTTI_INVALID_ARGUMENT);
    EXPECT(strstr(error.message, first) != NULL);
    EXPECT(group == NULL);
    setenv(first, "5", 1); /* outside 0..4 */
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "null"), &group, &error) == TUTTI_INVALID_ARGUMENT);
}

static void without_environment(void)
{
    tutti_error error;
    tutti_group *group = NULL;
    clear_environment();
    EXPECT(tutti_init(NULL, &group, &error) == TUTTI_OK);
    ledger_say_backend(tutti_group_backend(group));
    EXPECT(tutti_group_rank(group) == 0);
    EXPECT(tutti_group_size(group) == 1);
    EXPECT(tutti_finalize(&error) == TUTTI_OK);
    EXPECT(tutti_group_rank(group) == -1);
}

static void configuration(void)
{
    tutti_error error;
    tutti_group *group = NULL;
    tutti_config config;
    memset(&config, 0x55, sizeof(config));
    tutti_config_init(&config);
    EXPECT(config.size == sizeof(config) && config.world_size == 0 && config.backend == NULL && config.lanes == 0);
    config.size = sizeof(config);
    config.backend = "null";
    config.rank = 1;
    config.world_size = 3;
    config.lanes = 4;
    config.timeout_ms = 1234;
    EXPECT(tutti_init(&config, &group, &error) == TUTTI_OK);
    EXPECT(tutti_group_rank(group) == 1);
    EXPECT(tutti_group_size(group) == 3);
    EXPECT(tutti_group_lanes(group) == 4);
    char text[4096] = "";
    EXPECT(tutti_group_describe(group, text, sizeof(text), NULL, &error) == TUTTI_OK);
    EXPECT(strstr(text, "null") != NULL);
    EXPECT(tutti_group_destroy(group, &error) == TUTTI_OK);
    EXPECT(tutti_group_size(group) == -1);

    tutti_call call;
    memset(&call, 0x55, sizeof(call));
    tutti_call_init(&call);
    EXPECT(call.size == sizeof(call) && call.timeout_ms == 0 && call.error == NULL && call.callback == NULL);

    tutti_store_callbacks callbacks;
    tutti_config_key_info info;
    tutti_null_record record;
    tutti_bucketer_options options;
    tutti_message message;
    memset(&callbacks, 0x55, sizeof(callbacks));
    memset(&info, 0x55, sizeof(info));
    memset(&record, 0x55, sizeof(record));
    memset(&options, 0x55, sizeof(options));
    memset(&message, 0x55, sizeof(message));
    tutti_store_callbacks_init(&callbacks);
    tutti_config_key_info_init(&info);
    tutti_null_record_init(&record);
    tutti_bucketer_options_init(&options);
    tutti_message_init(&message);
    EXPECT(callbacks.size == sizeof(callbacks) && !callbacks.set && !callbacks.get && !callbacks.user);
    EXPECT(info.size == sizeof(info) && !info.key && info.maximum == 0);
    EXPECT(record.size == sizeof(record) && record.operation == 0 && record.count == 0);
    EXPECT(options.size == sizeof(options) && options.op == 0 && options.bucket_bytes == 0 && options.wire == 0);
    EXPECT(message.size == sizeof(message) && message.source == 0 && message.bytes == 0);
    tutti_store_callbacks_init(NULL);
    tutti_config_key_info_init(NULL);
    tutti_null_record_init(NULL);
    tutti_bucketer_options_init(NULL);
    tutti_message_init(NULL);

    group = NULL;
    EXPECT(tutti_init(NULL, NULL, &error) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 3, .world_size = 3), &group, &error) ==
           TUTTI_INVALID_ARGUMENT);
    const char *const unknown[] = {"no.such.setting=1", NULL};
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "null", .world_size = 1, .settings = unknown), &group, &error) ==
           TUTTI_INVALID_ARGUMENT);
    EXPECT(strstr(error.message, "no.such.setting") != NULL);
    EXPECT(group == NULL);
}

static void settings(void)
{
    size_t rows = 0;
    for (;; rows++) {
        tutti_config_key_info info = {.size = sizeof(info)};
        tutti_status status = tutti_config_key(rows, &info);
        if (status != TUTTI_OK) {
            EXPECT(status == TUTTI_NOT_FOUND);
            break;
        }
        EXPECT(info.key && info.environment && info.default_value && info.choices && info.help);
        if (!info.key || !info.environment || !info.help || rows > 1000) {
            EXPECT(!"a row of the table of settings is empty, or the table has no end");
            break;
        }
        EXPECT(strncmp(info.environment, "TUTTI_", 6) == 0);
        EXPECT(info.help[0] != '\0');
    }
    EXPECT(rows > 0);
}

int main(void)
{
    from_environment("TUTTI_RANK", "TUTTI_WORLD_SIZE");
    from_environment("RANK", "WORLD_SIZE");
    from_environment("WORLD_RANK", "WORLD_SIZE");
    from_environment("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    without_environment();
    configuration();
    settings();
    return ledger_result();
}
