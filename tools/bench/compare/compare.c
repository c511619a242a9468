/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The comparison from its first block to its record. Blocks are interleaved: one repetition of every contender, then
 * the next one of every contender. A machine that changes meanwhile changes for all of them. Documents and output of
 * the blocks are files in memory, so an interrupted comparison leaves no file behind.
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
#include "bench/compare/cells.h"
#include "bench/compare/command.h"
#include "bench/compare/comparison.h"
#include "bench/compare/contenders.h"
#include "bench/compare/evaluate.h"
#include "bench/compare/process.h"
#include "bench/compare/record.h"
#include "bench/compare/table.h"
#include "bench/measure/collectives.h"
#include "bench/options.h"
#include "common/launcher.h"
#include "run/exit_codes.h"
#include "tools.h"

#define FIXED_LIMIT_MS INT64_C(60000) /* a block may take this ... */
#define ROW_LIMIT_MS   INT64_C(20000) /* ... and this for each of its rows */
#define SHOWN_LINES    12             /* of a failed block's output */
#define WHY            256

/* The state that is open during the comparison. */
struct session {
    struct tti_comparison *c;
    struct tti_compare_signals signals;
    int json; /* files in memory: the ranks' document, and what a block writes to its standard output and error */
    int out;
    int err;
    char json_path[64];
    int blocks; /* in all, and done */
    int done;
    int64_t start_ns;
    bool terminal;
    FILE *record; /* NULL = none, or written */
};

/* ---- progress ---- */

static void print_progress(const struct session *s, const struct tti_compare_contender *peer, int repetition, bool heap)
{
    const double elapsed = (double)(tti_now_ns() - s->start_ns) / 1e9;
    const int seconds = (int)elapsed;
    const int rest = s->done > 0 ? (int)(elapsed / s->done * (s->blocks - s->done)) : 0;
    fprintf(stderr, "%stutti bench: block %d of %d: %s%s, repetition %d of %d; %d:%02d elapsed",
            s->terminal ? "\r" : "", s->done + 1, s->blocks, peer->name, heap ? " (heap)" : "", repetition + 1,
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
static int run_command(struct session *s, const struct tti_compare_contender *peer,
                       const struct tti_compare_command *command, char *why)
{
    const struct tti_compare_job job = {.words = (char *const *)(uintptr_t)command->words,
                                        .environment = peer->setup->environment,
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

/* Runs the block and takes its document. A job that found wrong results ends with exit code 1, and has written them
 * nevertheless. 0, the signal that asked to end, or -1 and the reason. */
static int run_and_take(struct session *s, int index, int repetition, bool heap, char *why)
{
    char ignored[WHY];
    struct tti_compare_command command;
    const struct tti_compare_contender *peer = &s->c->contenders[index];
    print_progress(s, peer, repetition, heap);
    tti_compare_command(s->c, peer, heap, s->json_path, &command);
    const int result = run_command(s, peer, &command, why);
    end_progress(s);
    if (result > 0) {
        return result;
    }
    json_t *document = load(s->json, result == 0 ? why : ignored);
    const bool taken = document && tti_compare_take_block(s->c, index, document, why, WHY);
    json_decref(document);
    return taken ? 0 : -1;
}

/* The signal that asked to end, or 0: a block that fails costs only its own cells. */
static int run_block(struct session *s, int index, int repetition, bool heap)
{
    char why[WHY] = "";
    struct tti_compare_contender *peer = &s->c->contenders[index];
    const int result = run_and_take(s, index, repetition, heap, why);
    if (result > 0) {
        return result;
    }
    peer->blocks++;
    s->done++;
    if (result < 0) {
        peer->failed++;
        free(peer->failure);
        peer->failure = strdup(why);
        fprintf(stderr, "tutti bench: %s, repetition %d failed: %s\n", peer->name, repetition + 1, why);
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
    if (s->record) {
        fclose(s->record);
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
    name_missing(c);
    s->blocks = count_present(c) * c->compare->repeat * (tti_compare_heap_from(c) > 0 ? 2 : 1);
    const int asked = run_blocks(s);
    c->seconds = (double)(tti_now_ns() - s->start_ns) / 1e9;
    return asked;
}

/* The record is opened before anything is measured: a mistake in its path must not cost an hour. Its old content stays
 * until there are new results. */
static bool open_record(struct session *s)
{
    const char *path = s->c->compare->record;
    s->record = path ? fopen(path, "ae") : NULL;
    if (path && !s->record) {
        fprintf(stderr, "tutti bench: %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

static bool write_record(struct session *s)
{
    FILE *file = s->record;
    if (!file) {
        return true;
    }
    s->record = NULL;
    (void)!ftruncate(fileno(file), 0); /* a device has no length */
    if (!tti_compare_record(s->c, file)) {
        fprintf(stderr, "tutti bench: %s: cannot be written\n", s->c->compare->record);
        return false;
    }
    return true;
}

static bool report(struct session *s)
{
    struct tti_comparison *c = s->c;
    tti_compare_evaluate(c);
    tti_compare_print(c);
    bool good = write_record(s) && c->wrong == 0;
    if (ferror(stdout)) {
        fprintf(stderr, "tutti bench: standard output: cannot be written\n");
        good = false;
    }
    for (int i = 0; i < c->contender_count; i++) {
        good = good && c->contenders[i].failed == 0 && c->contenders[i].wrong == 0;
    }
    return good;
}

static int compare(struct session *s)
{
    if (!open_session(s) || !tti_compare_signals_open(&s->signals)) {
        fprintf(stderr, "tutti bench: cannot prepare the comparison: %s\n", strerror(errno));
        return 1;
    }
    const int asked = measure(s);
    tti_compare_signals_close(&s->signals);
    if (asked != 0) {
        fprintf(stderr, "tutti bench: %s: the comparison was ended, nothing is written\n", strsignal(asked));
        return TTI_EXIT_SIGNAL + asked;
    }
    return report(s) ? 0 : 1;
}

int tti_compare_start(const struct tti_bench_options *options, const struct tti_compare_options *compare_options)
{
    struct tti_comparison c = {.options = options, .compare = compare_options, .self = tti_self_path()};
    struct session session = {.c = &c, .json = -1, .out = -1, .err = -1, .signals = {.fd = -1}};
    int code = TTI_EXIT_USAGE;
    if (!c.self) {
        tti_self_missing("bench");
        return 1;
    }
    if (tti_in_launcher()) {
        fprintf(stderr, "tutti bench: --vs starts jobs of its own, and cannot be a rank of one: start it alone\n");
    } else if (tti_compare_contenders(&c)) {
        code = open_record(&session) ? compare(&session) : 1;
    }
    close_session(&session);
    tti_compare_cells_free(&c);
    for (int i = 0; i < c.contender_count; i++) {
        tti_compare_contender_free(&c.contenders[i]);
    }
    json_decref(c.config);
    return code;
}
