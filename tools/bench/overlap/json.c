/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of `tutti bench overlap`. */
#include "bench/overlap/overlap.h"

#include <jansson.h>

#include "bench/report/json.h"

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0; /* fails, too, if value is NULL */
}

bool tti_overlap_json(json_t *root, const struct tti_overlap *o, int64_t bandwidth,
                      const struct tti_overlap_result results[TTI_OVERLAP_FORMS])
{
    json_t *config = json_object_get(root, "config");
    json_t *list = json_object_get(root, "results");
    bool good = set(config, "link_backend", json_string(tutti_group_backend(o->link))) &&
                set(config, "link_over", json_string(o->below)) && set(config, "bandwidth", json_integer(bandwidth)) &&
                set(config, "bytes", json_integer(tti_overlap_bytes(o->chunks))) &&
                set(config, "step_ms", json_integer(o->b->options->step_ms)) &&
                set(config, "chunks", json_integer(o->chunks)) && set(config, "gradients", json_integer(o->gradients));
    for (int form = 0; form < TTI_OVERLAP_FORMS && good; form++) {
        const struct tti_overlap_result *r = &results[form];
        json_t *entry =
            json_pack("{s:s, s:o, s:f, s:I}", "form", tti_overlap_names[form], "time_us",
                      tti_bench_json_times(&r->time), "ideal_us", r->ideal_us, "wrong", (json_int_t)r->wrong);
        good = json_array_append_new(list, entry) == 0 &&
               (!tti_overlap_does_both(form) || set(entry, "step_over_max", json_real(r->over_max)));
    }
    return good && set(root, "step_over_max", json_real(results[TTI_OVERLAP_OVERLAPPED].over_max));
}
