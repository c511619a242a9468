/* SPDX-License-Identifier: BSD-3-Clause */
/* The thresholds and options of a shared-memory engine: from the settings "engine.*", the CPUs that its ranks have, and
 * what the calibration has measured. */
#include "backends/engine_settings.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host/cpu.h"
#include "engine/tuning/calibrate.h"

/* The number of a setting; -1 for "auto". The core has checked its type and bounds. */
static int64_t number(const tutti_open_info *info, const char *key)
{
    const char *text = info->setting(info->settings, key);
    return text && strcmp(text, "auto") != 0 ? strtoll(text, NULL, 10) : -1;
}

void tti_tuning_overrides_from_settings(const tutti_open_info *info, struct tti_tuning_overrides *overrides)
{
    *overrides = (struct tti_tuning_overrides){.stage = number(info, "engine.stage"),
                                               .window = number(info, "engine.window"),
                                               .packets = number(info, "engine.packets"),
                                               .one_shot = number(info, "engine.one_shot"),
                                               .reduce_sliced = number(info, "engine.reduce_sliced_bytes"),
                                               .stream = number(info, "engine.stream_bytes"),
                                               .zero_copy = number(info, "engine.zero_copy_bytes"),
                                               .single_copy = number(info, "engine.single_copy_bytes"),
                                               .no_single_copy = number(info, "engine.single_copy") != 1};
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

void tti_tuning_basis_measure(const tutti_open_info *info, bool threads, struct tti_tuning_basis *basis)
{
    struct tti_calibration calibration;
    memset(basis, 0, sizeof(*basis)); /* with its padding: it is sent between processes */
    tti_tuning_overrides_from_settings(info, &basis->overrides);
    tti_calibrate(tti_calibrate_mode(info->setting(info->settings, "engine.calibrate")), &calibration);
    basis->profile = calibration.profile;
    basis->cpus = count_cpus(threads);
}

void tti_tuning_from_basis(const struct tti_tuning_basis *basis, int size, struct tti_tuning *tuning)
{
    tti_tuning_fit(size, cpus_for(&basis->cpus, size), &basis->profile, &basis->overrides, tuning);
}

void tti_engine_options_from_settings(const tutti_open_info *info, struct tti_engine_options *options)
{
    int64_t spin_us = number(info, "engine.spin_us");
    int64_t yield_us = number(info, "engine.yield_us");
    options->direct = options->threads && number(info, "engine.zero_copy") == 1;
    options->spin_ns = spin_us < 0 ? -1 : spin_us * 1000;
    options->yield_ns = yield_us < 0 ? -1 : yield_us * 1000;
}
