/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti trace`: the running and the latest operations of ranks, read from their flight recorders. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "common/options.h"
#include "tools.h"
#include "trace/find.h"

enum action { ACTION_NONE, ACTION_DUMP, ACTION_METRICS };
#define FORMATS "text|json|chrome"
enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CHROME };
enum { OPTION_JOB = 256, OPTION_FORMAT };

/* Where records are. All are read behind the last argument, so that a wrong command line is refused first. */
struct source {
    enum { SOURCE_PID, SOURCE_JOB, SOURCE_PATH } kind;
    const char *text;
};

struct request {
    enum action action;
    enum format format;
    bool format_given;
    const char *output;     /* NULL: standard output */
    struct source *sources; /* room for each argument */
    size_t source_count;
    struct tti_found found;
    bool failed;
};

static const struct argp_option argp_options[] = {
    {"pid", 'p', "PID", 0, "Read the record of a running process; may be repeated", 1},
    {"job", OPTION_JOB, "NAME", 0,
     "Read the records of all processes of a job on this host (TUTTI_JOB in a rank's environment)", 1},
    {"format", OPTION_FORMAT, FORMATS, 0,
     "Write text: which rank waits for which, and the last operations (default); json: all facts of the records; "
     "chrome: a timeline for ui.perfetto.dev",
     2},
    {"output", 'o', "FILE", 0, "Write to FILE instead of standard output", 2},
    {0}};

static const char argp_doc[] =
    "Show the current and latest operations of a job's ranks, from their flight recorders.\v"
    "dump writes records, also of several hosts, in one of three formats; it does not correct clocks that differ. "
    "metrics writes counters in the text format of Prometheus.\n\n"
    "--pid and --job find the records of running processes. `tutti run --trace DIR` keeps the records of its job as "
    "files in DIR; without `tutti run`, set TUTTI_TRACE_DIR=DIR. Give these files, or the folder, as arguments.\n\n"
    "Exit code: 0; 1 if a record cannot be read or the output cannot be written; 2 if the command line is wrong.\n\n"
    "Examples:\n"
    "  tutti trace dump --pid 4711\n"
    "  tutti run -n 4 --trace records ./train; tutti trace dump records\n"
    "  tutti trace dump --format json DIR | python3 -m tutti.flight_records t_\n"
    "  tutti trace dump --format chrome -o t.json node0/DIR node1/DIR\n"
    "  tutti trace metrics --job run-4711-0123456789abcdef";

static void add_source(struct request *w, int kind, const char *text)
{
    w->sources[w->source_count].kind = kind;
    w->sources[w->source_count++].text = text;
}

static void add_pid(struct argp_state *state, struct request *w, const char *text)
{
    int64_t pid = 0;
    if (!tti_parse_integer(text, 1, INT32_MAX, &pid)) {
        argp_error(state, "--pid takes the number of a process, not '%s'", text);
    }
    add_source(w, SOURCE_PID, text);
}

/* Its kind; *why is the reason if it has no record. */
static const char *read_source(struct tti_found *found, const struct source *source, bool *good, const char **why)
{
    int64_t pid = 0;
    struct stat st;
    switch (source->kind) {
    case SOURCE_PID:
        *good =
            tti_parse_integer(source->text, 1, INT32_MAX, &pid) && tti_find_in_process(found, (int32_t)pid, NULL, why);
        return "process";
    case SOURCE_JOB:
        *good = tti_find_in_job(found, source->text, why);
        return "job";
    default:
        if (stat(source->text, &st) == 0 && S_ISDIR(st.st_mode)) {
            *good = tti_find_in_folder(found, source->text, why);
            return "folder";
        }
        *good = tti_find_in_file(found, source->text, why);
        return "file";
    }
}

static void read_sources(struct request *w)
{
    for (size_t i = 0; i < w->source_count; i++) {
        const char *why = "";
        bool good = false;
        const char *kind = read_source(&w->found, &w->sources[i], &good, &why);
        if (!good) {
            fprintf(stderr, "tutti trace: %s %s: %s\n", kind, w->sources[i].text, why);
            w->failed = true;
        }
    }
}

static void take_action(struct argp_state *state, struct request *w, const char *word)
{
    if (strcmp(word, "dump") == 0) {
        w->action = ACTION_DUMP;
    } else if (strcmp(word, "metrics") == 0) {
        w->action = ACTION_METRICS;
    } else {
        argp_error(state, "there is no '%s': say dump or metrics", word);
    }
}

static void check(struct argp_state *state, const struct request *w)
{
    if (w->action == ACTION_NONE) {
        argp_error(state, "what is to be done? Say dump or metrics");
    }
    if (w->source_count == 0) {
        argp_error(state, "which records? Say --pid, --job, or the files or the folder of `tutti run --trace`");
    }
    if (w->action != ACTION_DUMP && w->format_given) {
        argp_error(state, "--format belongs to dump");
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct request *w = state->input;
    switch (key) {
    case 'p':
        add_pid(state, w, argument);
        return 0;
    case OPTION_JOB:
        add_source(w, SOURCE_JOB, argument);
        return 0;
    case OPTION_FORMAT:
        w->format = (enum format)tti_word_option(state, "--format", FORMATS, argument);
        w->format_given = true;
        return 0;
    case 'o':
        w->output = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (w->action == ACTION_NONE) {
            take_action(state, w, argument);
        } else {
            add_source(w, SOURCE_PATH, argument);
        }
        return 0;
    case ARGP_KEY_END:
        check(state, w);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool complain(const char *path)
{
    fprintf(stderr, "tutti trace: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

static void write_to(FILE *out, const struct request *w)
{
    const struct tti_rank_record *records = w->found.records;
    if (w->action == ACTION_METRICS) {
        tti_record_metrics(out, records, w->found.count);
    } else if (w->format == FORMAT_JSON) {
        tti_record_json(out, records, w->found.count);
    } else if (w->format == FORMAT_CHROME) {
        tti_record_chrome(out, records, w->found.count);
    } else {
        tti_record_hang_report(out, records, w->found.count, SIZE_MAX);
    }
}

static bool write_out(const struct request *w)
{
    if (w->action == ACTION_METRICS && w->output) {
        return tti_record_metrics_file(w->output, w->found.records, w->found.count) || complain(w->output);
    }
    FILE *out = w->output ? fopen(w->output, "we") : stdout;
    if (!out) {
        return complain(w->output);
    }
    write_to(out, w);
    const bool good = fflush(out) == 0 && !ferror(out);
    const bool closed = !w->output || fclose(out) == 0;
    return (good && closed) || complain(w->output ? w->output : "to standard output");
}

static void leave_out(struct request *w)
{
    const size_t left_out = tti_found_keep_latest(&w->found);
    if (left_out > 0) {
        fprintf(
            stderr,
            "tutti trace: %zu record%s left out: later ones are of the same ranks; name files to see an earlier job\n",
            left_out, left_out == 1 ? " is" : "s are");
    }
}

int tutti_tool_trace(int argc, char **argv)
{
    struct request w = {.action = ACTION_NONE};
    const struct argp argp = {argp_options, parse, "dump|metrics [FILE|FOLDER...]", argp_doc, NULL, NULL, NULL};
    w.sources = calloc((size_t)argc, sizeof(*w.sources));
    if (!w.sources) {
        fprintf(stderr, "tutti trace: out of memory\n");
        return 1;
    }
    tti_options_read(&argp, argc, argv, 0, &w);
    read_sources(&w);
    tti_found_sort(&w.found);
    if (w.action == ACTION_DUMP) { /* counters name the job of each record */
        leave_out(&w);
    }
    if (w.action == ACTION_DUMP && w.format == FORMAT_TEXT) {
        tti_found_refresh(&w.found);
    }
    const bool good = w.found.count > 0 && write_out(&w);
    tti_found_free(&w.found);
    free(w.sources);
    return good && !w.failed ? 0 : 1;
}
