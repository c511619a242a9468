/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host/boot_id.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/host/text_file.h"

tutti_status tti_boot_id(char text[TTI_BOOT_ID], tutti_error *error)
{
    if (tti_read_text(text, TTI_BOOT_ID, "/proc/sys/kernel/random/boot_id") < 0) {
        const tutti_status status = tti_error_system(error, errno, "the identity of this machine cannot be read");
        return tti_is_resource_error(status) ? status : tti_error_clear(error);
    }
    text[strcspn(text, "\n")] = '\0';
    return TUTTI_OK;
}
