/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines of blocks. The ranks get the options of this run again, written out in full. The options of the
 * comparison itself (--vs, --record, ...) are not among them.
 */
#include "bench/compare/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host/cpu.h"
#include "bench/compare/comparison.h"
#include "bench/measure/collectives.h"
#include "bench/options.h"
#include "common/launcher.h"

static void add(struct tti_compare_command *command, const char *word)
{
    if (command->count < TTI_COMPARE_WORDS - 1) {
        command->words[command->count++] = word;
        command->words[command->count] = NULL;
    }
}

static void add_all(struct tti_compare_command *command, const char *const *words)
{
    for (; words && *words; words++) {
        add(command, *words);
    }
}

static void add_number(struct tti_compare_command *command, const char *option, int64_t number)
{
    const size_t room = sizeof(command->numbers) / sizeof(command->numbers[0]);
    if (command->numbers_used < (int)room) {
        char *text = command->numbers[command->numbers_used++];
        snprintf(text, sizeof(command->numbers[0]), "%" PRId64, number);
        add(command, option);
        add(command, text);
    }
}

int64_t tti_compare_heap_from(const struct tti_comparison *c)
{
    const struct tti_bench_options *o = c->options;
    int64_t size = o->least;
    bool buffers = false;
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        const struct tti_bench_collective *collective = &tti_bench_collectives[i];
        buffers = buffers || (tti_bench_chosen(o, collective) && !(collective->traits & TTI_BENCH_EMPTY));
    }
    if (c->compare->heap_from == 0 || !buffers) {
        return 0;
    }
    while (size < c->compare->heap_from && size <= o->most) {
        size *= o->factor;
    }
    return size <= o->most ? size : 0;
}

static void add_bench(const struct tti_comparison *c, const struct tti_compare_contender *peer,
                      struct tti_compare_command *command, bool heap, const char *json)
{
    const struct tti_bench_options *o = c->options;
    add(command, c->self);
    add(command, "bench");
    add(command, peer->setup->only ? peer->setup->only : tti_bench_chosen_names(o, command->names));
    if (!peer->launcher) {
        add_number(command, "-n", o->ranks);
    }
    add_number(command, "-b", heap ? tti_compare_heap_from(c) : o->least);
    add_number(command, "-e", o->most);
    add_number(command, "-f", o->factor);
    add(command, "-d");
    add(command, tutti_dtype_name(o->dtype));
    add(command, "-o");
    add(command, tutti_reduce_op_name(o->op));
    add_number(command, "--root", o->root);
    if (heap) {
        add(command, "--placement");
        add(command, "heap");
    }
    if (o->iterations > 0) {
        add_number(command, "-i", o->iterations);
    }
    if (o->backend) {
        add(command, "--backend");
        add(command, o->backend);
    }
    if (json) {
        add(command, "-J");
        add(command, json);
    }
    add(command, "--beside");
    add(command, peer->setup->beside);
}

/* Ranks that this program starts get CPUs of their own, as far as there are enough: else a scheduler that puts two
 * ranks on one CPU would change the times. (Other launchers run with their defaults.) */
static void add_own_launcher(const struct tti_comparison *c, struct tti_compare_command *command)
{
    if (c->options->ranks <= (int)tti_cpu_count() && !tti_backend_has_threads(c->options->backend)) {
        add(command, c->self);
        add(command, "run");
        add_number(command, "-n", c->options->ranks);
        add(command, "--bind-to");
        add(command, "core");
        add(command, "--no-prefix");
        add(command, "--");
    }
}

void tti_compare_command(const struct tti_comparison *c, const struct tti_compare_contender *contender, bool heap,
                         const char *json, struct tti_compare_command *command)
{
    *command = (struct tti_compare_command){.count = 0};
    if (contender->launcher) {
        add(command, contender->launcher);
        add_all(command, contender->setup->launch);
        add_number(command, "-n", c->options->ranks);
    } else {
        add_own_launcher(c, command);
    }
    add_bench(c, contender, command, heap, json);
}

/* Programs by their names alone: a reader elsewhere has them in other folders. */
static const char *short_word(const char *word, const struct tti_comparison *c,
                              const struct tti_compare_contender *contender)
{
    const char *slash = word == c->self || word == contender->launcher ? strrchr(word, '/') : NULL;
    return slash ? slash + 1 : word;
}

char *tti_compare_command_line(const struct tti_comparison *c, const struct tti_compare_contender *contender,
                               const struct tti_compare_command *command)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file) {
        return NULL;
    }
    const char *separator = "";
    for (const char *const *variable = contender->setup->environment; variable && *variable; variable++) {
        fprintf(file, "%s%s", separator, *variable);
        separator = " ";
    }
    for (int i = 0; i < command->count; i++) {
        fprintf(file, "%s%s", separator, short_word(command->words[i], c, contender));
        separator = " ";
    }
    return fclose(file) == 0 ? text : NULL;
}
