/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of `tutti bench` share.
 *
 * A row of the table is one collective at one size in one form (out of place, in place). Every rank walks through the
 * same rows; what decides about the way (how many iterations, whether something failed) the ranks agree on.
 */
#ifndef TTI_BENCH_BENCH_H
#define TTI_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

#define TTI_BENCH_RANKS      1024 /* at most */
#define TTI_BENCH_ITERATIONS 2000 /* of a row at most, unless the user says how many */
#define TTI_BENCH_BATCH      20   /* calls that are timed together ... */
#define TTI_BENCH_SMALL      4096 /* ... below this size */

struct tti_bench_collective;

struct tti_bench_options {
    bool overlap;       /* `tutti bench overlap` instead of a collective */
    bool async;         /* the asynchronous form beside the synchronous one */
    const char *beside; /* NAME[:SETTINGS] of who is measured in turn with Tutti, or NULL */
    bool roofline;      /* measure what the machine allows, too */
    bool heap;          /* Tutti's buffers lie in the group's heap */
    uint32_t chosen;    /* collectives: a bit for each; 0 = each in turn */
    int ranks;          /* 0 = not said */
    int64_t least;      /* sizes in bytes */
    int64_t most;
    int64_t factor;
    tutti_dtype dtype;
    tutti_reduce_op op;
    int root;
    int iterations;  /* 0 = as many as the time allows */
    int64_t step_ms; /* overlap: length of a step's computation, and of its communication */
    int pieces;      /* overlap: of a pipeline */
    const char *backend;
    const char *device; /* NULL = as the library decides */
    const char *json;   /* file to write, or NULL */
};

/* ---- tool.c: the command line ---- */

struct argp_state;

/* The number that `text` says; ends the program if it is none within the bounds. */
int64_t tti_bench_number(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                         int64_t maximum);
/* Measures as a rank of the job, or else starts ranks that do: threads, or processes that get these words, closed by
 * NULL, after `tutti bench`. The exit code. */
int tti_bench_start(struct tti_bench_options *options, char **words);

/* ---- collectives.c: what is measured ---- */

enum {
    TTI_BENCH_REDUCES = 1,
    TTI_BENCH_ROOT_INPUT = 2,    /* only the root has an input                                       */
    TTI_BENCH_ROOT_OUTPUT = 4,   /* only the root has an output                                      */
    TTI_BENCH_WHOLE_INPUT = 8,   /* the input consists of one part for each rank                     */
    TTI_BENCH_WHOLE_OUTPUT = 16, /* the output does                                                  */
    TTI_BENCH_IN_PLACE = 32,     /* has an in-place form beside the other                            */
    TTI_BENCH_ONE_TENSOR = 64,   /* its only tensor is input and output                              */
    TTI_BENCH_NEIGHBOUR = 128,   /* the output comes from the rank before this one                   */
    TTI_BENCH_EMPTY = 256        /* has no tensors                                                   */
};

/* Bytes on the bus for each byte of size, as nccl-tests counts them for n ranks. */
enum tti_bench_bus {
    TTI_BENCH_BUS_ONE,    /* 1          */
    TTI_BENCH_BUS_OTHERS, /* (n-1)/n    */
    TTI_BENCH_BUS_TWICE   /* 2 (n-1)/n  */
};

struct tti_bench;

/* The tensors of one call; NULL where the collective takes none on this rank. */
struct tti_bench_tensors {
    DLTensor input;
    DLTensor output;
    const DLTensor *in;
    DLTensor *out;
};

struct tti_bench_collective {
    const char *name;
    tutti_operation kind; /* SEND: to the next rank, and receive from the one before */
    unsigned traits;
    enum tti_bench_bus bus;
    tutti_status (*call)(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call);
    tutti_status (*start)(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                          tutti_work **work);
};

extern const struct tti_bench_collective tti_bench_collectives[];
extern const size_t tti_bench_collectives_count;

/* Whether the options want it. */
bool tti_bench_chosen(const struct tti_bench_options *options, const struct tti_bench_collective *collective);
/* The names of those that they want, with commas between them; "all" for all. Returns `text`. */
#define TTI_BENCH_NAMES 160
const char *tti_bench_chosen_names(const struct tti_bench_options *options, char text[TTI_BENCH_NAMES]);
/* By name, in any case, with or without '_' and '-' (allreduce, all-reduce); NULL if there is none. */
const struct tti_bench_collective *tti_bench_find(const char *name);
double tti_bench_bus_factor(enum tti_bench_bus bus, int ranks);

/* ---- data.c: what is sent, and what has to come ---- */

struct tti_bench_data;

/* Data for one collective, for all ranks; op 0 = nothing is reduced. NULL when memory is exhausted. */
struct tti_bench_data *tti_bench_data_create(int ranks, tutti_dtype dtype, tutti_reduce_op op, uint32_t capabilities);
void tti_bench_data_destroy(struct tti_bench_data *data);

/* The reduction of all ranks' inputs, as a source. */
#define TTI_BENCH_FOLD (-1)

/* Elements [first, first + count) of a rank's input in call number `number`. */
void tti_bench_data_fill(const struct tti_bench_data *data, void *out, int rank, uint64_t number, size_t first,
                         size_t count);
/* How many of these elements are not [first, first + count) of the source's in call number `number`. */
int64_t tti_bench_data_count_wrong(const struct tti_bench_data *data, const void *got, int source, uint64_t number,
                                   size_t first, size_t count);

/* ---- ranks.c: the whole run ---- */

struct tti_beside;
struct tti_roofline;
struct tti_arena;

/* One rank's view of the run. */
struct tti_bench {
    const struct tti_bench_options *options;
    const struct tti_bench_collective *collective;
    tutti_group *group;   /* what is measured */
    tutti_group *control; /* on the CPU, for what the ranks agree on; the same group if that works there */
    int rank;
    int size;
    size_t item;         /* bytes of an element */
    unsigned char *left; /* memory for inputs, and for outputs, on the group's device */
    unsigned char *right;
    size_t capacity; /* bytes of each */
    struct tti_arena
        *arena;            /* NULL: the group works on the CPU; else what the buffers are filled and read through ... */
    unsigned char *mirror; /* ... by way of as many bytes of host memory */
    int64_t *samples;      /* sets of them, one behind the other */
    int sample_capacity;   /* of a set */
    struct tti_bench_data *data;
    uint64_t number;               /* of the next call: gives every call its own data */
    int64_t lead_ns;               /* how far ahead the ranks set a common start; 0 = they have no common clock */
    bool shares_cpu;               /* there are more ranks than CPUs */
    struct tti_beside *beside;     /* NULL = Tutti is alone */
    struct tti_roofline *roofline; /* NULL = not wanted */
    tutti_error error;
};

int tti_bench_run_threads(const struct tti_bench_options *options);
int tti_bench_join(const struct tti_bench_options *options);
/* Says on standard error what went wrong, and returns false. */
bool tti_bench_print_error(const struct tti_bench *b, const char *doing, const char *why);

/* ---- buffers.c: what is sent and received, in host memory or a device's ---- */

/* The two memories of b->capacity bytes, in the group's heap or of the rank's own; false after saying why. Collective. */
bool tti_bench_open_memory(struct tti_bench *b, bool heap);
void tti_bench_close_memory(struct tti_bench *b, bool heap);
/* Where to write what memory of b->left or b->right shall hold, and, when that is written, the end of it. */
void *tti_bench_write_begin(const struct tti_bench *b, void *memory);
tutti_status tti_bench_write_end(struct tti_bench *b, void *memory, size_t bytes);
/* Where to read what it holds, until the next call of these; NULL on failure, and b->error tells. */
const void *tti_bench_read(struct tti_bench *b, const void *memory, size_t bytes);

/* ---- samples.c: times, and what the ranks agree on ---- */

struct tti_bench_times {
    double p50_us;
    double p99_us;
    double min_us;
    double max_us;
};

/* Combines int64 numbers of all ranks, in place. On failure b->error tells, here and below. */
tutti_status tti_bench_agree(struct tti_bench *b, int64_t *values, int64_t count, tutti_reduce_op op);
/* Waits until all ranks are there; *start becomes the moment from which this rank's time counts. */
tutti_status tti_bench_barrier(struct tti_bench *b, int64_t *start);
/* The samples of set number `set`, in nanoseconds. */
int64_t *tti_bench_samples(const struct tti_bench *b, int set);
/* Gives each sample the value of the slowest rank. */
tutti_status tti_bench_slowest(struct tti_bench *b, int set, int count);
/* Sums up samples of `batch` calls each, and sorts them. */
void tti_bench_sum_up(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times);
/* Both together. The same on every rank. */
tutti_status tti_bench_times_of(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times);

/* ---- measure.c: one row ---- */

/* What is called in an iteration: the sets of samples. */
enum tti_bench_form {
    TTI_BENCH_SYNC,
    TTI_BENCH_PEER, /* what is measured beside Tutti */
    TTI_BENCH_ASYNC,
    TTI_BENCH_SUBMIT, /* as ASYNC, and one call's start is timed instead of the whole */
    TTI_BENCH_FORMS
};

/* Tutti against the one beside it. */
struct tti_bench_ratio {
    double median; /* Tutti's median over the other's: below 1 Tutti is faster */
    double low;    /* the interval that holds 95 % of what resampling gives */
    double high;
};

/* What the one beside Tutti did in the same row. */
struct tti_bench_versus {
    bool measured; /* false: it has no native call for this */
    int batch;
    struct tti_bench_times time;
    double alg_bw;
    double bus_bw;
    int64_t wrong;
    struct tti_bench_ratio ratio;
};

/* A form of a row: the result of many iterations. */
struct tti_bench_result {
    bool measured;
    bool in_place;
    int64_t bytes; /* size */
    int64_t count; /* elements of the tensor, or of one part */
    int iterations;
    int batch;
    struct tti_bench_times time;
    struct tti_bench_times
        submit; /* these two only with options->async: then `time` is that of the asynchronous form */
    struct tti_bench_times sync;
    double alg_bw; /* 1e9 bytes per second */
    double bus_bw;
    int64_t wrong;                  /* elements, of all ranks */
    struct tti_bench_versus versus; /* only with b->beside */
    double hop_ns[2];               /* only with b->roofline: before and after; 0 = unknown */
    double bound_us;                /* likewise; 0 = there is none */
    const char *algorithm;          /* how the last call ran here, as the engine says; NULL = unknown */
};

/* Bytes of each of a rank's two memories that these options need. */
int64_t tti_bench_capacity(const struct tti_bench_options *options, int ranks);
/* Elements of the tensor or of one part at a size, at least 1; 0 for a collective without tensors. */
int64_t tti_bench_count(const struct tti_bench *b, int64_t bytes);
/* Measures b->collective, with the same result on every rank. On failure b->error tells. */
tutti_status tti_bench_measure(struct tti_bench *b, int64_t count, bool in_place, struct tti_bench_result *result);

/* ---- async.c: the asynchronous form ---- */

/* Starts, waits, and gives the handle back; *submit_ns, unless NULL, gets the time that starting took. */
tutti_status tti_bench_call_async(struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  int64_t *submit_ns);
/* What one reading of the clock takes, and is part of each submit_ns. */
int64_t tti_bench_clock_ns(void);

/* ---- machine.c: what the numbers were measured on ---- */

struct tti_bench_machine {
    char cpu[128];
    char kernel[128];
    const char *isa;
    int cpus; /* that the ranks may use, all together */
    double ranks_per_cpu;
    int64_t clock_ns;  /* of one reading */
    char *description; /* of the group */
};

/* Collective. On failure b->error tells. */
tutti_status tti_bench_machine_create(struct tti_bench *b, struct tti_bench_machine *machine);
void tti_bench_machine_destroy(struct tti_bench_machine *machine);

/* ---- report.c, json.c: what rank 0 tells ---- */

void tti_bench_print_header(const struct tti_bench *b, const struct tti_bench_machine *machine);
void tti_bench_print_title(const struct tti_bench *b);
void tti_bench_print_row(const struct tti_bench *b, const struct tti_bench_result *out_of_place,
                         const struct tti_bench_result *in_place);
void tti_bench_print_footer(int64_t wrong, double bus_bw_sum, int results);
void tti_bench_print_wrong(int64_t wrong);

struct json_t;

/* An object with "config" and empty "results"; NULL when memory is exhausted. */
struct json_t *tti_bench_json_create(const struct tti_bench *b, const struct tti_bench_machine *machine);
bool tti_bench_json_add(struct json_t *root, const struct tti_bench *b, const struct tti_bench_result *result);
/* An object of the four numbers; NULL when memory is exhausted. */
struct json_t *tti_bench_json_times(const struct tti_bench_times *times);
/* Writes it and closes the file, in any case. */
bool tti_bench_json_write(struct json_t *root, FILE *file);
void tti_bench_json_destroy(struct json_t *root);

/* What the columns type, redop and root say. */
const char *tti_bench_type(const struct tti_bench *b);
const char *tti_bench_redop(const struct tti_bench *b);
int tti_bench_root(const struct tti_bench *b);

#endif
