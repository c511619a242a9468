/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without a fuzzer: every file that is named (a folder: every file in it), then ROUNDS mutations of
 * them, which the seed determines. The tests do this in the sanitizer builds; scripts/fuzz searches with libFuzzer.
 *
 *     replay [-r ROUNDS] [-s SEED] FILE|FOLDER...
 *
 * If TUTTI_FUZZ_INPUT names a file, the current input lies in it, also after a crash.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define INPUTS_MOST 256
#define BYTES_MOST  4096

struct input {
    size_t size;
    uint8_t bytes[BYTES_MOST];
};

static struct input inputs[INPUTS_MOST];
static int count;
static uint64_t state;
static uint8_t *shown; /* the file of TUTTI_FUZZ_INPUT */

static _Noreturn void give_up(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s %s: %s\n", what, path, strerror(errno));
    exit(2);
}

static void load_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || count == INPUTS_MOST) {
        give_up("cannot take", path);
    }
    inputs[count].size = fread(inputs[count].bytes, 1, BYTES_MOST, file);
    fclose(file);
    count++;
}

static void load(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        give_up("cannot find", path);
    }
    if (!S_ISDIR(status.st_mode)) {
        load_file(path);
        return;
    }
    struct dirent **entries = NULL;
    const int found = scandir(path, &entries, NULL, alphasort); /* sorted: a seed means the same on every machine */
    for (int i = 0; i < found; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            load_file(name);
        }
        free(entries[i]);
    }
    free(entries);
}

/* xorshift64* (Vigna 2016). */
static uint64_t next(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717);
}

static size_t below(size_t limit)
{
    return limit ? (size_t)(next() % limit) : 0;
}

static uint8_t interesting(void)
{
    static const uint8_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, '=', ':', ',', '/', '-', '0', '9', '\n'};
    return next() % 2 ? (uint8_t)next() : values[below(sizeof(values))];
}

static void mutate_once(struct input *m)
{
    const size_t at = below(m->size + 1);
    const size_t room = BYTES_MOST - m->size;
    const struct input *other = &inputs[below((size_t)count)];
    size_t length;
    switch (next() % 6) {
    case 0: /* a bit */
        if (at < m->size) {
            m->bytes[at] ^= (uint8_t)(1u << below(8));
        }
        break;
    case 1: /* a run of one value */
        for (size_t i = at; i < m->size && i < at + 1 + below(8); i++) {
            m->bytes[i] = interesting();
        }
        break;
    case 2: /* a hole */
        length = below(m->size - at + 1);
        memmove(m->bytes + at, m->bytes + at + length, m->size - at - length);
        m->size -= length;
        break;
    case 3: /* some bytes more */
        length = 1 + below(8);
        length = length < room ? length : room;
        memmove(m->bytes + at + length, m->bytes + at, m->size - at);
        for (size_t i = 0; i < length; i++) {
            m->bytes[at + i] = interesting();
        }
        m->size += length;
        break;
    case 4: /* a part of another input over this one */
        length = below(other->size + 1);
        length = length < BYTES_MOST - at ? length : BYTES_MOST - at;
        memcpy(m->bytes + at, other->bytes, length);
        m->size = at + length > m->size ? at + length : m->size;
        break;
    default: /* a part of it again */
        length = below(m->size - at + 1);
        length = length < room ? length : room;
        memmove(m->bytes + at + length, m->bytes + at, m->size - at);
        m->size += length;
        break;
    }
}

static void show(void)
{
    const char *path = getenv("TUTTI_FUZZ_INPUT");
    if (!path) {
        return;
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, BYTES_MOST) != 0) {
        give_up("cannot make", path);
    }
    shown = mmap(NULL, BYTES_MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shown == MAP_FAILED) {
        give_up("cannot map", path);
    }
}

/* The target gets memory of exactly this size: AddressSanitizer notices reads beyond it. */
static void run(const struct input *m)
{
    uint8_t *exact = malloc(m->size ? m->size : 1);
    if (!exact) {
        abort();
    }
    memcpy(exact, m->bytes, m->size);
    if (shown) {
        memset(shown, 0, BYTES_MOST);
        memcpy(shown, m->bytes, m->size);
    }
    LLVMFuzzerTestOneInput(exact, m->size);
    free(exact);
}

int main(int argc, char **argv)
{
    long rounds = 0;
    uint64_t seed = 1;
    int option;
    while ((option = getopt(argc, argv, "r:s:")) != -1) {
        if (option == 'r') {
            rounds = strtol(optarg, NULL, 10);
        } else if (option == 's') {
            seed = strtoull(optarg, NULL, 0);
        } else {
            fprintf(stderr, "usage: replay [-r ROUNDS] [-s SEED] FILE|FOLDER...\n");
            return 2;
        }
    }
    for (int i = optind; i < argc; i++) {
        load(argv[i]);
    }
    if (count == 0) {
        fprintf(stderr, "replay: no inputs\n");
        return 2;
    }
    show();
    state = seed ? seed : 1;
    for (int i = 0; i < count; i++) {
        run(&inputs[i]);
    }
    for (long r = 0; r < rounds; r++) {
        static struct input m;
        m = inputs[below((size_t)count)];
        for (size_t times = 1 + below(8); times > 0; times--) {
            mutate_once(&m);
        }
        run(&m);
    }
    printf("replay: %d inputs, %ld mutations, seed %llu\n", count, rounds, (unsigned long long)seed);
    return 0;
}
