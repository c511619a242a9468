/* SPDX-License-Identifier: BSD-3-Clause */
/* Where records come from: see find.c. Each function adds the records that it finds. If it finds none, it returns false
 * and the end of a sentence. */
#ifndef TOOLS_TRACE_FIND_H
#define TOOLS_TRACE_FIND_H

#include "trace/record.h"

struct tti_found {
    struct tti_rank_record *records;
    size_t count;
};

bool tti_find_in_file(struct tti_found *found, const char *path, const char **why);
bool tti_find_in_folder(struct tti_found *found, const char *path, const char **why);
/* `job`: of that one only; NULL = of any. */
bool tti_find_in_process(struct tti_found *found, int32_t pid, const char *job, const char **why);
bool tti_find_in_job(struct tti_found *found, const char *job, const char **why);

/* By rank; of several programs of a rank the earlier one first. */
void tti_found_sort(struct tti_found *found);

/* Drops records of earlier jobs if a later job has a rank of the same number, as in a folder that was used twice. Call
 * it after sorting. Returns the number of dropped records. */
size_t tti_found_keep_latest(struct tti_found *found);

/* Reads the records of living processes again, a moment later: a rank that has advanced does not hang. */
void tti_found_refresh(struct tti_found *found);

void tti_found_free(struct tti_found *found);

#endif
