/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine numbers its ranks from 0, and its sentences say "rank 1" or "ranks 0, 2 and 3". This rewrites the numbers
 * as ranks of the group, for readers. A list of numbers has the word in front and nothing but separators inside, as
 * tti_peers_text and the backends write it. Nothing is decided here: status and suspect of an error are passed as
 * fields (failure.c).
 */
#include "backends/hier/renumber.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The position behind "rank " or "ranks ", if a number follows there; else NULL. */
static const char *after_rank_word(const char *begin, const char *at)
{
    if (strncmp(at, "rank", 4) != 0 || (at > begin && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))) {
        return NULL;
    }
    at += at[4] == 's' ? 5 : 4;
    return *at == ' ' && isdigit((unsigned char)at[1]) ? at + 1 : NULL;
}

/* The length of the separator of a list, if a number follows; 0: the list ends here. */
static size_t separator_length(const char *at)
{
    static const char *const separators[] = {", ", " and ", " or "};
    for (size_t i = 0; i < sizeof(separators) / sizeof(separators[0]); i++) {
        const size_t length = strlen(separators[i]);
        if (strncmp(at, separators[i], length) == 0 && isdigit((unsigned char)at[length])) {
            return length;
        }
    }
    return 0;
}

struct sentence {
    char *text;
    size_t capacity;
    size_t length;
};

static void append(struct sentence *s, const char *from, size_t length)
{
    const size_t room = s->capacity - 1 - s->length;
    length = length < room ? length : room;
    memcpy(s->text + s->length, from, length);
    s->length += length;
    s->text[s->length] = '\0';
}

/* Copies a list of numbers, renumbered; returns the position behind it. */
static const char *append_numbers(struct sentence *s, const char *at, const int32_t *ranks, int32_t count)
{
    for (;;) {
        char *end;
        char number[24];
        const long rank = strtol(at, &end, 10);
        if (rank < count) {
            const int n = snprintf(number, sizeof(number), "%d", ranks[rank]);
            append(s, number, n > 0 ? (size_t)n : 0);
        } else {
            append(s, at, (size_t)(end - at));
        }
        const size_t more = separator_length(end);
        append(s, end, more);
        at = end + more;
        if (more == 0) {
            return at;
        }
    }
}

void tti_hier_renumber(const char *from, const int32_t *ranks, int32_t count, char *to, size_t capacity)
{
    struct sentence s = {.text = to, .capacity = capacity};
    to[0] = '\0';
    for (const char *at = from; *at;) {
        const char *numbers = after_rank_word(from, at);
        if (numbers) {
            append(&s, at, (size_t)(numbers - at));
            at = append_numbers(&s, numbers, ranks, count);
        } else {
            append(&s, at++, 1);
        }
    }
}
