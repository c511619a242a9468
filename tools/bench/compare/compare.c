/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The comparison from its first block to its last file. Blocks are interleaved: one repetition of every contender, then
 * the next one of every contender, so that a machine that changes does so for all of them. Documents and output of the
 * blocks are kept in memory: nothing lies about in a file system, whatever happens to this program.
 */
#include "bench/compare/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/launcher.h"
#include "run/run.h"
#include "tools.h"

#define FIXED_LIMIT_MS INT64_C(60000) /* a block may take this ... */
#define ROW_LIMIT_MS   INT64_C(20000) /* ... and this for each of its rows */
#define SHOWN_LINES    12             /* of what a failed block had to say */
#define WHY            256

/* What is open during the comparison. */
struct session {
    struct tti_comparison *c;
    struct tti_compare_signals signals;
    int json; /* files in memory: the ranks' document, and what a block writes to its standard output and error */
    int out;
    int err;
    char json_path[64];
    int blocks; /* in all, and done */
    int done;
    int cached; /* of these, those that were not run, and how long they took when they were */
    double cached_seconds;
    int64_t start_ns;
    bool terminal;
};

/* ---- progress ---- */

/* The rest, estimated by what blocks have taken so far. */
static double estimate(const struct session *s, double elapsed)
{
    return (elapsed + s->cached_seconds) / s->done * (s->blocks - s->done);
}

static void print_progress(const struct session *s, const struct tti_compare_contender *who, int repetition, bool heap)
{
    const double elapsed = (double)(tti_now_ns() - s->start_ns) / 1e9;
    const int seconds = (int)elapsed;
    const int rest = s->done > 0 ? (int)estimate(s, elapsed) : 0;
    fprintf(stderr, "%stutti bench: block %d of %d: %s%s, repetition %d of %d; %d:%02d elapsed",
            s->terminal ? "\r" : "", s->done + 1, s->blocks, who->name, heap ? " (heap)" : "", repetition + 1,
            s->c->compare->repeat, seconds / 60, seconds % 60);
    if (s->done > 0) {
        fprintf(stderr, ", about %d:%02d left", rest / 60, rest % 60);
    }
    fputs(s->terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
}

/* The next thing written to the terminal begins a line of its own. */
static void end_progress(const struct session *s)
{
    if (s->terminal) {
        fputs("\r\033[K", stderr);
    }
}

/* The last lines of what the block has written to its standard error. */
static void show_errors(const struct session *s)
{
    static char text[8192];
    const off_t size = lseek(s->err, 0, SEEK_END);
    const off_t from = size > (off_t)sizeof(text) - 1 ? size - (off_t)sizeof(text) + 1 : 0;
    const ssize_t length = pread(s->err, text, sizeof(text) - 1, from);
    text[length > 0 ? length : 0] = '\0';
    char *line = text + strlen(text);
    int lines = 0;
    while (line > text && lines < SHOWN_LINES) {
        line--;
        while (line > text && line[-1] != '\n') {
            line--;
        }
        lines++;
    }
    for (; *line != '\0'; line += *line == '\n') {
        const size_t width = strcspn(line, "\n");
        fprintf(stderr, "    | %.*s\n", (int)width, line);
        line += width;
    }
}

/* ---- blocks ---- */

static int64_t limit_of(const struct tti_comparison *c)
{
    int64_t rows = 0;
    if (c->compare->limit_ms > 0) {
        return c->compare->limit_ms;
    }
    for (int64_t bytes = c->options->least; bytes <= c->options->most; bytes *= c->options->factor) {
        rows++;
    }
    int64_t collectives = 0;
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        collectives += tti_bench_chosen(c->options, &tti_bench_collectives[i]);
    }
    return FIXED_LIMIT_MS + 4 * rows * collectives * ROW_LIMIT_MS; /* out of place and in place, private and heap */
}

/* Like tti_compare_run, with empty files for the output. */
static int run_command(struct session *s, const struct tti_compare_contender *who,
                       const struct tti_compare_command *command, char *why)
{
    const struct tti_compare_job job = {.words = (char *const *)(uintptr_t)command->words,
                                        .environment = who->environment,
                                        .out = s->out,
                                        .err = s->err,
                                        .limit_ms = limit_of(s->c)};
    const int files[] = {s->json, s->out, s->err};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (ftruncate(files[i], 0) != 0 || lseek(files[i], 0, SEEK_SET) != 0) {
            snprintf(why, WHY, "cannot empty a file in memory: %s", strerror(errno));
            return -1;
        }
    }
    return tti_compare_run(&job, &s->signals, why, WHY);
}

/* NULL and the reason if the file holds no document. */
static json_t *load(int file, char *why)
{
    json_error_t error;
    if (lseek(file, 0, SEEK_END) <= 0) {
        snprintf(why, WHY, "it has written no JSON");
        return NULL;
    }
    lseek(file, 0, SEEK_SET);
    json_t *document = json_loadfd(file, 0, &error);
    if (!document) {
        snprintf(why, WHY, "its JSON cannot be read: %s (line %d)", error.text, error.line);
    }
    return document;
}

/* Runs one command and reads its document from `file`. A job that found wrong results ends with exit code 1, and has
 * written them nevertheless. 0, the signal that asked to end, or -1 and the reason. */
static int run_and_load(struct session *s, const struct tti_compare_contender *who,
                        const struct tti_compare_command *command, int file, json_t **document, char *why)
{
    char ignored[WHY];
    const int result = run_command(s, who, command, why);
    *document = NULL;
    if (result > 0) {
        return result;
    }
    *document = load(file, result == 0 ? why : ignored);
    return *document ? 0 : -1;
}

/* The documents of a block's jobs, added to an array: those of Tutti beside the contender ... */
static int run_beside(struct session *s, const struct tti_compare_block *block, json_t *documents, char *why)
{
    struct tti_compare_command command;
    json_t *document = NULL;
    const struct tti_compare_contender *who = &s->c->contenders[block->contender];
    tti_compare_command_beside(s->c, who, block->heap, s->json_path, &command);
    const int result = run_and_load(s, who, &command, s->json, &document, why);
    json_array_append_new(documents, document);
    return result;
}

/* ... or of Tutti alone and then of the program. */
static int run_pair(struct session *s, const struct tti_compare_block *block, json_t *documents, char *why)
{
    struct tti_compare_command command;
    json_t *document = NULL;
    const struct tti_compare_contender *who = &s->c->contenders[block->contender];
    tti_compare_command_alone(s->c, block->heap, s->json_path, &command);
    int result = run_and_load(s, who, &command, s->json, &document, why);
    json_array_append_new(documents, document);
    if (result == 0) {
        tti_compare_command_program(s->c, who, block->heap, &command);
        result = run_and_load(s, who, &command, s->out, &document, why);
        json_array_append_new(documents, document);
    }
    return result;
}

static bool take(struct session *s, const struct tti_compare_block *block, json_t *documents, char *why)
{
    json_t *first = json_array_get(documents, 0);
    return s->c->contenders[block->contender].beside
               ? tti_compare_take_block(s->c, block->contender, block->repetition, first, why, WHY)
               : tti_compare_take_pair(s->c, block->contender, block->repetition, first, json_array_get(documents, 1),
                                       why, WHY);
}

/* Runs the block, unless what it has to say was kept. 0, the signal that asked to end, or -1 and the reason. */
static int run_or_load(struct session *s, const struct tti_compare_block *block, char *why, double *seconds)
{
    const int64_t start = tti_now_ns();
    const struct tti_compare_contender *who = &s->c->contenders[block->contender];
    json_t *documents = tti_compare_cache_load(s->c, block, seconds);
    const bool cached = documents != NULL;
    int result = 0;
    if (cached) {
        s->cached++;
        s->cached_seconds += *seconds;
    } else {
        documents = json_array();
        print_progress(s, who, block->repetition, block->heap);
        result = who->beside ? run_beside(s, block, documents, why) : run_pair(s, block, documents, why);
        end_progress(s);
        *seconds = (double)(tti_now_ns() - start) / 1e9;
    }
    if (result == 0 && !take(s, block, documents, why)) {
        result = -1;
    }
    if (result == 0 && !cached && !tti_compare_cache_store(s->c, block, documents, *seconds, why, WHY)) {
        result = -1;
    }
    json_decref(documents);
    return result;
}

/* The signal that asked to end, or 0: a block that fails costs only its own cells. */
static int run_block(struct session *s, int index, int repetition, bool heap)
{
    char why[WHY] = "";
    double seconds = 0;
    const struct tti_compare_block block = {.contender = index, .repetition = repetition, .heap = heap};
    struct tti_compare_contender *who = &s->c->contenders[index];
    const int result = run_or_load(s, &block, why, &seconds);
    if (result > 0) {
        return result;
    }
    who->seconds += seconds;
    who->blocks++;
    s->done++;
    if (result < 0) {
        who->failed++;
        free(who->failure);
        who->failure = strdup(why);
        fprintf(stderr, "tutti bench: %s, repetition %d failed: %s\n", who->name, repetition + 1, why);
        show_errors(s);
    }
    return 0;
}

static int run_blocks(struct session *s)
{
    const struct tti_comparison *c = s->c;
    for (int repetition = 0; repetition < c->compare->repeat; repetition++) {
        for (int i = 0; i < c->contender_count; i++) {
            const bool missing = c->contenders[i].missing != NULL;
            int asked = missing ? 0 : run_block(s, i, repetition, false);
            if (asked == 0 && !missing && tti_compare_heap_from(c) > 0) {
                asked = run_block(s, i, repetition, true);
            }
            if (asked != 0) {
                return asked;
            }
        }
    }
    return 0;
}

/* torch is there if a Python can import it: the one in PATH, or the system's. The signal that asked to end, or 0. */
static int try_torch(struct session *s, struct tti_compare_contender *who)
{
    static const char *const pythons[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
        char why[WHY];
        const struct tti_compare_command command = {
            .words = {pythons[i], "-c", "import torch.distributed as d; assert d.is_gloo_available()", NULL},
            .count = 3};
        const int result = run_command(s, who, &command, why);
        if (result > 0) {
            return result;
        }
        if (result == 0) {
            who->path = strdup(pythons[i]);
            return 0;
        }
    }
    who->missing = strdup("python3 cannot import torch.distributed with gloo; to have it: install python3-torch (the "
                          "name in Debian), or pip install torch");
    return 0;
}

/* The signal that asked to end, or 0. */
static int try_programs(struct session *s)
{
    int asked = 0;
    for (int i = 0; i < s->c->contender_count && asked == 0; i++) {
        struct tti_compare_contender *who = &s->c->contenders[i];
        if (!who->missing && who->script) {
            asked = try_torch(s, who);
        }
    }
    return asked;
}

/* ---- the whole ---- */

static bool open_session(struct session *s)
{
    s->json = memfd_create("tutti-bench-json", MFD_CLOEXEC);
    s->out = memfd_create("tutti-bench-out", MFD_CLOEXEC);
    s->err = memfd_create("tutti-bench-err", MFD_CLOEXEC);
    snprintf(s->json_path, sizeof(s->json_path), "/proc/%d/fd/%d", (int)getpid(), s->json);
    s->terminal = isatty(STDERR_FILENO) == 1;
    s->start_ns = tti_now_ns();
    return s->json >= 0 && s->out >= 0 && s->err >= 0;
}

static void close_session(struct session *s)
{
    const int files[] = {s->json, s->out, s->err};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
}

static int count_present(const struct tti_comparison *c)
{
    int present = 0;
    for (int i = 0; i < c->contender_count; i++) {
        present += c->contenders[i].missing == NULL;
    }
    return present;
}

static void name_missing(const struct tti_comparison *c)
{
    for (int i = 0; i < c->contender_count; i++) {
        if (c->contenders[i].missing) {
            fprintf(stderr, "tutti bench: %s is missing: %s\n", c->contenders[i].name, c->contenders[i].missing);
        }
    }
}

/* The signal that asked to end, or 0. */
static int measure(struct session *s)
{
    struct tti_comparison *c = s->c;
    tti_compare_find_programs(c);
    const int asked = try_programs(s);
    name_missing(c);
    s->blocks = count_present(c) * c->compare->repeat * (tti_compare_heap_from(c) > 0 ? 2 : 1);
    const int result = asked != 0 ? asked : run_blocks(s);
    c->seconds = (double)(tti_now_ns() - s->start_ns) / 1e9 + s->cached_seconds;
    if (s->cached > 0) {
        fprintf(stderr, "tutti bench: %d of %d blocks were kept in %s, and not run again\n", s->cached, s->blocks,
                c->compare->keep);
    }
    return result;
}

/* The files are opened before anything is measured: a mistake in a path should not cost an hour. What they held stays
 * until there is something new to write. */
struct outputs {
    const char *paths[3];
    FILE *files[3];
    bool (*write[3])(const struct tti_comparison *c, FILE *file);
};

static bool open_outputs(struct outputs *outputs)
{
    bool good = true;
    for (size_t i = 0; i < 3 && good; i++) {
        outputs->files[i] = outputs->paths[i] ? fopen(outputs->paths[i], "ae") : NULL;
        good = !outputs->paths[i] || outputs->files[i];
        if (!good) {
            fprintf(stderr, "tutti bench: %s: %s\n", outputs->paths[i], strerror(errno));
        }
    }
    return good;
}

static bool write_outputs(struct outputs *outputs, const struct tti_comparison *c)
{
    bool good = true;
    for (size_t i = 0; i < 3; i++) {
        FILE *file = outputs->files[i];
        outputs->files[i] = NULL;
        if (file) {
            (void)!ftruncate(fileno(file), 0); /* a device has no length */
        }
        if (file && !outputs->write[i](c, file)) {
            fprintf(stderr, "tutti bench: %s: cannot be written\n", outputs->paths[i]);
            good = false;
        }
    }
    return good;
}

static bool report(struct outputs *outputs, struct tti_comparison *c)
{
    tti_compare_evaluate(c);
    tti_compare_print(c);
    bool good = write_outputs(outputs, c) && c->wrong == 0;
    if (ferror(stdout)) {
        fprintf(stderr, "tutti bench: standard output: cannot be written\n");
        good = false;
    }
    for (int i = 0; i < c->contender_count; i++) {
        good = good && c->contenders[i].failed == 0 && c->contenders[i].wrong == 0;
    }
    return good;
}

static int compare(struct session *s, struct outputs *outputs)
{
    if (!open_session(s) || !tti_compare_signals_open(&s->signals)) {
        fprintf(stderr, "tutti bench: cannot prepare the comparison: %s\n", strerror(errno));
        return 1;
    }
    const int asked = measure(s);
    tti_compare_signals_close(&s->signals);
    if (asked != 0) {
        fprintf(stderr, "tutti bench: %s: the comparison was ended, nothing is written", strsignal(asked));
        if (s->c->compare->keep) {
            fprintf(stderr, "; %d of %d blocks are kept in %s for the same command", s->done, s->blocks,
                    s->c->compare->keep);
        }
        fputc('\n', stderr);
        return TTI_EXIT_SIGNAL + asked;
    }
    return report(outputs, s->c) ? 0 : 1;
}

int tti_compare_start(const struct tti_bench_options *options, const struct tti_compare_options *compare_options)
{
    struct tti_comparison c = {.options = options, .compare = compare_options, .self = tti_self_path()};
    struct session session = {.c = &c, .json = -1, .out = -1, .err = -1, .signals = {.fd = -1}};
    struct outputs outputs = {.paths = {options->json, compare_options->record, compare_options->plot},
                              .write = {tti_compare_json, tti_compare_record, tti_compare_plot}};
    int code = TTI_EXIT_USAGE;
    if (!c.self) {
        tti_self_missing("bench");
        return 1;
    }
    if (tti_in_launcher()) {
        fprintf(stderr, "tutti bench: --vs starts jobs of its own, and cannot be a rank of one: start it alone\n");
    } else if (tti_compare_contenders(&c)) {
        code = tti_compare_cache_open(&c) && open_outputs(&outputs) ? compare(&session, &outputs) : 1;
    }
    for (size_t i = 0; i < 3; i++) {
        if (outputs.files[i]) {
            fclose(outputs.files[i]);
        }
    }
    close_session(&session);
    tti_compare_cells_free(&c);
    for (int i = 0; i < c.contender_count; i++) {
        tti_compare_contender_free(&c.contenders[i]);
    }
    json_decref(c.config);
    return code;
}
