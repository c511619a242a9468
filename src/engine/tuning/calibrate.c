/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The profile of this process. The first group that needs it loads or measures it, later groups reuse it. A lock
 * serializes measurements, so that groups that are created at once do not disturb them. A fork waits for the lock.
 */
#include "engine/tuning/calibrate.h"

#include <stdio.h>
#include <string.h>

#include "base/process/fork.h"
#include "engine/tuning/measure.h"
#include "engine/tuning/profile_file.h"

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static struct tti_calibration known; /* under the lock */
static bool is_known;
static bool was_measured; /* by this process */

enum tti_calibrate_mode tti_calibrate_mode(const char *text)
{
    if (text && strcmp(text, "off") == 0) {
        return TTI_CALIBRATE_OFF;
    }
    return text && strcmp(text, "again") == 0 ? TTI_CALIBRATE_AGAIN : TTI_CALIBRATE_AUTO;
}

static void use_built_in(struct tti_calibration *c)
{
    c->profile = tti_profile_built_in;
    c->source = TTI_CALIBRATE_BUILT_IN;
}

/* Fills in what was not measured from the earlier file. A virtual machine shows near or far, one at a time. */
static void fill_from(struct tti_profile *p, const struct tti_profile *before)
{
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        if (tti_profile_value(p, i) == 0) {
            tti_profile_set(p, i, tti_profile_value(before, i));
        }
    }
}

static void measure(const struct tti_machine *machine, struct tti_calibration *c)
{
    struct tti_profile before = {0};
    if (tti_profile_load(machine, &before, c->path, sizeof(c->path), c->note, sizeof(c->note))) {
        c->path[0] = '\0';
    }
    if (!tti_calibrate_measure(&c->profile) || c->profile.copy_mbs == 0) {
        snprintf(
            c->note, sizeof(c->note), "%s",
            "nothing could be measured: no memory, no threads, or busy CPUs; `tutti info --calibrate` tries again");
        c->source = TTI_CALIBRATE_BUILT_IN; /* but for the caches and the model, which need no measurement */
        c->profile.measured_s = 0;
        tti_profile_complete(&c->profile);
        return;
    }
    c->source = TTI_CALIBRATE_MEASURED;
    fill_from(&c->profile, &before);
    if (tti_profile_plausible(&c->profile, machine->cpus > 1)) {
        tti_profile_save(machine, &c->profile, c->path, sizeof(c->path), c->note, sizeof(c->note));
    } else {
        snprintf(c->note, sizeof(c->note), "%s",
                 "not kept, because it is incomplete: CPUs were busy, or only one may be used; missing figures are "
                 "built in");
    }
    tti_profile_complete(&c->profile);
}

static void load_or_measure(bool again, struct tti_calibration *c)
{
    struct tti_machine machine;
    memset(c, 0, sizeof(*c));
    tti_machine_find(&machine);
    if (!again && tti_profile_load(&machine, &c->profile, c->path, sizeof(c->path), c->note, sizeof(c->note))) {
        c->source = TTI_CALIBRATE_FILE;
        tti_profile_complete(&c->profile);
        return;
    }
    measure(&machine, c);
}

void tti_calibrate(enum tti_calibrate_mode mode, struct tti_calibration *calibration)
{
    if (mode == TTI_CALIBRATE_OFF) {
        memset(calibration, 0, sizeof(*calibration));
        use_built_in(calibration);
        return;
    }
    tti_fork_mutex_lock(&lock);
    if (!is_known || (mode == TTI_CALIBRATE_AGAIN && !was_measured)) {
        load_or_measure(mode == TTI_CALIBRATE_AGAIN, &known);
        was_measured = known.source != TTI_CALIBRATE_FILE;
        is_known = true;
    }
    *calibration = known;
    tti_fork_mutex_unlock(&lock);
}

void tti_calibrate_force(struct tti_calibration *calibration)
{
    load_or_measure(true, calibration);
}
