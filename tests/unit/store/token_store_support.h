/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of stores with a job token share. */
#ifndef TESTS_UNIT_STORE_TOKEN_STORE_SUPPORT_H
#define TESTS_UNIT_STORE_TOKEN_STORE_SUPPORT_H

#include "unit/store/store_support.h"

#include "store/wire/secret.h"

#define TOKEN_A "a token of the job, long enough"
#define TOKEN_B "another token, of another job"

/* NULL: none. */
static inline void set_token(const char *token)
{
    unsetenv(TTI_TOKEN_FILE_VARIABLE);
    if (token) {
        setenv(TTI_TOKEN_VARIABLE, token, 1);
    } else {
        unsetenv(TTI_TOKEN_VARIABLE);
    }
}

static inline void need_sodium(void)
{
    const char *why;
    if (!tti_sodium(&why)) {
        fprintf(stderr, "skipped: %s\n", why);
        skip();
    }
}

/* A store on this host with this token; `url` (300 bytes) is how others reach it. */
static inline struct tti_store *serve_with(const char *token, char *url)
{
    set_token(token);
    struct tti_store *served = open_store("tcp://127.0.0.1:0", true);
    assert_non_null(served);
    snprintf(url, 300, "%s", tti_store_url(served));
    return served;
}

#endif
