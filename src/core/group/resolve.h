/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which engine runs a group, and where its tensors lie: decided by every rank from the same records of all ranks by the
 * same rules, so all decide alike.
 */
#ifndef TTI_CORE_RESOLVE_H
#define TTI_CORE_RESOLVE_H

#include <stdbool.h>

#include "base/proc.h"
#include "core/group/group.h"
#include "core/membership/same_host.h"

/* One rank's record. Fixed layout: it travels between processes. */
struct tti_hello {
    uint32_t magic;
    uint32_t version;
    int32_t size;
    int32_t lanes;
    struct tti_proc_id process;
    struct tti_site site;
    /* Filled in by who reads the records of all: same_host.h */
    uint64_t host;    /* the same for ranks on one host */
    uint64_t machine; /* the same, whatever TUTTI_HOST_ID says */
    int32_t status;   /* this rank cannot take part, and why */
    int32_t device_type;
    int32_t device_index;
    int32_t checks_calls;
    int32_t serves;                      /* this rank serves the store */
    unsigned char uuid[TTI_DEVICE_UUID]; /* of the device; zeros for a CPU */
    char backend[40];                    /* the wish for the group's device */
    char host_backend[40];               /* the wish for host memory, if that is another one */
    char window[24];
    char chunk[24];
    char zero_copy[8];
    char heap[8];
    char inner[16]; /* what a composed engine is to be made of */
    char outer[16];
    char hier_chunk[24];
    char node[64];       /* the host's name, for people */
    char available[400]; /* names of the backends that can be used here, each followed by a blank */
    char unprobed[64];   /* likewise: of those that have not been asked, because nobody may need the answer */
    char message[300];   /* why this rank cannot take part, or why a backend that it asks for cannot be used here */
};

/* What a rank tells when all have come upon a backend that has not been asked. */
struct tti_backend_answer {
    char available[400];
    int32_t status; /* this rank could not find out, for lack of something */
    char message[300];
};

/* What the records say. */
struct tti_choice {
    const tutti_backend *backend;
    const tutti_backend
        *host;     /* for what `backend` cannot do; the same, unless it takes no host memory; NULL: there is none */
    bool unprobed; /* nothing has been chosen: all ranks have to answer first */
};

/* The devices of this rank, from the settings. NOT_AVAILABLE if one is not there. */
tutti_status tti_resolve_devices(struct tti_group_plan *plan, tutti_error *error);

/* Fills this rank's record; `status` and `error` (not NULL) say what has gone wrong here so far, and afterwards whether this
 * rank can take part, which the others read, too. */
tutti_status tti_hello_fill(const struct tti_group_plan *plan, tutti_status status, struct tti_hello *h,
                            tutti_error *error);

/* Looks at the record of rank `r`: OK if it fits the own one. */
tutti_status tti_hello_check(const struct tti_group_plan *plan, const struct tti_hello *own, struct tti_hello *h, int r,
                             tutti_error *error);

/* Asks all backends that were left out of a record of this rank; and what comes of that for a record of any rank. */
void tti_hello_probe_backends(const struct tti_hello *h, struct tti_backend_answer *answer);
void tti_hello_merge(struct tti_hello *h, const struct tti_backend_answer *answer);
/* Looks at the answer of rank `r`: OK if that has found out all it was to. */
tutti_status tti_backend_answer_check(struct tti_backend_answer *answer, int r, tutti_error *error);

/*
 * The engine of a group, from the records of all ranks. "auto": the highest priority among those that can be used on all
 * ranks and fit where the ranks are. One that is made for threads of one process comes first when that is what they are.
 * OK with choice->unasked: that hangs on backends that have not been asked; once all ranks have answered, choose again.
 */
tutti_status tti_resolve(const struct tti_group_plan *plan, const struct tti_hello *all, struct tti_choice *choice,
                         tutti_error *error);

/*
 * An engine for some of the ranks: `ranks` are their numbers in `all`. "auto" takes the best one for them that is not itself
 * composed, by their hosts. One that is named may also join hosts that are one machine in truth. NOT_FOUND, NOT_AVAILABLE.
 */
tutti_status tti_resolve_engine(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                                const tutti_backend **backend, tutti_error *error);

/* Why "auto" has passed over the engine that shares memory, in one sentence. False: it has not, or the ranks are on hosts that
 * have nothing in common. */
bool tti_resolve_shm_unused(const struct tti_hello *all, int32_t size, const tutti_backend *chosen, char *text,
                            size_t capacity);

/* Whether it takes no host memory. */
bool tti_resolve_needs_device(const tutti_backend *backend);

/* The capability that says that a backend takes memory of such a device as it is; 0 for the CPU's. */
uint32_t tti_resolve_capability(DLDeviceType type);

#endif
