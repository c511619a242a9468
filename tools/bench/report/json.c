/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results for programs. Names are part of the interface: new ones may be added, none changes its meaning. Text from
 * the machine that is not UTF-8 becomes null.
 */
#include "bench/report/json.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "bench/beside/beside.h"
#include "bench/report/table.h"
#include "common/wire.h"
#include "device/device.h"

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

static const char *placement(bool heap)
{
    return heap ? "heap" : "private";
}

/* The fields that only a table of collectives has. */
static json_t *table_config(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    const struct tti_bench_options *o = b->options;
    /* that of the buffer, so that a file shows whether the option had its effect */
    const uintptr_t offset = b->arena ? 0 : (uintptr_t)b->left % TTI_BENCH_PAGE;
    json_t *config = json_pack("{s:I, s:I, s:I, s:s, s:s, s:i, s:b, s:b, s:s, s:I, s:s}", "min_bytes",
                               (json_int_t)o->least, "max_bytes", (json_int_t)o->most, "factor", (json_int_t)o->factor,
                               "type", tutti_dtype_name(o->dtype), "redop", tutti_reduce_op_name(o->op), "root",
                               o->root, "async", (int)o->async, "persistent", (int)o->persistent, "placement",
                               placement(o->heap), "offset", (json_int_t)offset, "wire", tti_tool_wire_name(o->wire));
    if (b->beside) {
        config = merge(config, json_pack("{s:{s:s, s:o, s:o}}", "peer", "name", b->beside->name, "version",
                                         text(b->beside->version, strlen(b->beside->version)), "settings",
                                         text(b->beside->settings, strlen(b->beside->settings))));
    }
    return o->async ? merge(config, json_pack("{s:I}", "clock_ns", (json_int_t)machine->clock_ns)) : config;
}

json_t *tti_bench_json_create(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    const struct tti_bench_options *o = b->options;
    char device[24];
    tti_device_text(tutti_group_device(b->group), device);
    json_t *config = json_pack(
        "{s:s, s:o, s:o, s:s, s:i, s:i, s:f, s:s, s:s, s:o, s:i, s:s}", "version", tutti_version_string(), "cpu",
        text(machine->cpu, strlen(machine->cpu)), "kernel", text(machine->kernel, strlen(machine->kernel)), "isa",
        machine->isa, "cpus", machine->cpus, "ranks", b->size, "ranks_per_cpu", machine->ranks_per_cpu, "backend",
        tutti_group_backend(b->group), "device", device, "description", lines(machine->description), "iterations",
        o->iterations, "start", b->lead_ns > 0 ? "clock" : "barrier");
    if (!o->overlap) {
        config = merge(config, table_config(b, machine));
    }
    return json_pack("{s:o, s:[]}", "config", config, "results");
}

json_t *tti_bench_json_times(const struct tti_bench_times *times)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", times->p50_us, "p99", times->p99_us, "min", times->min_us, "max",
                     times->max_us);
}

/* The call of a contender. NULL: its backend is none of Tutti's. */
static json_t *call(const struct tti_bench *b, const struct tti_bench_result *r, const char *contender,
                    const char *backend, bool heap)
{
    return json_pack("{s:s, s:s, s:s?, s:i, s:I, s:I, s:s, s:s, s:i, s:b, s:b, s:s, s:i}", "contender", contender,
                     "collective", b->collective->name, "backend", backend, "ranks", b->size, "size",
                     (json_int_t)r->bytes, "count", (json_int_t)r->count, "type", tti_bench_type(b), "redop",
                     tti_bench_redop(b), "root", tti_bench_root(b), "inplace", (int)r->in_place, "async",
                     (int)b->options->async, "placement", placement(heap), "iterations", r->iterations);
}

static json_t *measured(const struct tti_bench_times *time, double alg_bw, double bus_bw, int64_t wrong, int batch)
{
    return json_pack("{s:o, s:f, s:f, s:I, s:i}", "time_us", tti_bench_json_times(time), "alg_bw", alg_bw, "bus_bw",
                     bus_bw, "wrong", (json_int_t)wrong, "batch", batch);
}

/* null where it is not known. */
static json_t *positive(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *roofline(const struct tti_bench_result *r)
{
    return json_pack("{s:o, s:[o, o]}", "bound_us", positive(r->bound_us), "hop_ns", positive(r->hop_ns[0]),
                     positive(r->hop_ns[1]));
}

static json_t *own_row(const struct tti_bench *b, const struct tti_bench_result *r)
{
    json_t *row = merge(call(b, r, "tutti", tutti_group_backend(b->group), b->options->heap),
                        measured(&r->time, r->alg_bw, r->bus_bw, r->wrong, r->batch));
    row = merge(row, json_pack("{s:s?}", "algorithm", r->algorithm));
    if (b->options->async) {
        row = merge(row, json_pack("{s:o, s:o}", "submit_us", tti_bench_json_times(&r->submit), "sync_us",
                                   tti_bench_json_times(&r->sync)));
    }
    return b->roofline ? merge(row, roofline(r)) : row;
}

static json_t *peer_row(const struct tti_bench *b, const struct tti_bench_result *r)
{
    const struct tti_bench_versus *v = &r->versus;
    const char *backend = b->beside->is_tutti ? tutti_group_backend(b->beside->view.group) : NULL;
    json_t *row = call(b, r, b->beside->label, backend, b->beside->heap);
    if (v->measured) {
        row = merge(row, measured(&v->time, v->alg_bw, v->bus_bw, v->wrong, v->batch));
        row = merge(row, json_pack("{s:{s:f, s:f, s:f, s:f}}", "versus", "ratio", v->ratio.median, "low", v->ratio.low,
                                   "high", v->ratio.high, "tutti_us", r->time.p50_us));
    } else {
        row = merge(row, json_pack("{s:n, s:n, s:n, s:n, s:n, s:n}", "time_us", "alg_bw", "bus_bw", "wrong", "batch",
                                   "versus"));
    }
    row = merge(row, json_pack("{s:n}", "algorithm"));
    return merge(row, roofline(r));
}

bool tti_bench_json_add(json_t *root, const struct tti_bench *b, const struct tti_bench_result *r)
{
    json_t *results = json_object_get(root, "results");
    return json_array_append_new(results, own_row(b, r)) == 0 &&
           (!b->beside || json_array_append_new(results, peer_row(b, r)) == 0);
}

bool tti_bench_json_write(json_t *root, FILE *file)
{
    const bool good = json_dumpf(root, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    const int why = errno;
    json_decref(root);
    const bool closed = fclose(file) == 0;
    if (!good) {
        errno = why;
    }
    return good && closed;
}
