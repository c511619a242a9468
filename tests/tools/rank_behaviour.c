/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank whose behaviour is an argument, for the tests of `tutti run`. It does what a shell cannot do reliably: ignore
 * or wait for signals, become a daemon, write very long lines.
 *
 *   stubborn        ignores SIGTERM and SIGINT and says "ready"
 *   catch           says "ready", then the name of each signal that arrives; ends on SIGTERM with code 0
 *   guest           the same, in a process group that a child of it leads
 *   daemon          leaves a process behind in a session of its own and prints its number, then waits for a signal
 *   daemon-exit     the same, but ends at once with code 0
 *   line BYTES      writes one line of that many bytes, two-byte characters only
 *   many LINES      writes numbered lines
 *   progress        draws a bar with carriage returns, ends it with a newline
 *   victim FILE     fills much memory, writes its process id to FILE and waits to be killed
 *   witness FILE    kills the victim and ends with code 1 as soon as it begins to die, before its parent can reap it
 *   hold PID        keeps a process from ending, even by SIGKILL, for as long as this one runs; says "holds" or "fails"
 *   terminals       prints which of the descriptors 0, 1, 2 are terminals
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* Longer than any test lasts; the end of a forgotten process. */
#define LIFETIME_S 120

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static int stubborn(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    say("ready");
    alarm(LIFETIME_S);
    while (pause() < 0) {
        continue;
    }
    return 1;
}

static int catch_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    alarm(LIFETIME_S);
    say("ready");
    for (;;) {
        int number = 0;
        if (sigwait(&all, &number) != 0 || number == SIGALRM) {
            return 1;
        }
        printf("caught SIG%s\n", sigabbrev_np(number));
        fflush(stdout);
        if (number == SIGTERM) {
            return 0;
        }
    }
}

/* The launcher ends the child. */
static int be_guest(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(LIFETIME_S);
        for (;;) {
            pause();
        }
    }
    return child > 0 && setpgid(child, child) == 0 && setpgid(0, child) == 0 ? catch_signals() : 1;
}

static _Noreturn void be_daemon(int started)
{
    signal(SIGTERM, SIG_IGN);
    printf("daemon %d\n", (int)getpid());
    fflush(stdout);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) {
        dup2(null, fd);
    }
    close(started);
    alarm(LIFETIME_S);
    while (pause() < 0) {
        continue;
    }
    _exit(1);
}

static int leave_daemon(bool stay)
{
    int started[2];
    if (pipe(started) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        return 1;
    }
    if (child == 0) {
        close(started[0]);
        /* A second fork, so that the daemon's parent is gone, as daemons do it. */
        if (setsid() >= 0 && fork() == 0) {
            be_daemon(started[1]);
        }
        _exit(0);
    }
    close(started[1]);
    char byte = 0;
    if (read(started[0], &byte, 1) != 0) {
        return 1;
    }
    alarm(LIFETIME_S);
    while (stay) {
        pause();
    }
    return 0;
}

static int write_line(long bytes)
{
    for (long i = 0; i + 1 < bytes; i += 2) {
        fputs("\303\251", stdout);
    }
    putchar('\n');
    return 0;
}

static int write_many(long lines)
{
    const char *rank = getenv("TUTTI_RANK");
    for (long i = 0; i < lines; i++) {
        printf("rank %s line %ld of the many lines that must not be mixed\n", rank ? rank : "?", i);
    }
    return 0;
}

static int draw_progress(void)
{
    for (int percent = 0; percent <= 100; percent += 25) {
        printf("\r%3d%%", percent);
        fflush(stdout);
    }
    printf("\ndone\n");
    return 0;
}

/* The kernel needs long to free much memory in small pages. */
static int be_victim(const char *path)
{
    const size_t bytes = (size_t)256 << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *file = memory != MAP_FAILED ? fopen(path, "w") : NULL;
    if (!file) {
        return 2;
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    alarm(LIFETIME_S);
    while (pause() < 0) {
        continue;
    }
    return 2;
}

/* The flags of /proc/PID/stat: whether the process is on its way out. */
static bool is_dying(long pid)
{
    char path[64];
    char text[1024] = "";
    unsigned flags = 0;
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) {
        return true;
    }
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *rest = strrchr(text, ')');
    return !rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || (flags & 0x4u) != 0;
}

static int be_witness(const char *path)
{
    long pid = 0;
    alarm(LIFETIME_S);
    while (pid == 0) {
        FILE *file = fopen(path, "r");
        if (file) {
            pid = fscanf(file, "%ld\n", &pid) == 1 ? pid : 0;
            fclose(file);
        }
    }
    kill((pid_t)pid, SIGKILL);
    while (!is_dying(pid)) {
        continue;
    }
    return 1;
}

/* A traced process stops on its way out, until its tracer lets it go on or ends. */
static int hold(long pid)
{
    const bool holds = ptrace(PTRACE_SEIZE, (pid_t)pid, NULL, PTRACE_O_TRACEEXIT) == 0;
    say(holds ? "holds" : "fails");
    alarm(LIFETIME_S);
    while (holds && pause() < 0) {
        continue;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (strcmp(what, "stubborn") == 0) {
        return stubborn();
    }
    if (strcmp(what, "catch") == 0) {
        return catch_signals();
    }
    if (strcmp(what, "guest") == 0) {
        return be_guest();
    }
    if (strcmp(what, "daemon") == 0) {
        return leave_daemon(true);
    }
    if (strcmp(what, "daemon-exit") == 0) {
        return leave_daemon(false);
    }
    if (strcmp(what, "line") == 0) {
        return write_line(number);
    }
    if (strcmp(what, "many") == 0) {
        return write_many(number);
    }
    if (strcmp(what, "progress") == 0) {
        return draw_progress();
    }
    if (strcmp(what, "victim") == 0 && argc > 2) {
        return be_victim(argv[2]);
    }
    if (strcmp(what, "witness") == 0 && argc > 2) {
        return be_witness(argv[2]);
    }
    if (strcmp(what, "hold") == 0) {
        return hold(number);
    }
    if (strcmp(what, "terminals") == 0) {
        printf("terminals %d %d %d\n", isatty(0), isatty(1), isatty(2));
        return 0;
    }
    fprintf(stderr, "rank_behaviour: unknown behaviour '%s'\n", what);
    return 2;
}
