/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits for what must happen. They pass only if something is broken: other work on the machine may make a test thirty
 * times slower, for minutes. */
#ifndef TESTS_TIME_LIMITS_H
#define TESTS_TIME_LIMITS_H

#define LONG_MS 300000 /* deadline of a call */
#define LIMIT_S 400    /* of a wait for other ranks; longer, so that their calls have returned */

#endif
