/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and addresses of hosts, as users and launchers give them. */
#ifndef TTI_BASE_HOST_NAME_H
#define TTI_BASE_HOST_NAME_H

#include <stdbool.h>

/* Whether `text` has the form of a host's name, or of its IPv4 or IPv6 address, perhaps with a zone ("fe80::1%eth0"),
 * and at most 200 characters. So it can stand in the URL of a store. */
bool tti_is_host_name(const char *text);

#endif
