/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/device.h"

#include <stdio.h>
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

const char *tti_device_text(DLDevice device, char text[24])
{
    static const char *const names[] = {
        [kDLCPU] = "cpu",         [kDLCUDA] = "cuda",     [kDLCUDAHost] = "cuda_host",
        [kDLOpenCL] = "opencl",   [kDLVulkan] = "vulkan", [kDLMetal] = "metal",
        [kDLVPI] = "vpi",         [kDLROCM] = "rocm",     [kDLROCMHost] = "rocm_host",
        [kDLExtDev] = "ext_dev",  [kDLOneAPI] = "oneapi", [kDLCUDAManaged] = "cuda_managed",
        [kDLHexagon] = "hexagon", [kDLMAIA] = "maia",     [kDLWebGPU] = "webgpu",
    };
    const int32_t type = (int32_t)device.device_type; /* may be anything: it comes from outside */
    const char *name = type >= 0 && type < (int32_t)(sizeof(names) / sizeof(names[0])) ? names[type] : NULL;
    if (name) {
        snprintf(text, 24, "%s:%d", name, device.device_id);
    } else {
        snprintf(text, 24, "%d:%d", type, device.device_id);
    }
    return text;
}
