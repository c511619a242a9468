/* SPDX-License-Identifier: BSD-3-Clause */
/* For calls with a bad argument, in a function with a group `g` and an error `e`. */
#ifndef TESTS_API_BAD_INPUTS_H
#define TESTS_API_BAD_INPUTS_H

#include "api/check.h"

/* INVALID_ARGUMENT, with the word in the message; the group still works. */
#define BAD(word, call)                                                                                                \
    do {                                                                                                               \
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, word, call);                                                          \
        EXPECT_USABLE(g);                                                                                              \
    } while (0)

#define OPTIONS TUTTI_CALL(.error = &e)

#endif
