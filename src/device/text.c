/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a device in a sentence. */
#include "device/text.h"

#include <stdio.h>

const char *tti_device_text(DLDevice device, char text[24])
{
    static const char *const names[] = {
        [kDLCPU] = "cpu",         [kDLCUDA] = "cuda",     [kDLCUDAHost] = "cuda_host",
        [kDLOpenCL] = "opencl",   [kDLVulkan] = "vulkan", [kDLMetal] = "metal",
        [kDLVPI] = "vpi",         [kDLROCM] = "rocm",     [kDLROCMHost] = "rocm_host",
        [kDLExtDev] = "ext_dev",  [kDLOneAPI] = "oneapi", [kDLCUDAManaged] = "cuda_managed",
        [kDLHexagon] = "hexagon", [kDLMAIA] = "maia",     [kDLWebGPU] = "webgpu",
    };
    const int32_t type = (int32_t)device.device_type; /* any number: the application passes it */
    const char *name = type >= 0 && type < (int32_t)(sizeof(names) / sizeof(names[0])) ? names[type] : NULL;
    if (name) {
        snprintf(text, 24, "%s:%d", name, device.device_id);
    } else {
        snprintf(text, 24, "%d:%d", type, device.device_id);
    }
    return text;
}
