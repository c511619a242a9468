/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_name.h"

#include <string.h>

bool tti_is_host_name(const char *text)
{
    const size_t length = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:%");
    return length > 0 && length <= 200 && text[length] == '\0';
}
