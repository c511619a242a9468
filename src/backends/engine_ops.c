/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of the backends local and shm, which both run the shared-memory engine. Each hands its arguments to the
 * engine of the group. Below them: the engine's options and thresholds, from the settings "engine.*".
 */
#include "backends/engine_ops.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host/cpu.h"
#include "engine/failure/absent.h"
#include "engine/failure/agreement.h"
#include "engine/run.h"
#include "engine/tuning/calibrate.h"

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

const char *tti_ops_algorithm(void *state, int32_t lane)
{
    return tti_engine_algorithm(engine_of(state), lane);
}

tutti_status tti_ops_failure(void *state, tutti_error *error)
{
    return tti_engine_failure(engine_of(state), error);
}

void tti_ops_revoke(void *state, tutti_operation how)
{
    tti_engine_revoke(engine_of(state), how);
}

void tti_ops_lost(void *state, uint64_t *ranks)
{
    tti_engine_lost(engine_of(state), ranks);
}

tutti_status tti_ops_agree(void *state, tutti_agreement *agreement, tutti_error *error)
{
    return tti_engine_agree(engine_of(state), agreement, error);
}

tutti_status tti_ops_peer_status(void *state, int32_t rank, tutti_error *error)
{
    return tti_engine_peer_status(engine_of(state), rank, error);
}

/* The number of a setting; -1 for "auto". The core has checked its type and bounds. */
static int64_t number(tti_setting_function setting, const void *settings, const char *key)
{
    const char *text = setting(settings, key);
    return text && strcmp(text, "auto") != 0 ? strtoll(text, NULL, 10) : -1;
}

void tti_ops_tuning_overrides(tti_setting_function setting, const void *settings,
                              struct tti_tuning_overrides *overrides)
{
    *overrides = (struct tti_tuning_overrides){.stage = number(setting, settings, "engine.stage"),
                                               .window = number(setting, settings, "engine.window"),
                                               .packets = number(setting, settings, "engine.packets"),
                                               .one_shot = number(setting, settings, "engine.one_shot"),
                                               .reduce_sliced = number(setting, settings, "engine.reduce_sliced_bytes"),
                                               .stream = number(setting, settings, "engine.stream_bytes"),
                                               .zero_copy = number(setting, settings, "engine.zero_copy_bytes"),
                                               .single_copy = number(setting, settings, "engine.single_copy_bytes"),
                                               .no_single_copy = number(setting, settings, "engine.single_copy") != 1};
}

static void add_mask_of(pid_t process, cpu_set_t *all)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(process, sizeof(set), &set) == 0) {
        CPU_OR(all, all, &set);
    }
}

/*
 * An estimate of how many CPUs the ranks of a group have, made by rank 0 before it has any record of the others. A
 * launcher may have bound rank 0 to one CPU and its peers to others. The launcher itself, its parent process, has all
 * of them. If the thread has bound itself, the first thread of the process counts. The thresholds depend little on the
 * result.
 */
static struct tti_cpu_counts count_cpus(bool threads)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    add_mask_of(0, &own);
    cpu_set_t all = own;
    add_mask_of(getpid(), &all);
    if (!threads) {
        add_mask_of(getppid(), &all);
    }
    return (struct tti_cpu_counts){.job = CPU_COUNT(&all),
                                   .rank = CPU_COUNT(&own) > 0 ? CPU_COUNT(&own) : 1,
                                   .quota = (int32_t)tti_cpu_quota_whole(),
                                   .threads = threads};
}

static int cpus_for(const struct tti_cpu_counts *counts, int size)
{
    int count = counts->job;
    if (!counts->threads && count / size > counts->rank) { /* the parent has more CPUs than its ranks */
        count = counts->rank * size;
    }
    count = counts->quota > 0 && counts->quota < count ? counts->quota : count;
    return count > 0 ? count : 1;
}

void tti_ops_tuning_basis(const tutti_open_info *info, bool threads, struct tti_tuning_basis *basis)
{
    struct tti_calibration calibration;
    memset(basis, 0, sizeof(*basis)); /* with its padding: it is sent between processes */
    tti_ops_tuning_overrides(info->setting, info->settings, &basis->overrides);
    tti_calibrate(tti_calibrate_mode(info->setting(info->settings, "engine.calibrate")), &calibration);
    basis->profile = calibration.profile;
    basis->cpus = count_cpus(threads);
}

void tti_ops_tuning_of(const struct tti_tuning_basis *basis, int size, struct tti_tuning *tuning)
{
    tti_tuning_fit(size, cpus_for(&basis->cpus, size), &basis->profile, &basis->overrides, tuning);
}

void tti_ops_tuning(const tutti_open_info *info, bool threads, struct tti_tuning *tuning)
{
    struct tti_tuning_basis basis;
    tti_ops_tuning_basis(info, threads, &basis);
    tti_ops_tuning_of(&basis, info->world_size, tuning);
}

void tti_ops_options(const tutti_open_info *info, struct tti_engine_options *options)
{
    int64_t spin_us = number(info->setting, info->settings, "engine.spin_us");
    int64_t yield_us = number(info->setting, info->settings, "engine.yield_us");
    options->direct = options->threads && number(info->setting, info->settings, "engine.zero_copy") == 1;
    options->spin_ns = spin_us < 0 ? -1 : spin_us * 1000;
    options->yield_ns = yield_us < 0 ? -1 : yield_us * 1000;
}
