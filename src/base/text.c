/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include <stdio.h>

void tti_append_list(struct tti_text *t, const char *format, va_list list)
{
    const int n = vsnprintf(tti_text_end(t), tti_text_room(t), format, list);
    t->length += n > 0 ? (size_t)n : 0;
}

void tti_append(struct tti_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tti_append_list(t, format, list);
    va_end(list);
}
