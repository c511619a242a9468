/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti`, the command line: finds the sub-command and passes the other arguments to it. Each sub-command reads its
 * own options and explains itself with --help.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "tools.h"

struct command {
    const char *name;
    const char *full_name; /* for the command's own messages */
    int (*main)(int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
    {"run", "tutti run", tutti_tool_run, "start a program on several ranks, on one host or on several"},
    {"check", "tutti check", tutti_tool_check, "test every collective on this machine"},
    {"bench", "tutti bench", tutti_tool_bench, "measure the collectives on this machine"},
    {"trace", "tutti trace", tutti_tool_trace, "show the current and latest operations of a job's ranks"},
    {"info", "tutti info", tutti_tool_info, "show version, CPU, backends and settings"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *file)
{
    fprintf(file, "Usage: tutti COMMAND [OPTION...]\n"
                  "Collective communication for distributed training.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "\n"
                  "  tutti help COMMAND    show the options and examples of a command\n"
                  "  tutti --version       show the version\n\n"
                  "Start here: tutti info; tutti check --quick; tutti run -n 2 ./program\n");
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* The Levenshtein distance: how many letters to add, remove or change. 32 if a name has more than 31 letters. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32];
    size_t columns = strlen(b);
    if (columns > 31 || strlen(a) > 31) {
        return 32;
    }
    for (size_t j = 0; j <= columns; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = changed < shorter ? changed : shorter;
        }
    }
    return row[columns];
}

static int unknown(const char *name)
{
    const struct command *closest = NULL;
    size_t least = 3;
    for (size_t i = 0; i < COMMANDS; i++) {
        size_t away = distance(name, commands[i].name);
        if (away < least) {
            least = away;
            closest = &commands[i];
        }
    }
    if (closest) {
        fprintf(stderr, "tutti: there is no command '%s'; did you mean '%s'?\n", name, closest->name);
    } else {
        fprintf(stderr, "tutti: there is no command '%s'; `tutti --help` lists them\n", name);
    }
    return TTI_EXIT_USAGE;
}

static int help(const char *name)
{
    if (!name) {
        print_usage(stdout);
        return 0;
    }
    const struct command *command = find(name);
    if (!command) {
        return unknown(name);
    }
    char full_name[32];
    char option[] = "--help";
    snprintf(full_name, sizeof(full_name), "%s", command->full_name);
    char *arguments[] = {full_name, option, NULL};
    return command->main(2, arguments);
}

/* A closed standard descriptor would be reused for a pipe, and each print would then write to it. */
static void open_standard_descriptors(void)
{
    int fd = 0;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    if (argc < 2) {
        print_usage(stderr);
        return TTI_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "-?") == 0) {
        return help(NULL);
    }
    if (strcmp(name, "help") == 0) {
        return help(argv[2]);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        printf("tutti %s\n", tutti_version_string());
        return 0;
    }
    const struct command *command = find(name);
    if (!command) {
        return unknown(name);
    }
    char full_name[32];
    snprintf(full_name, sizeof(full_name), "%s", command->full_name);
    argv[1] = full_name;
    return command->main(argc - 1, argv + 1);
}
