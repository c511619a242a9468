/* SPDX-License-Identifier: BSD-3-Clause */
/* strtod accepts "0x10", "inf" and leading blanks; a typing mistake must not become another duration. */
#include "common/number.h"

#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

int64_t tti_number_option(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                          int64_t maximum)
{
    int64_t value = minimum;
    if (!tti_parse_integer(text, minimum, maximum, &value)) {
        argp_error(state, "%s takes a number from %" PRId64 " to %" PRId64 ", not '%s'", option, minimum, maximum,
                   text);
    }
    return value;
}
