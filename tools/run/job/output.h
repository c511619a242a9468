/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' output on its way to the terminal. Nothing here ever blocks: what cannot be written yet is queued, and a
 * rank whose lines are not taken is no longer read. */
#ifndef TOOLS_RUN_JOB_OUTPUT_H
#define TOOLS_RUN_JOB_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct tti_output;

/* Room for `streams` streams. `prefix` puts "[rank] " before each line. NULL when memory is exhausted. */
struct tti_output *tti_output_new(size_t streams, bool prefix);
void tti_output_free(struct tti_output *output);

/* What is known of one stream of one rank. The output takes over both descriptors. */
struct tti_stream_info {
    int rank;
    int target;    /* STDOUT_FILENO or STDERR_FILENO */
    int fd;        /* read end of the rank's pipe */
    int log_fd;    /* gets every byte as it is; -1 = none */
    bool show;     /* on the terminal */
    bool progress; /* carriage returns and unfinished lines are shown as they come, for progress bars and prompts */
};
bool tti_output_add(struct tti_output *output, const struct tti_stream_info *info);

/* A line of the launcher itself, on standard error in order with the ranks' lines. */
__attribute__((format(printf, 2, 3))) void tti_output_message(struct tti_output *output, const char *format, ...);

/* For poll: fills streams + 2 entries and returns their number; handle gets the same entries back. */
size_t tti_output_poll(const struct tti_output *output, struct pollfd *entries);
void tti_output_handle(struct tti_output *output, const struct pollfd *entries);

/* Whether an unfinished line waits to be shown should nothing follow soon, and showing it. */
bool tti_output_has_partial(const struct tti_output *output);
void tti_output_show_partial(struct tti_output *output);

/* Reads what is left in the pipes, finishes all lines, closes the streams. Lines may stay in the queue. */
void tti_output_drain(struct tti_output *output);

/* Whether lines wait in the queue. */
bool tti_output_pending(const struct tti_output *output);

/* Whether lines were lost because they could not be written, although a reader was there. */
bool tti_output_lost(const struct tti_output *output);

#endif
