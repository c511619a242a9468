/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti bench --vs`: Tutti against other libraries, each started by its own launcher, in one session.
 *
 * A contender is a library with certain settings. A block is one job of one contender: its ranks run `tutti bench
 * --beside`, which calls Tutti and the contender in turn, so that a block holds pairs. The blocks of all contenders
 * follow one another, and then again, as often as there are repetitions. What came out of all blocks for one
 * collective, size, form, placement and class of hop is a cell.
 */
#ifndef TTI_BENCH_COMPARE_H
#define TTI_BENCH_COMPARE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/bench.h"

#define TTI_COMPARE_CONTENDERS 24
#define TTI_COMPARE_REPEAT     99 /* at most */
#define TTI_COMPARE_WORDS      48 /* of a command line */

/* Which settings of a library are meant when only its name is given. */
enum tti_compare_profile { TTI_COMPARE_ALL, TTI_COMPARE_DEFAULTS, TTI_COMPARE_TUNED };

extern const char *const tti_compare_profiles[];

struct tti_compare_options {
    const char *vs;   /* NULL = no comparison */
    const char *plot; /* files to write, or NULL */
    const char *record;
    enum tti_compare_profile profile;
    int repeat;
    int64_t limit_ms;  /* of a block; 0 = by the number of its rows */
    int64_t heap_from; /* also with Tutti's buffers in the heap, from this size on; 0 = not */
    const char *keep;  /* folder for what blocks have measured, or NULL */
};

/* ---- compare.c ---- */

/* By its name on the command line: all, defaults, tuned. */
bool tti_compare_profile_parse(const char *name, enum tti_compare_profile *profile);
/* Runs the whole comparison, outside of any launcher. The exit code of the program. */
int tti_compare_start(const struct tti_bench_options *options, const struct tti_compare_options *compare);

/* ---- compare_contenders.c: who takes part, and how it is started ---- */

struct tti_compare_contender {
    char *name;                     /* as columns and files call it: openmpi/t */
    const char *library;            /* openmpi */
    const char *settings;           /* t */
    char *beside;                   /* what --beside gets; NULL for a program that measures by itself */
    char *path;                     /* of that program, or of the launcher; NULL while it is missing */
    char *script;                   /* what that program is to run, or NULL */
    const char *const *launch;      /* words between launcher and number of ranks, closed by NULL; or NULL */
    const char *const *environment; /* variables on top, closed by NULL; or NULL */
    const char *only;               /* the one collective in which its settings make a difference, or NULL */
    bool own;                       /* Tutti with other settings: no peer */
    char *missing;                  /* why it cannot take part, and what to install; or NULL */
    char version[160];
    int blocks; /* that have ended, well or not */
    int failed; /* of these */
    int64_t wrong;
    char *failure; /* of the last block that failed */
    double seconds;
};

struct tti_comparison;

/* Reads the list `compare->vs`. False if it cannot be understood, having said why. */
bool tti_compare_contenders(struct tti_comparison *c);
/* Says of each contender what is missing, if something is. */
void tti_compare_find_programs(struct tti_comparison *c);
void tti_compare_contender_free(struct tti_compare_contender *contender);

/* Command lines, their words closed by NULL. */
struct tti_compare_command {
    const char *words[TTI_COMPARE_WORDS];
    int count;
    char names[TTI_BENCH_NAMES]; /* memory for the list of collectives, and for words that are numbers */
    char numbers[9][24];
    int numbers_used;
};

/* The first size at which the heap is compared, too; 0 if there is none. */
int64_t tti_compare_heap_from(const struct tti_comparison *c);
/* The block of a contender that Tutti runs beside; the file for the JSON is added if it is not NULL. */
void tti_compare_command_beside(const struct tti_comparison *c, const struct tti_compare_contender *contender,
                                bool heap, const char *json, struct tti_compare_command *command);
/* Tutti alone, as the counterpart of a program. */
void tti_compare_command_alone(const struct tti_comparison *c, bool heap, const char *json,
                               struct tti_compare_command *command);
/* A program that measures by itself. */
void tti_compare_command_program(const struct tti_comparison *c, const struct tti_compare_contender *contender,
                                 bool heap, struct tti_compare_command *command);
/* As one line, with the variables before it; NULL when memory is exhausted. */
char *tti_compare_command_line(const struct tti_comparison *c, const struct tti_compare_contender *contender,
                               const struct tti_compare_command *command);

/* ---- compare_process.c: a block's processes ---- */

struct tti_compare_signals {
    int fd;
    sigset_t original;
    void (*original_pipe)(int);
    size_t open_files;
};

struct tti_compare_job {
    char *const *words;
    const char *const *environment; /* variables on top; or NULL */
    int out;                        /* standard output and error */
    int err;
    int64_t limit_ms;
};

bool tti_compare_signals_open(struct tti_compare_signals *signals);
void tti_compare_signals_close(struct tti_compare_signals *signals);

/* Runs a job to its end; afterwards none of its processes is left. 0 if it ended with exit code 0, the number of the
 * signal that asked this program to end, or -1 and a sentence in `why`. */
int tti_compare_run(const struct tti_compare_job *job, const struct tti_compare_signals *signals, char *why,
                    size_t capacity);

/* ---- compare_cells.c: from a block's JSON to cells ---- */

/* Two ranks are on CPUs near each other or far, or on the same one, as the hop of a cache line between them says that
 * was measured before and after; MOVED: it was not of the same class. With more ranks than CPUs it is always SAME. */
enum tti_compare_hop {
    TTI_COMPARE_UNKNOWN,
    TTI_COMPARE_NEAR,
    TTI_COMPARE_FAR,
    TTI_COMPARE_SAME,
    TTI_COMPARE_MOVED,
    TTI_COMPARE_HOPS
};

/* A row of one block. */
struct tti_compare_sample {
    enum tti_compare_hop hop;
    int contender; /* in whose block it was taken */
    int repetition;
    double hop_ns[2]; /* 0: not known */
    double p50, p99, min, max;
    double ratio, low, high; /* Tutti's time over this; 0 on Tutti's own rows */
    double bound_us;         /* lower bound of the time, 0 = not known */
};

/* The samples of Tutti, or of one contender, in one cell; and what they say together. */
struct tti_compare_entry {
    struct tti_compare_sample *samples;
    int count;
    double p50, p99, min, max;
    double ratio, low, high;
    double bound_us; /* 0 = not known */
};

struct tti_compare_cell {
    const char *collective;
    int order; /* of the collective */
    int64_t size;
    int64_t count;
    char type[16];
    char redop[16];
    int root;
    bool in_place;
    bool heap;
    char algorithm[16]; /* how Tutti's call ran in the last block; "" = unknown */
    enum tti_compare_hop hop;
    struct tti_compare_entry tutti;
    struct tti_compare_entry *peers; /* one for each contender */
    int best;                        /* contender, -1 = none to compare with */
    bool lost;                       /* the interval of its ratio lies wholly above 1 */
    bool main;                       /* of the cells that differ in their hop class only, the one with most samples */
    bool partial;                    /* a contender was measured in another class only */
    bool tabulated;                  /* in tables */
    bool counted;                    /* in means and numbers of cells */
};

/* Geometric mean of ratios, and of how many. */
struct tti_compare_mean {
    double log_sum;
    int cells;
    int lost;
};

struct tti_comparison {
    const struct tti_bench_options *options;
    const struct tti_compare_options *compare;
    const char *self; /* this program */
    struct tti_compare_contender contenders[TTI_COMPARE_CONTENDERS];
    int contender_count;
    struct tti_compare_cell *cells;
    size_t cell_count;
    struct tti_compare_mean all;
    struct json_t *config; /* of Tutti's first block: the machine */
    int64_t wrong;         /* elements that Tutti got wrong */
    double seconds;        /* of the whole comparison */
};

struct json_t;

/* Takes the rows of a block. False if the document is not what it should be. */
bool tti_compare_take_block(struct tti_comparison *c, int contender, int repetition, struct json_t *document, char *why,
                            size_t capacity);
/* The rows of Tutti alone and of a program that ran after it. */
bool tti_compare_take_pair(struct tti_comparison *c, int contender, int repetition, struct json_t *alone,
                           struct json_t *program, char *why, size_t capacity);
void tti_compare_cells_free(struct tti_comparison *c);

/* ---- compare_keep.c: blocks that outlive an interruption ---- */

struct tti_compare_block {
    int contender;
    int repetition;
    bool heap;
};

/* Makes the folder if need be; false after saying why not. Nothing to do, here and below, without one. */
bool tti_compare_cache_open(const struct tti_comparison *c);
/* The documents of a block that the same program has run before, in an array; NULL if there are none. */
struct json_t *tti_compare_cache_load(const struct tti_comparison *c, const struct tti_compare_block *block,
                                      double *seconds);
/* Keeps them. False and the reason if they cannot be written. */
bool tti_compare_cache_store(const struct tti_comparison *c, const struct tti_compare_block *block,
                             struct json_t *documents, double seconds, char *why, size_t capacity);

/* ---- compare_judge.c: what the cells say ---- */

/* Combines the repetitions of each cell, finds the best peers, drops what cannot be judged, and sorts the cells. */
void tti_compare_evaluate(struct tti_comparison *c);
/* The mean over all cells of a collective (NULL = all) and placement (-1 = both). */
struct tti_compare_mean tti_compare_mean_of(const struct tti_comparison *c, const char *collective, int heap);
/* The mean of the ratios to one contender. */
struct tti_compare_mean tti_compare_mean_to(const struct tti_comparison *c, int contender);
/* 0 if there are no cells. */
double tti_compare_mean_value(const struct tti_compare_mean *mean);
/* Whether the interval of a contender's ratio lies wholly above 1. One repetition of a program that measures by itself has
 * no interval. */
bool tti_compare_wins(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender);
/* Whether a contender was measured in a cell that differs in the hop class only. */
bool tti_compare_measured_elsewhere(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender);
/* Main cells in which a contender was measured, but not in the cell's hop class. */
int tti_compare_count_elsewhere(const struct tti_comparison *c, int contender);

/* ---- compare_table.c, compare_record.c, compare_json.c, compare_plot.c: what is told ---- */

void tti_compare_print(const struct tti_comparison *c);
/* These close the file in any case; false if it cannot be written. */
bool tti_compare_record(const struct tti_comparison *c, FILE *file);
bool tti_compare_json(const struct tti_comparison *c, FILE *file);
bool tti_compare_plot(const struct tti_comparison *c, FILE *file);

#define TTI_COMPARE_TEXT 32

/* A time in us, and a size, in a form that is short to read. They return `text`. */
const char *tti_compare_time(double us, char text[TTI_COMPARE_TEXT]);
const char *tti_compare_size(int64_t bytes, char text[TTI_COMPARE_TEXT]);
const char *tti_compare_ratio(double ratio, char text[TTI_COMPARE_TEXT]);
const char *tti_compare_hop_name(enum tti_compare_hop hop);
const char *tti_compare_place_name(const struct tti_compare_cell *cell);
/* Why there is no number for a contender in a cell. */
const char *tti_compare_missing_reason(const struct tti_comparison *c, const struct tti_compare_cell *cell,
                                       int contender);
/* "2.10 times as fast as the best peer" for a mean of 0.476. */
void tti_compare_mean_text(const struct tti_compare_mean *mean, char *text, size_t capacity);

#endif
