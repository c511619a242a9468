/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields of a profile: their bounds, the built-in figures, and what replaces missing ones. */
#include "engine/tuning/profile.h"

#include <string.h>

#define FIELD(name, least, most)                                                                                       \
    {                                                                                                                  \
#name, offsetof(struct tti_profile, name), least, most                                                         \
    }

/* The bounds are wide: a figure outside comes from a disturbed measurement or a damaged file. */
const struct tti_profile_field tti_profile_fields[TTI_PROFILE_FIELDS] = {
    FIELD(measured_s, 0, INT64_C(1) << 40),
    FIELD(near_ns, 10, TTI_NEAR_NS),
    FIELD(far_ns, TTI_NEAR_NS, 1500),
    FIELD(near_mbs, 1000, 2000000),
    FIELD(far_mbs, 500, 2000000),
    FIELD(copy_mbs, 2000, 4000000),
    FIELD(fold_mbs, 2000, 4000000),
    FIELD(memory_mbs, 500, 2000000),
    FIELD(stream_mbs, 500, 2000000),
    FIELD(yield_ns, 20, 20000),
    FIELD(switch_ns, 100, 50000),
    FIELD(wake_ns, 500, 1000000),
    FIELD(l2_bytes, 1 << 16, 1 << 28),
    FIELD(l3_bytes, 1 << 18, INT64_C(1) << 36),
    FIELD(l3_cpus, 1, 1 << 16),
    FIELD(cpus_stay, TTI_CPUS_STAY, TTI_CPUS_MOVE),
    FIELD(model, TTI_MODEL_OTHER, TTI_MODEL_ZEN_3),
};

const struct tti_profile tti_profile_built_in = {
    .near_ns = 70,
    .far_ns = 200,
    .near_mbs = 40000,
    .far_mbs = 30000,
    .copy_mbs = 110000,
    .fold_mbs = 110000,
    .memory_mbs = 20000,
    .stream_mbs = 40000,
    .yield_ns = 500,
    .switch_ns = 670,
    .wake_ns = 18000,
    .l2_bytes = 1 << 20,
    .l3_bytes = 1 << 25,
    .l3_cpus = 8,
    .cpus_stay = TTI_CPUS_STAY,
    .model = TTI_MODEL_OTHER,
};

int64_t tti_profile_value(const struct tti_profile *profile, int field)
{
    int64_t value;
    memcpy(&value, (const char *)profile + tti_profile_fields[field].offset, sizeof(value));
    return value;
}

void tti_profile_set(struct tti_profile *profile, int field, int64_t value)
{
    memcpy((char *)profile + tti_profile_fields[field].offset, &value, sizeof(value));
}

static bool is(int field, size_t offset)
{
    return tti_profile_fields[field].offset == offset;
}

/* Figures of two CPUs, near or far: a machine may have one kind only. */
static bool is_hop(int field)
{
    return is(field, offsetof(struct tti_profile, near_ns)) || is(field, offsetof(struct tti_profile, near_mbs)) ||
           is(field, offsetof(struct tti_profile, far_ns)) || is(field, offsetof(struct tti_profile, far_mbs));
}

static bool is_optional(int field, bool pairs)
{
    return is_hop(field) || (!pairs && is(field, offsetof(struct tti_profile, wake_ns)));
}

void tti_profile_complete(struct tti_profile *profile)
{
    const bool no_hop = profile->near_ns == 0 && profile->far_ns == 0;
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        if (tti_profile_value(profile, i) == 0 && (no_hop || !is_hop(i))) {
            tti_profile_set(profile, i, tti_profile_value(&tti_profile_built_in, i));
        }
    }
    if (profile->near_ns > 0 && profile->near_mbs == 0) {
        profile->near_mbs = tti_profile_built_in.near_mbs;
    }
    if (profile->far_ns > 0 && profile->far_mbs == 0) {
        profile->far_mbs = tti_profile_built_in.far_mbs;
    }
}

void tti_profile_assume_hops(struct tti_profile *profile)
{
    if (profile->near_ns == 0) {
        profile->near_ns = tti_profile_built_in.near_ns;
        profile->near_mbs = tti_profile_built_in.near_mbs;
    }
    if (profile->far_ns == 0) {
        profile->far_ns = tti_profile_built_in.far_ns;
        profile->far_mbs = tti_profile_built_in.far_mbs;
    }
}

bool tti_profile_plausible(const struct tti_profile *profile, bool pairs)
{
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        const struct tti_profile_field *field = &tti_profile_fields[i];
        const int64_t value = tti_profile_value(profile, i);
        if (value == 0 ? !is_optional(i, pairs) : value < field->least || value > field->most) {
            return false;
        }
    }
    const bool near = profile->near_ns > 0 && profile->near_mbs > 0;
    const bool far = profile->far_ns > 0 && profile->far_mbs > 0;
    return (near || far || !pairs) && profile->measured_s > 0;
}
