/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a group over MPI, and the tags and sizes that its files share. The plug-in is compiled once for each
 * binary interface of MPI. A group is one communicator for messages and failure notices, one communicator for each
 * lane, and the messages in progress.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_TYPES_H
#define TTI_BACKENDS_MPI_PLUGIN_TYPES_H

#include <assert.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/mpi/plugin/messages/types.h"

/* The most elements or bytes in one call of MPI: counts are int. A multiple of every element size, and of a page. */
#define TTI_MPI_MAX_COUNT ((size_t)1 << 30)

/* Tags. The first four are used on the communicator for messages; TTI_MPI_TAG_DATA begins a range for large data. The
 * last two are used on the communicators of lanes. */
enum {
    TTI_MPI_TAG_ENVELOPE = 0,
    TTI_MPI_TAG_FAILURE = 1,
    TTI_MPI_TAG_CLOSED = 2, /* the last message of a rank that has closed the group: struct tti_mpi_last_message */
    TTI_MPI_TAG_DATA = 3,
    TTI_MPI_TAG_ENTRY = 4,
    TTI_MPI_TAG_PART = 5
};

/* What a rank sends to every other rank before a collective: see entry_barrier.c. The layout is fixed, since it is
 * sent between processes. With 8 bytes of data and MPI's headers it fits one cache line. */
struct tti_mpi_call_record {
    union {
        uint64_t descriptor[2];
        struct {
            uint64_t first;    /* of the descriptor, never 0 */
            uint64_t expected; /* with a decision: the bytes that the sender expects from that rank */
        };
    };
    union {
        uint64_t bytes; /* all_to_all_v: for the receiver of this record; with a decision: those of that rank */
        double scale;   /* PREMUL_SUM: this rank's factor */
    };
    uint32_t call : 24;  /* its last bits */
    uint32_t failed : 8; /* the status for which the sender cannot take part, or OK */
    int32_t decision;    /* second round of all_to_all_v: a rank that sends another number of bytes, or -1 */
};
static_assert(sizeof(struct tti_mpi_call_record) == 32, "no padding");
static_assert(TUTTI_REVOKED <= UINT8_MAX, "a status fits");

/* The last message of a rank that has closed the group: how many calls it has made on each lane. A rank without memory
 * for it sends an empty message instead. */
struct tti_mpi_last_message {
    int64_t calls[TUTTI_MAX_LANES];
};

/* The bytes that a rank sends instead of its next call record when its process ends. No call record is so short. */
enum {
    TTI_MPI_LEFT_INSIDE = 1, /* in a call, or without MPI_Finalize: ranks still inside wait for it in vain */
    TTI_MPI_LEFT_BETWEEN = 2 /* after a call has ended well: MPI_Finalize sends what ranks still inside need of it */
};

/* The most bytes of data that are sent with a call record: every MPI library sends them eagerly. */
#define TTI_MPI_SMALL       2048u
#define TTI_MPI_RECORD_ROOM (sizeof(struct tti_mpi_call_record) + TTI_MPI_SMALL)
#define TTI_MPI_RECORD_STEP ((TTI_MPI_RECORD_ROOM + 63) / 64 * 64)

/* Where the parts of an all_reduce come from and go to: one of each for every rank. */
struct tti_mpi_parts {
    char **to;
    size_t *in;
    const char **from;
    size_t *out;
};

struct tti_mpi_lane {
    MPI_Comm comm;           /* of this lane only */
    _Atomic int64_t calls;   /* relaxed: the lane's owner counts, the watchdog reads */
    _Atomic int32_t inside;  /* the operation in progress, or 0; stored seq_cst before `failed` is loaded */
    int64_t seen_call;       /* by the watchdog */
    int ticks;               /* likewise: how long it has seen this call */
    bool reported;           /* likewise: a group has failed with this call in progress */
    bool ended_well;         /* the last call; also before the first one */
    _Atomic int32_t awaited; /* the lowest rank that an entry barrier waits for, or -1; relaxed: a hint for sentences */
    bool ends_at_entry;      /* the call in progress does */
    int64_t seen_tick;       /* of a coarse clock, see notices_are_due in entry_barrier.c */
    unsigned char *records;  /* TTI_MPI_RECORD_ROOM bytes for each rank, in steps of TTI_MPI_RECORD_STEP */
    void **data;             /* behind each record */
    double *scales;          /* one per rank */
    struct tti_mpi_call_record *pair_records; /* one per rank: all_to_all_v sends a different record to each */
    MPI_Request *requests;                    /* 2 per rank, receives and sends; MPI_REQUEST_NULL between calls */
    struct tti_mpi_parts parts;
    unsigned char *scratch; /* grows, is kept */
    size_t scratch_bytes;
    /* arguments that MPI reads until a call has ended */
    int *lists;          /* 4 per rank */
    MPI_Datatype *types; /* 2 per rank */
};

static inline struct tti_mpi_call_record *tti_mpi_call_record_of(const struct tti_mpi_lane *lane, int rank)
{
    return (struct tti_mpi_call_record *)(void *)(lane->records + (size_t)rank * TTI_MPI_RECORD_STEP);
}

struct tti_mpi_group {
    int rank;
    int size;
    int lanes;
    size_t window;                   /* elements of scratch memory for each part; the same on all ranks */
    bool blocking;                   /* mpi.blocking=always on all ranks: MPI's blocking functions, no deadlines */
    uint32_t device;                 /* TUTTI_CAP_CUDA or _ROCM if MPI takes such memory on every rank; else 0 */
    int world_rank;                  /* for sentences */
    struct tti_mpi_profile *profile; /* or NULL */
    MPI_Comm control;                /* for messages and failure notices */
    struct tti_mpi_group *next_open;
    _Atomic int32_t users;                      /* threads in MPI outside collectives; see tti_mpi_use */
    struct tti_mpi_group *next_failed;          /* written once */
    bool kept;                                  /* in the list of failed groups, until the process ends */
    bool retired;                               /* it has failed only because the process ends */
    struct tti_mpi_envelope_head left_envelope; /* the last envelope to the other ranks then */
    pthread_mutex_t lock;                       /* over `cause` and `last` */
    tutti_error cause;
    MPI_Request *notifications; /* of the failure notices to the other ranks */
    /* Under `lock`: the last messages that have arrived while this rank's group is open. */
    struct tti_mpi_last_message *last; /* of each rank; INT64_MAX in all lanes: it has not closed the group */
    int32_t closed_count;
    struct tti_mpi_messages messages;
    /* what a small call reads shares a cache line with the first fields of lane 0 */
    _Alignas(64) int64_t timeout_ms;
    _Atomic int32_t failed; /* a status; release, after the cause is written */
    struct tti_mpi_lane lane[TUTTI_MAX_LANES];
};

#endif
