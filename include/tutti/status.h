/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/status.h - the results of calls, and the details of a failure.
 *
 * Every function that can fail returns a tutti_status. The details (rank, operation, times) are in a tutti_error that
 * the caller owns. There is no thread-local "last error" and no heap memory.
 */
#ifndef TUTTI_STATUS_H
#define TUTTI_STATUS_H

#include <stdint.h>

#if defined(__cplusplus)
#define TUTTI_BEGIN_DECLS               extern "C" {
#define TUTTI_END_DECLS                 }
#define TUTTI_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define TUTTI_BEGIN_DECLS
#define TUTTI_END_DECLS
#define TUTTI_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

TUTTI_BEGIN_DECLS

/**
 * The statuses: X(NAME, value, sentence). The values are part of the ABI: new ones are appended, none is reused.
 *
 * Up to and including MISMATCH in this list the group stays usable, except where a function documents it. From TIMEOUT
 * on the group has failed: only destroy and the functions of tutti/recovery.h are valid. Exception: a TIMEOUT of
 * tutti_probe_wait and tutti_probe_async does not fail the group.
 */
#define TUTTI_STATUS_LIST(X)                                                                                           \
    X(OK, 0, "success")                                                                                                \
    X(INVALID_ARGUMENT, 1, "an argument is outside what the function accepts")                                         \
    X(BAD_STATE, 2, "the handle is stale, or the object is not in a state that allows this call")                      \
    X(BUSY, 3, "operations are still pending")                                                                         \
    X(WOULD_DEADLOCK, 4, "waiting here could never end")                                                               \
    X(UNSUPPORTED, 5, "the backend of this group cannot do this")                                                      \
    X(NOT_AVAILABLE, 6, "the backend cannot be used on this machine")                                                  \
    X(NOT_FOUND, 7, "there is nothing of that name")                                                                   \
    X(NO_MEMORY, 8, "out of memory")                                                                                   \
    X(NO_RESOURCE, 9, "out of descriptors, threads or another limited resource")                                       \
    X(DEVICE_MISMATCH, 10, "the tensor lies on another device than the group works on")                                \
    X(MISMATCH, 11, "the ranks called different things")                                                               \
    X(CANCELLED, 12, "the operation was cancelled before it started")                                                  \
    X(TOO_LATE, 13, "the operation has started and cannot be cancelled")                                               \
    X(RANK_TAKEN, 14, "another process has claimed this rank")                                                         \
    X(VERSION, 15, "the ranks use different versions")                                                                 \
    X(AUTH, 16, "the other side belongs to another user or holds another token")                                       \
    X(PROTOCOL, 17, "the other side sent something that is not in the protocol")                                       \
    X(FORKED, 18, "the handle was made by the parent process")                                                         \
    X(SYSTEM, 19, "the operating system refused; vendor_code holds errno")                                             \
    X(BACKEND, 20, "the library behind the backend failed; vendor_code holds its code")                                \
    X(INTERNAL, 21, "a defect in Tutti")                                                                               \
    X(TIMEOUT, 22, "the deadline passed; the message names the missing ranks")                                         \
    X(PEER_LEFT, 23, "a rank destroyed its group or ended while others still needed it")                               \
    X(PEER_DEAD, 24, "a rank's process has died")                                                                      \
    X(PEER_CRASHING, 25, "a rank's process is writing a core dump")                                                    \
    X(PEER_CORRUPT, 26, "a rank published values that cannot be")                                                      \
    X(REVOKED, 27, "the group failed earlier; the message says why")

typedef int32_t tutti_status;

enum {
#define TUTTI_STATUS_ENUM(name, value, text) TUTTI_##name = value,
    TUTTI_STATUS_LIST(TUTTI_STATUS_ENUM)
#undef TUTTI_STATUS_ENUM
};

/**
 * The object that an error makes unusable: only the call, one asynchronous work, the whole group, or Tutti in this
 * process.
 */
typedef int32_t tutti_scope;
enum {
    TUTTI_SCOPE_CALL = 0,
    TUTTI_SCOPE_WORK = 1,
    TUTTI_SCOPE_GROUP = 2,
    TUTTI_SCOPE_PROCESS = 3,
};

/** The operations, by their names in errors, traces and backends. */
#define TUTTI_OPERATION_LIST(X)                                                                                        \
    X(NONE, 0, "none")                                                                                                 \
    X(ALL_REDUCE, 1, "all_reduce")                                                                                     \
    X(REDUCE, 2, "reduce")                                                                                             \
    X(BROADCAST, 3, "broadcast")                                                                                       \
    X(ALL_GATHER, 4, "all_gather")                                                                                     \
    X(GATHER, 5, "gather")                                                                                             \
    X(SCATTER, 6, "scatter")                                                                                           \
    X(REDUCE_SCATTER, 7, "reduce_scatter")                                                                             \
    X(ALL_TO_ALL, 8, "all_to_all")                                                                                     \
    X(BARRIER, 9, "barrier")                                                                                           \
    X(SEND, 10, "send")                                                                                                \
    X(RECV, 11, "recv")                                                                                                \
    X(PROBE, 12, "probe")                                                                                              \
    X(BATCH, 13, "batch")                                                                                              \
    X(INIT, 14, "init")                                                                                                \
    X(CREATE, 15, "group_create")                                                                                      \
    X(SPLIT, 16, "group_split")                                                                                        \
    X(DESTROY, 17, "group_destroy")                                                                                    \
    X(ALLOC, 18, "alloc")                                                                                              \
    X(FREE, 19, "free")                                                                                                \
    X(REGISTER, 20, "register")                                                                                        \
    X(UNREGISTER, 21, "unregister")                                                                                    \
    X(REVOKE, 22, "group_revoke")                                                                                      \
    X(ABORT, 23, "group_abort")                                                                                        \
    X(AGREE, 24, "group_agree")                                                                                        \
    X(SHRINK, 25, "group_shrink")                                                                                      \
    X(GROW, 26, "group_grow")                                                                                          \
    X(JOIN, 27, "group_join")                                                                                          \
    X(TASK, 28, "task")

typedef int32_t tutti_operation;
enum {
#define TUTTI_OPERATION_ENUM(name, value, text) TUTTI_OP_##name = value,
    TUTTI_OPERATION_LIST(TUTTI_OPERATION_ENUM)
#undef TUTTI_OPERATION_ENUM
};

/**
 * All facts about one failure. The caller owns it, usually on the stack. Tutti fills all of it (size included), so it
 * need not be initialised. It stays 512 bytes in this major version.
 *
 * `message` is one sentence: rank, operation, place, and since when. Ranks are those of the group.
 */
typedef struct tutti_error {
    uint32_t size;             /* sizeof(tutti_error), written by Tutti                                    */
    tutti_status status;       /* TUTTI_OK when the call succeeded                                         */
    tutti_scope scope;         /* the unusable object                                                      */
    tutti_operation operation; /* the operation that failed                                                */
    int64_t sequence;          /* number of the call in its lane, from 1; 0 = none                         */
    int32_t rank;              /* this rank, -1 = not known yet                                            */
    int32_t suspect;           /* the most likely cause, -1 = unknown                                      */
    int64_t elapsed_ms;        /* waiting time of the call                                                 */
    int64_t deadline_ms;       /* its deadline; -1 = none                                                  */
    int64_t vendor_code;       /* errno, or the code of the library behind the backend; 0 if none          */
    char backend[16];          /* "shm", "local", ...; "" = not chosen yet                                 */
    char message[440];         /* UTF-8, NUL-terminated, cut at the end if too long                        */
} tutti_error;
TUTTI_STATIC_ASSERT(sizeof(tutti_error) == 512, "tutti_error has a fixed layout without padding");

/** The name of a status without prefix ("TIMEOUT"); "UNKNOWN" for a value outside the list. Static storage. */
TUTTI_API const char *tutti_status_name(tutti_status status);

/** One sentence in English for a status ("the deadline passed; ..."). Static storage, never NULL. */
TUTTI_API const char *tutti_status_string(tutti_status status);

/** The name of an operation ("all_reduce"); "unknown" for a value outside the list. Static storage. */
TUTTI_API const char *tutti_operation_name(tutti_operation operation);

TUTTI_END_DECLS

#endif
