/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text that is written in parts into memory of limited size. As with snprintf, the length counts what did not fit, too,
 * and what did fit ends in a NUL.
 */
#ifndef TTI_BASE_TEXT_H
#define TTI_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

struct tti_text {
    char *at; /* may be NULL if the capacity is 0 */
    size_t capacity;
    size_t length; /* of the whole text */
};

__attribute__((format(printf, 2, 3))) void tti_append(struct tti_text *t, const char *format, ...);
__attribute__((format(printf, 2, 0))) void tti_append_list(struct tti_text *t, const char *format, va_list list);

/* For a function that writes the next part as snprintf does: where, or NULL, and how many bytes. The caller adds the
 * length that the function returns. */
static inline char *tti_text_end(const struct tti_text *t)
{
    return t->length < t->capacity ? t->at + t->length : NULL;
}

static inline size_t tti_text_room(const struct tti_text *t)
{
    return t->length < t->capacity ? t->capacity - t->length : 0;
}

#endif
