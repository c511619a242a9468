/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of calls in C++: what a builder sets reaches the field of its name, and `size` is what the library
 * expects. */
#include <cstdio>
#include <cstring>
#include <tutti/backend.h>
#include <tutti/tutti.hpp>

static int failures;
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::printf("line %d: failed: %s\n", __LINE__, #condition);                                                \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

static void ended(tutti_status, const tutti_error *, void *user)
{
    ++*static_cast<int *>(user);
}

static bool is(const tutti_call *given, const tutti_call &expected)
{
    return std::memcmp(given, &expected, sizeof(expected)) == 0;
}

/* A struct that is set field by field must be what the builder gives. */
static void builders()
{
    tutti_error error;
    tutti_call call;
    tutti_call_init(&call);
    EXPECT(is(tutti::call(), call));
    call.flags = TUTTI_CANCELLABLE;
    call.timeout_ms = 5;
    call.lane = 1;
    call.tag = 2;
    call.scale = 0.5;
    call.stream = &call;
    call.error = &error;
    call.callback = ended;
    call.user = &error;
    call.token = nullptr;
    call.operation_id = 7;
    call.wire = TUTTI_WIRE_BF16;
    EXPECT(is(tutti::call()
                  .flags(TUTTI_CANCELLABLE)
                  .timeout_ms(5)
                  .lane(1)
                  .tag(2)
                  .scale(0.5)
                  .stream(&call)
                  .error(&error)
                  .callback(ended)
                  .user(&error)
                  .token(nullptr)
                  .operation_id(7)
                  .wire(TUTTI_WIRE_BF16),
              call));

    const char *const settings[] = {"shm.window=1M", nullptr};
    tutti_store_callbacks callbacks;
    tutti_store_callbacks_init(&callbacks);
    EXPECT(callbacks.size == sizeof(callbacks) && tutti::store_callbacks().size == callbacks.size && !callbacks.get);
    tutti_config config;
    tutti_config_init(&config);
    config.rank = 1;
    config.world_size = 2;
    config.lanes = 3;
    config.device_index = 4;
    config.timeout_ms = 5;
    config.backend = "null";
    config.device = "cpu";
    config.store = settings[0];
    config.store_callbacks = &callbacks;
    config.native_communicator = &config;
    config.settings = settings;
    tutti::config built;
    built.flags(0).rank(1).world_size(2).lanes(3).device_index(4).timeout_ms(5);
    built.backend(config.backend).device(config.device);
    built.store(settings[0]).store_callbacks(&callbacks).native_communicator(&config).settings(settings);
    EXPECT(std::memcmp(static_cast<const tutti_config *>(built), &config, sizeof(config)) == 0);

    tutti_bucketer_options options;
    tutti_bucketer_options_init(&options);
    options.op = TUTTI_SUM;
    options.bucket_bytes = 8;
    options.timeout_ms = 9;
    options.lane = 1;
    const tutti::bucketer_options same = tutti::bucketer_options().op(TUTTI_SUM).bucket_bytes(8).timeout_ms(9).lane(1);
    EXPECT(std::memcmp(static_cast<const tutti_bucketer_options *>(same), &options, sizeof(options)) == 0);

    tutti_message message;
    tutti_message_init(&message);
    EXPECT(message.size == sizeof(message) && tutti::message().size == message.size && message.bytes == 0);
    tutti_null_record record;
    tutti_null_record_init(&record);
    EXPECT(record.size == sizeof(record) && tutti::null_record().size == record.size);
    tutti_config_key_info info;
    tutti_config_key_info_init(&info);
    EXPECT(info.size == sizeof(info) && tutti::config_key_info().size == info.size);
}

/* All of them in use. */
static tutti_status two_ranks(tutti_group *group, void *)
{
    tutti_error error;
    int calls = 0;
    std::int32_t value = tutti_group_rank(group) + 1;
    const std::int64_t one = 1;
    DLTensor tensor = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM,
                            tutti::call().timeout_ms(60000).error(&error).callback(ended).user(&calls)) == TUTTI_OK);
    EXPECT(value == 3 && calls == 1 && error.status == TUTTI_OK);
    if (tutti_group_rank(group) == 0) {
        EXPECT(tutti_send(group, &tensor, 1, 5, tutti::call().timeout_ms(60000)) == TUTTI_OK);
    } else {
        tutti::message message;
        EXPECT(tutti_recv(group, &tensor, 0, 5, tutti::call().timeout_ms(60000), &message) == TUTTI_OK &&
               message.tag == 5);
    }
    EXPECT(tutti_barrier(group, tutti::call().lane(99)) == TUTTI_INVALID_ARGUMENT);

    tutti_bucketer *bucketer = nullptr;
    const DLTensor *gradients[] = {&tensor};
    EXPECT(tutti_bucketer_create(group, gradients, 1, tutti::bucketer_options().op(TUTTI_MAX), &bucketer, &error) ==
           TUTTI_OK);
    EXPECT(tutti_bucketer_ready(bucketer, 0, &error) == TUTTI_OK && tutti_bucketer_wait(bucketer, &error) == TUTTI_OK);
    EXPECT(tutti_bucketer_destroy(bucketer, &error) == TUTTI_OK && value == 3);
    return TUTTI_OK;
}

int main()
{
    tutti_error error;
    tutti_group *group = nullptr;
    builders();
    EXPECT(tutti_run_threads(2, two_ranks, nullptr, &error) == TUTTI_OK);
    EXPECT(tutti_init(tutti::config().backend("null").rank(5).world_size(8), &group, &error) == TUTTI_OK);
    EXPECT(tutti_group_rank(group) == 5 && tutti_barrier(group, tutti::call()) == TUTTI_OK);
    tutti::null_record record;
    EXPECT(tutti_null_recorded(group, 0, &record, &error) == TUTTI_OK && record.operation == TUTTI_OP_BARRIER);
    tutti::config_key_info info;
    EXPECT(tutti_config_key(0, &info) == TUTTI_OK && info.help[0] != '\0');
    EXPECT(tutti_finalize(&error) == TUTTI_OK);
    if (failures == 0) {
        std::printf("tutti %s\n", tutti_version_string());
    }
    return failures != 0;
}
