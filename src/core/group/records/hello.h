/* SPDX-License-Identifier: BSD-3-Clause */
/* The records that ranks exchange while they form a group. Types only: see resolve.c, same_host.c. */
#ifndef TTI_CORE_GROUP_RECORDS_HELLO_H
#define TTI_CORE_GROUP_RECORDS_HELLO_H

#include "base/process/proc.h"
#include "device/device.h"

#define TTI_SITE_REASON 200

/* Where a rank is, as its kernel reports it. 0 = not known, each. Fixed layout: it is sent between processes. */
struct tti_site {
    uint64_t boot;         /* this start of the machine */
    uint64_t network;      /* its network namespace, which abstract sockets belong to */
    uint64_t users;        /* its user namespace */
    uint64_t directory[2]; /* device and inode of shm.directory */
    uint64_t host_id;      /* TUTTI_HOST_ID */
    uint32_t user;         /* as the user namespace shows it */
    uint32_t by_directory; /* found by reading all records: memory is handed over through sockets there */
    /* Found by a trial: why the rank cannot reach the first rank of its host. */
    char unreachable_reason[TTI_SITE_REASON];
};

/* One rank's record. Fixed layout: it is sent between processes. */
struct tti_hello {
    uint32_t magic;
    uint32_t version;
    int32_t size;
    int32_t lanes;
    struct tti_proc_id process;
    struct tti_site site;
    /* Computed by each rank that has read all records: same_host.h */
    uint64_t host;    /* the same for ranks on one host */
    uint64_t machine; /* the same without regard to TUTTI_HOST_ID */
    int32_t status;   /* this rank cannot take part, and why */
    int32_t device_type;
    int32_t device_index;
    int32_t checks_calls;
    int32_t serves;                      /* this rank serves the store */
    unsigned char uuid[TTI_DEVICE_UUID]; /* of the device; zeros for a CPU */
    char backend[40];                    /* the setting for the group's device */
    char host_backend[40];               /* the setting for host memory, if that is another one */
    char window[24];
    char chunk[24];
    char zero_copy[8];
    char heap[8];
    char inner[16]; /* the parts of a composed engine */
    char outer[16];
    char hier_chunk[24];
    char node[64];       /* the host's name, for people */
    char available[400]; /* names of the backends that can be used here, each followed by a blank */
    char unprobed[64];   /* likewise: of those that are not probed, because the result may not be needed */
    char message[300];   /* why this rank cannot take part, or why a backend that it names cannot be used here */
};

/* The results of a late probe: see choose.c. */
struct tti_backend_answer {
    char available[400];
    int32_t status; /* a resource error: this rank could not find out */
    char message[300];
};

#endif
