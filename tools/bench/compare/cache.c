/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that outlive an interruption. What the jobs of a block have said is kept in a folder, a file for each; a
 * comparison that is started again takes it from there, if it comes from the same command lines and the same program.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/compare/compare.h"

/* Different blocks may have the same path if their names are odd; what is in the file tells. */
static void path_of(const struct tti_comparison *c, const struct tti_compare_block *block, char path[PATH_MAX])
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=";
    char name[160];
    snprintf(name, sizeof(name), "%s", c->contenders[block->contender].name);
    for (char *at = name; *at != '\0'; at++) {
        *at = strchr(fine, *at) ? *at : '-';
    }
    snprintf(path, PATH_MAX, "%s/%s.%s.%d.json", c->compare->keep, name, block->heap ? "heap" : "private",
             block->repetition + 1);
}

/* What has to be the same: the command lines, and the program that they start. NULL when memory is exhausted. */
static json_t *origin_of(const struct tti_comparison *c, const struct tti_compare_block *block)
{
    const struct tti_compare_contender *who = &c->contenders[block->contender];
    struct tti_compare_command command;
    struct stat program;
    json_t *origin = json_array();
    if (who->beside) {
        tti_compare_command_beside(c, who, block->heap, NULL, &command);
    } else {
        tti_compare_command_alone(c, block->heap, NULL, &command);
    }
    for (int i = 0; i < 2; i++) {
        char *line = tti_compare_command_line(c, who, &command);
        json_array_append_new(origin, line ? json_string(line) : json_null());
        free(line);
        if (who->beside) {
            break;
        }
        tti_compare_command_program(c, who, block->heap, &command);
    }
    if (stat(c->self, &program) == 0) {
        json_array_append_new(origin, json_integer((json_int_t)program.st_mtim.tv_sec));
        json_array_append_new(origin, json_integer((json_int_t)program.st_mtim.tv_nsec));
        json_array_append_new(origin, json_integer((json_int_t)program.st_size));
    }
    return origin;
}

json_t *tti_compare_cache_load(const struct tti_comparison *c, const struct tti_compare_block *block, double *seconds)
{
    char path[PATH_MAX];
    if (!c->compare->keep) {
        return NULL;
    }
    path_of(c, block, path);
    json_t *kept = json_load_file(path, 0, NULL);
    json_t *origin = origin_of(c, block);
    json_t *documents = NULL;
    if (json_equal(json_object_get(kept, "origin"), origin)) {
        documents = json_incref(json_object_get(kept, "documents"));
        *seconds = json_number_value(json_object_get(kept, "seconds"));
    }
    json_decref(origin);
    json_decref(kept);
    return documents;
}

bool tti_compare_cache_store(const struct tti_comparison *c, const struct tti_compare_block *block, json_t *documents,
                             double seconds, char *why, size_t capacity)
{
    char path[PATH_MAX];
    char part[PATH_MAX + 8];
    if (!c->compare->keep) {
        return true;
    }
    path_of(c, block, path);
    snprintf(part, sizeof(part), "%s.part", path);
    json_t *kept =
        json_pack("{s:o, s:O, s:f}", "origin", origin_of(c, block), "documents", documents, "seconds", seconds);
    /* whole or not at all: who kills this program may do so now */
    const bool good = kept && json_dump_file(kept, part, JSON_COMPACT) == 0 && rename(part, path) == 0;
    if (!good) {
        snprintf(why, capacity, "%s cannot be written: %s", path, strerror(errno));
    }
    json_decref(kept);
    return good;
}

bool tti_compare_cache_open(const struct tti_comparison *c)
{
    struct stat folder;
    const char *keep = c->compare->keep;
    if (keep && mkdir(keep, 0777) != 0 &&
        (errno != EEXIST || stat(keep, &folder) != 0 || !S_ISDIR(folder.st_mode) || access(keep, W_OK) != 0)) {
        fprintf(stderr, "tutti bench: --keep %s: %s\n", keep,
                errno == EEXIST ? "there is a file of that name" : strerror(errno));
        return false;
    }
    return true;
}
