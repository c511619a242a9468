/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of devices. */
#include "device/device.h"

#include <string.h>

static const struct tti_device *const devices[] = {&tti_device_host, &tti_device_cuda, &tti_device_rocm};

enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };

const struct tti_device *tti_device_of(DLDeviceType type)
{
    for (int i = 0; i < DEVICES; i++) {
        if (type == devices[i]->type || type == devices[i]->host_type || type == devices[i]->managed_type) {
            return devices[i];
        }
    }
    return NULL;
}

const struct tti_device *tti_device_named(const char *name)
{
    for (int i = 0; i < DEVICES; i++) {
        if (strcmp(name, devices[i]->name) == 0) {
            return devices[i];
        }
    }
    return NULL;
}
