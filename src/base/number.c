/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool tti_parse_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *value)
{
    const char *digits = *text == '-' ? text + 1 : text;
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    long long parsed = strtoll(text, NULL, 10);
    if (errno != 0 || parsed < minimum || parsed > maximum) {
        return false;
    }
    *value = parsed;
    return true;
}

bool tti_parse_bytes(const char *text, int64_t minimum, int64_t maximum, int64_t *bytes)
{
    static const char units[] = "kKmMgG";
    char digits[24];
    const size_t length = strlen(text);
    if (length == 0 || length >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, text, length + 1);
    const char *unit = strchr(units, text[length - 1]);
    const int64_t scale = unit ? INT64_C(1) << (10 * ((unit - units) / 2 + 1)) : 1;
    if (unit) {
        digits[length - 1] = '\0';
    }
    int64_t number = 0;
    if (!tti_parse_integer(digits, 0, maximum / scale, &number) || number * scale < minimum) {
        return false;
    }
    *bytes = number * scale;
    return true;
}
