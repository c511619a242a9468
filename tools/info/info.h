/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti info`: facts of this machine and of the library. gather.c and system.c collect, text.c and json.c print. */
#ifndef TOOLS_INFO_INFO_H
#define TOOLS_INFO_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

#include "core/group/records/hello.h"
#include "core/launchers/world.h"
#include "core/membership/same_host.h"
#include "core/settings/settings.h"
#include "engine/memory/layout.h"
#include "engine/tuning/calibrate.h"
#include "engine/tuning/tuning.h"

#define TTI_INFO_BACKENDS 32
#define TTI_INFO_DEVICES  16 /* that are named, of each kind */
#define TTI_INFO_KINDS    3
#define TTI_INFO_SIZES    6 /* groups of 2, 4, ... 64 ranks */

struct tti_backend_info {
    const char *name;
    int32_t priority;
    uint32_t capabilities;
    bool available;
    char reason[256];   /* why not; "" when available */
    char choice[256];   /* mpi, nccl, rccl: which library was taken; else "" */
    char unheeded[512]; /* nccl, rccl: which settings it cannot honour, and why; else "" */
};

/* A kind of device. */
struct tti_devices_info {
    const char *name;
    bool available;
    char reason[256]; /* why not; "" when available */
    int count;
    char names[TTI_INFO_DEVICES][128]; /* of the first ones; "" where the driver does not report it */
    int driver;                        /* its version in the vendor's counting; 0 = there is none */
};

/* What the shared-memory engine needs of the kernel. */
struct tti_system_info {
    char kernel[128];  /* release */
    char machine[128]; /* architecture */
    char cpu[128];     /* model name, "unknown" if the kernel does not report it */
    char cpus[256];    /* those of the affinity mask, as a list */
    int cpu_count;     /* of them */
    double cpu_quota;  /* CPUs' worth of time that the cgroup grants, 0 = no limit */
    int64_t page_size;
    int64_t huge_page_size;   /* 0 = none */
    int64_t memory_available; /* bytes */
    char memfd[128];          /* "" = sealed memory files work, else why not */
    char futex_waitv[128];    /* "" = works, else why not */
};

struct tti_info {
    struct tti_system_info system;
    const char *isa;
    struct tti_devices_info devices[TTI_INFO_KINDS]; /* cpu, cuda, rocm */
    struct tti_backend_info backends[TTI_INFO_BACKENDS];
    int backend_count;
    const char
        *auto_processes;      /* the backend that "auto" takes for ranks that are processes of this host; NULL = none */
    const char *auto_threads; /* and for ranks that are threads */
    struct tti_site site;     /* by which ranks of one host find each other */
    tutti_error site_error;   /* status OK when `site` is valid */
    struct tti_world world;
    tutti_error world_error;                   /* status OK when `world` is valid */
    char unknown_variables[400];               /* see core/settings/variables.h */
    struct tti_settings *settings;             /* NULL: settings_error says why */
    tutti_error settings_error;                /* status OK when `settings` is valid */
    struct tti_calibration calibration;        /* what groups choose their thresholds by */
    struct tti_tuning tunings[TTI_INFO_SIZES]; /* and what they choose, of 2, 4, ... ranks on the CPUs available */
};

void tti_info_system(struct tti_system_info *system);
/* `again`: measures the machine again, and replaces the file. */
void tti_info_gather(struct tti_info *info, bool again);

/* The namespaces and the directory that decide whether this process shares memory with others. */
void tti_info_site(const struct tti_info *info, char *text, size_t capacity);

/* "built in", "from a file", "measured now". */
const char *tti_info_source_name(enum tti_calibrate_source source);

/* Ranks of the group that tunings[i] is for. */
static inline int tti_info_ranks(int i)
{
    return 2 << i;
}

/* Bytes that travel with the arrival: what the arrival line has room for, or more with packets. */
static inline uint64_t tti_info_packets(const struct tti_tuning *tuning)
{
    return tuning->packets > TTI_PAYLOAD ? tuning->packets : TTI_PAYLOAD;
}

/* The capability bits by name, separated by spaces. */
void tti_info_capabilities(uint32_t capabilities, char *text, size_t capacity);

/* "int", "bytes", ... */
const char *tti_info_type_name(tutti_config_type type);

void tti_info_print_text(const struct tti_info *info, bool settings);

/* False when memory is exhausted or the output cannot be written. */
bool tti_info_print_json(const struct tti_info *info, bool settings);

#endif
