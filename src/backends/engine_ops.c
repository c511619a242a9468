/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/engine_ops.h"

#include <stdlib.h>

static struct tti_engine *engine_of(void *state)
{
    return ((struct tti_engine_state *)state)->engine;
}

const char *tti_ops_supports(void *state, const tutti_op *op)
{
    return tti_engine_supports(engine_of(state), op);
}

tutti_status tti_ops_run(void *state, tutti_op *op, tutti_error *error)
{
    return tti_engine_run(engine_of(state), op, error);
}

tutti_status tti_ops_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    return tti_engine_run_p2p(engine_of(state), ops, count, timeout_ms, error);
}

int32_t tti_ops_start(void *state, tutti_op *op)
{
    return tti_engine_start(engine_of(state), op);
}

int32_t tti_ops_poll(void *state, const tutti_op *op)
{
    return tti_engine_poll(engine_of(state), op);
}

tutti_status tti_ops_finish(void *state, tutti_op *op, tutti_error *error)
{
    return tti_engine_finish(engine_of(state), op, error);
}

void tti_ops_abort(void *state, int32_t lane, const tutti_error *cause)
{
    tti_engine_abort(engine_of(state), lane, cause);
}

tutti_status tti_ops_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error)
{
    return tti_engine_post_p2p(engine_of(state), ops, count, timeout_ms, batch, error);
}

int32_t tti_ops_test_p2p(void *state, void *batch)
{
    return tti_engine_test_p2p(engine_of(state), batch);
}

void tti_ops_attend_p2p(void *state, void *batch, int64_t until_ns)
{
    tti_engine_attend_p2p(engine_of(state), batch, until_ns);
}

void tti_ops_wake_p2p(void *state)
{
    tti_engine_wake_p2p(engine_of(state));
}

int32_t tti_ops_cancel_p2p(void *state, void *batch)
{
    return tti_engine_cancel_p2p(engine_of(state), batch);
}

tutti_status tti_ops_end_p2p(void *state, void *batch, tutti_error *error)
{
    return tti_engine_end_p2p(engine_of(state), batch, error);
}

tutti_status tti_ops_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error)
{
    return tti_engine_probe(engine_of(state), peer, tag, found, message, error);
}

size_t tti_ops_describe(void *state, char *text, size_t capacity)
{
    return tti_engine_describe(engine_of(state), text, capacity);
}

tutti_status tti_ops_failure(void *state, tutti_error *error)
{
    return tti_engine_failure(engine_of(state), error);
}

/* The core has checked type and bounds; a key that it does not know would be a defect of ours. */
static int64_t number(const tutti_open_info *info, const char *key)
{
    const char *text = info->setting(info->settings, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

void tti_ops_tuning(const tutti_open_info *info, struct tti_tuning *tuning)
{
    const struct tti_tuning_wishes wishes = {.stage = number(info, "engine.stage"),
                                             .window = number(info, "engine.window"),
                                             .packets = number(info, "engine.packets"),
                                             .one_shot = number(info, "engine.one_shot"),
                                             .stream = number(info, "engine.stream_bytes"),
                                             .zero_copy = number(info, "engine.zero_copy_bytes")};
    tti_tuning_make(info->world_size, &wishes, tuning);
}

void tti_ops_options(const tutti_open_info *info, struct tti_engine_options *options)
{
    int64_t spin_us = number(info, "engine.spin_us");
    int64_t yield_us = number(info, "engine.yield_us");
    options->direct = options->threads && number(info, "engine.zero_copy") == 1;
    options->spin_ns = spin_us < 0 ? -1 : spin_us * 1000;
    options->yield_ns = yield_us < 0 ? -1 : yield_us * 1000;
}
