/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentence of an error: for GetLastError, and for stderr if NCCL_DEBUG enables warnings. */
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

#include "double.h"

/* GetLastError returns the address without a lock, so the text behind it is written once and stays. */
enum { SENTENCES = 64, LENGTH = 512 };

static char sentences[SENTENCES][LENGTH];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static unsigned int written;
static const char *_Atomic newest = ""; /* release: after its text; acquire: before it is read */

static bool warnings_wanted(void)
{
    const char *level = getenv("NCCL_DEBUG");
    return level && strcasecmp(level, "VERSION") != 0;
}

ncclResult_t tti_refuse(ncclResult_t result, const char *format, ...)
{
    char sentence[LENGTH];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&writing);
    /* The oldest text is overwritten after 64 errors: no caller keeps the address that long. */
    char *place = sentences[written++ % SENTENCES];
    snprintf(place, LENGTH, "%s", sentence);
    atomic_store_explicit(&newest, place, memory_order_release);
    pthread_mutex_unlock(&writing);
    if (warnings_wanted()) {
        fprintf(stderr, "NCCL double: %s\n", sentence);
    }
    return result;
}

void tti_misused(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fputs("NCCL double: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    funlockfile(stderr);
    va_end(arguments);
    abort();
}

const char *tti_last_error(void)
{
    return atomic_load_explicit(&newest, memory_order_acquire);
}
