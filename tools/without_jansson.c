/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the place of every file that needs jansson where that is not installed, so that `tutti run`, `check`, `info`
 * and the table of `bench` can be had with a compiler and CMake alone. Callers ask tti_json_usable first, which
 * refuses; the functions that would then have been called are here for the linker.
 */
#include <stdio.h>

#include "bench/overlap/overlap.h"
#include "bench/report/json.h"
#include "info/info.h"
#include "tools.h"

bool tti_json_usable(const char *tool)
{
    fprintf(stderr,
            "%s: this program was built without jansson, so there is no JSON: install it "
            "(Debian: libjansson-dev) and build again\n",
            tool);
    return false;
}

bool tti_info_print_json(const struct tti_info *info, bool settings)
{
    (void)info;
    (void)settings;
    return false;
}

struct json_t *tti_bench_json_create(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    (void)b;
    (void)machine;
    return NULL;
}

bool tti_bench_json_add(struct json_t *root, const struct tti_bench *b, const struct tti_bench_result *result)
{
    (void)root;
    (void)b;
    (void)result;
    return false;
}

bool tti_bench_json_write(struct json_t *root, FILE *file)
{
    (void)root;
    fclose(file);
    return false;
}

bool tti_overlap_json(struct json_t *root, const struct tti_overlap *o, int64_t bandwidth,
                      const struct tti_overlap_result results[TTI_OVERLAP_FORMS])
{
    (void)root;
    (void)o;
    (void)bandwidth;
    (void)results;
    return false;
}
