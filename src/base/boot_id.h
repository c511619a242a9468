/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's name for this start of the machine: the same in every process, another one on every host. */
#ifndef TTI_BASE_BOOT_H
#define TTI_BASE_BOOT_H

#include <tutti/status.h>

#define TTI_BOOT_ID 40 /* bytes, with the NUL behind it */

/* "" where there is none. NO_RESOURCE or NO_MEMORY if it cannot be read now: a rank that went on without it would be alone on a
 * machine of its own, for the others. */
tutti_status tti_boot_id(char text[TTI_BOOT_ID], tutti_error *error);

#endif
