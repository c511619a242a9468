/* SPDX-License-Identifier: BSD-3-Clause */
/* For sub-commands with --device: is there one, and how do ranks agree on numbers while the group works on a device. */
#ifndef TOOLS_COMMON_DEVICES_H
#define TOOLS_COMMON_DEVICES_H

#include <stdbool.h>
#include <tutti/group.h>

/* The argument of --device; ends the program if it is none of these. */
struct argp_state;
const char *tti_device_option(struct argp_state *state, const char *name);

/* Whether the device of that name (NULL and "auto": yes) can be used here; if not, prints the reason on standard error,
 * as `tool` ("tutti check"). */
bool tti_device_usable(const char *tool, const char *name);

/* The settings of a configuration that say so; room[0] is NULL if `device` is. The text is the caller's. */
void tti_device_settings(const char *device, char text[32], const char *room[2]);

static inline bool tti_on_device(DLDevice device)
{
    return device.device_type != kDLCPU;
}

/* A group of the same ranks that works on the CPU: `world` itself if that does, else a new one, which the caller
 * destroys. Collective. */
tutti_status tti_control_group(tutti_group *world, tutti_group **control, tutti_error *error);

/* Destroys what tti_control_group has made. */
void tti_control_group_end(tutti_group *world, tutti_group *control);

#endif
