/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

tutti_status tti_boot_id(char text[TTI_BOOT_ID], tutti_error *error)
{
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    text[0] = '\0';
    if (file < 0) {
        const tutti_status status = tti_error_system(error, errno, "the identity of this machine cannot be read");
        return tti_is_resource_error(status) ? status : tti_error_clear(error);
    }
    const ssize_t got = read(file, text, TTI_BOOT_ID - 1);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    close(file);
    return TUTTI_OK;
}
