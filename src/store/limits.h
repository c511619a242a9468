/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes that the store, its protocol and its callers share. */
#ifndef TTI_STORE_LIMITS_H
#define TTI_STORE_LIMITS_H

#define TTI_STORE_KEY_MAX      255
#define TTI_STORE_VALUE_MAX    65536
#define TTI_STORE_RANGE_MAX    65535 /* its first number, and how many keys */
#define TTI_STORE_RANGE_DIGITS 7     /* of the number behind a stem, at most, with the slash */
#define TTI_STORE_URL_MAX      299
#define TTI_STORE_DIRECTORY    48 /* of a directory, in the name of a socket: see tti_store_local_url */

#endif
