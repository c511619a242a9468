/* SPDX-License-Identifier: BSD-3-Clause */
/* Filling a tutti_error. The function that detects a failure writes the sentence; the API layer adds operation, rank
 * and times. */
#ifndef TTI_BASE_ERROR_H
#define TTI_BASE_ERROR_H

#include <stdbool.h>
#include <tutti/status.h>

/* Writes status and sentence, clears everything else (rank and suspect become -1), returns status. error may be
 * NULL. */
__attribute__((format(printf, 3, 4))) tutti_status tti_error_set(tutti_error *error, tutti_status status,
                                                                 const char *format, ...);

/* The same for TUTTI_SYSTEM: appends ": " and the text of errnum, and stores errnum as the vendor code. ENOMEM becomes
 * TUTTI_NO_MEMORY; EMFILE, ENFILE, EAGAIN, ENOSPC, EDQUOT and ENOBUFS become TUTTI_NO_RESOURCE. */
__attribute__((format(printf, 3, 4))) tutti_status tti_error_system(tutti_error *error, int errnum, const char *format,
                                                                    ...);

/* The error of a call in a group that has failed before: REVOKED, with the cause's sentence and suspect, and its status
 * as the vendor code. A cause that quotes a failure already, of an engine that is part of the group for one, is not
 * quoted again. Returns REVOKED. error may be NULL. */
tutti_status tti_error_revoked(tutti_error *error, const tutti_error *cause);
/* Whether the sentence says that a group has failed, and why. */
bool tti_error_quotes_failure(const tutti_error *error);

/* Whether it is a resource error: the missing resource (memory, descriptors, threads) may be available later. */
bool tti_is_resource_error(tutti_status status);

/* Whether a status means that a rank is lost or late, which is the same for all ranks that wait for it. */
static inline bool tti_is_loss(tutti_status status)
{
    return status >= TUTTI_TIMEOUT && status <= TUTTI_PEER_CRASHING;
}

/* The status of a failure that another process has reported; PEER_CORRUPT if no status has that number. */
tutti_status tti_status_of_peer(int32_t reported);

/* Marks success: status OK, empty sentence. Returns TUTTI_OK. */
tutti_status tti_error_clear(tutti_error *error);

#endif
