/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/devices.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"

const char *tti_device_option(struct argp_state *state, const char *name)
{
    if (strcmp(name, "auto") != 0 && !tti_device_named(name)) {
        argp_error(state, "--device takes auto, cpu, cuda or rocm, not '%s'", name);
    }
    return name;
}

bool tti_device_usable(const char *tool, const char *name)
{
    char why[256] = "";
    const struct tti_device *device = name ? tti_device_named(name) : NULL;
    if (device && !device->available(why, sizeof(why))) {
        fprintf(stderr, "%s: the device '%s' cannot be used here: %s\n", tool, name, why);
        return false;
    }
    return true;
}

void tti_device_settings(const char *device, char text[32], const char *room[2])
{
    room[0] = NULL;
    room[1] = NULL;
    if (device) {
        snprintf(text, 32, "device=%s", device);
        room[0] = text;
    }
}

tutti_status tti_control_group(tutti_group *world, tutti_group **control, tutti_error *error)
{
    if (!tti_on_device(tutti_group_device(world))) {
        *control = world;
        return TUTTI_OK;
    }
    /* every rank once, in the same order */
    return tutti_group_split(world, 0, tutti_group_rank(world), TUTTI_CONFIG(.backend = "auto", .device = "cpu"),
                             control, error);
}

void tti_control_group_end(tutti_group *world, tutti_group *control)
{
    if (control && control != world) {
        tutti_group_destroy(control, NULL);
    }
}
