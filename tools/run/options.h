/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line of `tutti run` says. */
#ifndef TOOLS_RUN_OPTIONS_H
#define TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host/cpu_set.h"

#define TTI_MAX_RANKS 4096
#define TTI_MAX_NODES 512 /* each costs node 0 two threads */

enum tti_bind { TTI_BIND_CORE, TTI_BIND_NUMA, TTI_BIND_NONE };

struct tti_run_options {
    int ranks;
    int cpus_usable;      /* affinity, --cpus and cgroup quota taken together */
    struct tti_cpus cpus; /* the CPUs the job may use */
    bool cpus_given;
    enum tti_bind bind;
    const char *backend; /* NULL = not said */
    int64_t timeout_ms;  /* -1 = none */
    int64_t grace_ms;
    int max_restarts;
    bool keep_going; /* ranks that fail are lost, and no more */
    int nodes;       /* launchers that make up the job */
    int node_rank;
    const char *master_addr; /* NULL = not said */
    int master_port;
    int64_t join_timeout_ms;
    int64_t node_timeout_ms;
    const char *log_dir; /* NULL = none */
    const char *trace_dir;
    const char *metrics_file;
    int only_rank; /* -1 = all */
    bool prefix;
    bool dry_run;
    bool verbose;
    const char **env; /* --env K=V, in the order given; the caller frees the list */
    size_t env_count;
    char **program; /* the program and its arguments, closed by NULL */
};

/* Reads the command line. Does not return on --help or a usage error (exit 0 or 2). */
void tti_run_options_parse(struct tti_run_options *options, int argc, char **argv);

#endif
