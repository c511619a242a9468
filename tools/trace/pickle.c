/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/pickle.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static void put_bytes(FILE *out, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        fputc((int)(value >> (8 * i) & 0xff), out);
    }
}

static void put_text(FILE *out, const char *text)
{
    const size_t length = strlen(text);
    fputc('X', out);
    put_bytes(out, length, 4);
    fwrite(text, 1, length, out);
}

static void put_real(FILE *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    fputc('G', out);
    put_bytes(out, __builtin_bswap64(bits), 8);
}

void tti_pickle(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (; *format != '\0'; format++) {
        switch (*format) {
        case 's':
            put_text(out, va_arg(args, const char *));
            break;
        case 'i':
            fputs("\x8a\x08", out);
            put_bytes(out, (uint64_t)va_arg(args, int64_t), 8);
            break;
        case 'f':
            put_real(out, va_arg(args, double));
            break;
        case 'b':
            fputc(va_arg(args, int) ? '\x88' : '\x89', out);
            break;
        case 'n':
            fputc('N', out);
            break;
        case '{':
            fputs("}(", out);
            break;
        case '}':
            fputc('u', out);
            break;
        case '[':
            fputs("](", out);
            break;
        case ']':
            fputc('e', out);
            break;
        default: /* '2' */
            fputc('\x86', out);
            break;
        }
    }
    va_end(args);
}
