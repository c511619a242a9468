/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti`, the command line: finds the sub-command and passes the other arguments to it. Each sub-command reads its
 * own options and explains itself with --help.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "tools.h"

struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    int unwritten; /* exit code if all went well, but standard output cannot be written */
    const char *summary;
};

static const struct command commands[] = {
    {"run", tutti_tool_run, TTI_EXIT_FAILED, "start a program on several ranks, on one host or on several"},
    {"check", tutti_tool_check, EXIT_FAILURE, "test every collective on this machine"},
    {"bench", tutti_tool_bench, EXIT_FAILURE, "measure the collectives on this machine"},
    {"trace", tutti_tool_trace, EXIT_FAILURE, "show the current and latest operations of a job's ranks"},
    {"info", tutti_tool_info, EXIT_FAILURE, "show version, CPU, backends and settings"},
};

/* What this process runs; NULL: help or version of the program itself. */
static const struct command *running;

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

/* argv[0] is the command's name; the command sees its full name, for its messages. */
static int run(int argc, char **argv)
{
    const struct command *command = find(argv[0]);
    if (!command) {
        fprintf(stderr, "tutti: there is no command '%s'; `tutti --help` lists them\n", argv[0]);
        return TTI_EXIT_USAGE;
    }
    char full_name[32];
    snprintf(full_name, sizeof(full_name), "tutti %s", command->name);
    argv[0] = full_name;
    running = command;
    return command->main(argc, argv);
}

static int help(char *name)
{
    char option[] = "--help";
    char *arguments[] = {name, option, NULL};
    if (name) {
        return run(2, arguments);
    }
    print_usage(stdout);
    return 0;
}

/* True if there are arguments from number `from` on, which the first one does not take; prints that. */
static bool refuses(int argc, char **argv, int from)
{
    if (argc > from) {
        fprintf(stderr, "tutti: '%s' is one argument too many for %s\n", argv[from], argv[1]);
    }
    return argc > from;
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

/* At the end, also after --help, which ends the program within argp. Commands report errors that they notice
 * earlier. */
static void check_output(int code, void *unused)
{
    (void)unused;
    const bool unwritten = fflush(stdout) != 0 || ferror(stdout);
    if (code == 0 && unwritten) {
        fprintf(stderr, "tutti%s%s: standard output cannot be written\n", running ? " " : "",
                running ? running->name : "");
        _exit(running ? running->unwritten : EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    on_exit(check_output, NULL);
    if (argc < 2) {
        print_usage(stderr);
        return TTI_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "-?") == 0) {
        return refuses(argc, argv, 2) ? TTI_EXIT_USAGE : help(NULL);
    }
    if (strcmp(name, "help") == 0) {
        return refuses(argc, argv, 3) ? TTI_EXIT_USAGE : help(argv[2]);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        if (refuses(argc, argv, 2)) {
            return TTI_EXIT_USAGE;
        }
        printf("tutti %s\n", tutti_version_string());
        return 0;
    }
    return run(argc - 1, argv + 1);
}
