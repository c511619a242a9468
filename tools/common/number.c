/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strtoll and strtod accept more than a person means (leading blanks, "0x10", "inf", trailing text). The
 * functions here accept the plain form only, so that a typing mistake is an error and never another number.
 */
#include "number.h"

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

bool tti_parse_duration(const char *text, int64_t *ms)
{
    size_t digits = strspn(text, "0123456789.");
    double unit = 0;
    switch (text[digits]) {
    case '\0':
    case 's':
        unit = 1;
        break;
    case 'm':
        unit = 60;
        break;
    case 'h':
        unit = 3600;
        break;
    default:
        return false;
    }
    char *end = NULL;
    double seconds = strtod(text, &end);
    bool trailing = text[digits] != '\0' && text[digits + 1] != '\0';
    if (digits == 0 || end != text + digits || trailing || seconds * unit > 365.0 * 24 * 3600) {
        return false;
    }
    double exact = seconds * unit * 1000;
    *ms = (int64_t)exact;
    *ms += (double)*ms < exact ? 1 : 0;
    return true;
}
