/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's random identity of this boot: the same in every process of a host, another one on every host. */
#ifndef TTI_BASE_HOST_BOOT_ID_H
#define TTI_BASE_HOST_BOOT_ID_H

#include <tutti/status.h>

#define TTI_BOOT_ID 40 /* bytes, with the NUL behind it */

/* "" where there is none. NO_RESOURCE or NO_MEMORY if it cannot be read now. A rank must not go on without it then: the
 * others would take it for a rank of another host. */
tutti_status tti_boot_id(char text[TTI_BOOT_ID], tutti_error *error);

#endif
