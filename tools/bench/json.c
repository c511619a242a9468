/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results for programs. Names are part of the interface: new ones may come, none changes its meaning. Text of the
 * machine that is not UTF-8 becomes null.
 */
#include <jansson.h>
#include <string.h>

#include "bench/bench.h"

static json_t *text(const char *bytes, size_t length)
{
    json_t *string = json_stringn(bytes, length);
    return string ? string : json_null();
}

static json_t *lines(const char *bytes)
{
    json_t *array = json_array();
    while (array && *bytes != '\0') {
        const size_t length = strcspn(bytes, "\n");
        if (length > 0 && json_array_append_new(array, text(bytes, length)) != 0) {
            json_decref(array);
            return NULL;
        }
        bytes += bytes[length] == '\n' ? length + 1 : length;
    }
    return array;
}

/* Merges two objects into the first, and gives the second back; NULL if one of them is. */
static json_t *merge(json_t *object, json_t *other)
{
    if (object && (!other || json_object_update(object, other) != 0)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(other);
    return object;
}

/* What only a table of collectives has. */
static json_t *table_config(const struct tti_bench_options *o, const struct tti_bench_machine *machine)
{
    json_t *config = json_pack("{s:I, s:I, s:I, s:s, s:s, s:i, s:b}", "min_bytes", (json_int_t)o->least, "max_bytes",
                               (json_int_t)o->most, "factor", (json_int_t)o->factor, "type", tutti_dtype_name(o->dtype),
                               "redop", tutti_reduce_op_name(o->op), "root", o->root, "async", (int)o->async);
    return o->async ? merge(config, json_pack("{s:I}", "clock_ns", (json_int_t)machine->clock_ns)) : config;
}

json_t *tti_bench_json_create(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    const struct tti_bench_options *o = b->options;
    json_t *config =
        json_pack("{s:s, s:o, s:o, s:s, s:i, s:i, s:f, s:s, s:o, s:i, s:s}", "version", tutti_version_string(), "cpu",
                  text(machine->cpu, strlen(machine->cpu)), "kernel", text(machine->kernel, strlen(machine->kernel)),
                  "isa", machine->isa, "cpus", machine->cpus, "ranks", b->size, "ranks_per_cpu", machine->ranks_per_cpu,
                  "backend", tutti_group_backend(b->group), "description", lines(machine->description), "iterations",
                  o->iterations, "start", b->lead_ns > 0 ? "clock" : "barrier");
    if (!o->overlap) {
        config = merge(config, table_config(o, machine));
    }
    return json_pack("{s:o, s:[]}", "config", config, "results");
}

json_t *tti_bench_json_times(const struct tti_bench_times *times)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", times->p50_us, "p99", times->p99_us, "min", times->min_us, "max",
                     times->max_us);
}

bool tti_bench_json_add(json_t *root, const struct tti_bench *b, const struct tti_bench_result *r)
{
    const bool async = b->options->async;
    json_t *entry =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:s, s:s, s:i, s:b, s:b, s:o, s:f, s:f, s:I, s:i, s:i}", "collective",
                  b->collective->name, "backend", tutti_group_backend(b->group), "ranks", b->size, "size",
                  (json_int_t)r->bytes, "count", (json_int_t)r->count, "type", tti_bench_type(b), "redop",
                  tti_bench_redop(b), "root", tti_bench_root(b), "inplace", (int)r->in_place, "async", (int)async,
                  "time_us", tti_bench_json_times(&r->time), "alg_bw", r->alg_bw, "bus_bw", r->bus_bw, "wrong",
                  (json_int_t)r->wrong, "iterations", r->iterations, "batch", r->batch);
    if (async) {
        entry = merge(entry, json_pack("{s:o, s:o}", "submit_us", tti_bench_json_times(&r->submit), "sync_us",
                                       tti_bench_json_times(&r->sync)));
    }
    return entry && json_array_append_new(json_object_get(root, "results"), entry) == 0;
}

bool tti_bench_json_write(json_t *root, FILE *file)
{
    bool good = json_dumpf(root, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    good = fflush(file) == 0 && good;
    return fclose(file) == 0 && good;
}

void tti_bench_json_destroy(json_t *root)
{
    json_decref(root);
}
