/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks find each other. GetUniqueId starts a server thread that listens on an abstract socket; its random name is
 * the id. Every rank connects and sends its rank. When all have come, the server creates the shared memory and sends it
 * to each rank, or the reason why there is no communicator. It waits for ever for a missing rank, as the real library
 * does. It serves one communicator and ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "double.h"

static const char id_begin[] = "tutti-nccl-double-";

struct hello {
    int32_t ranks;
    int32_t rank;
    int32_t version;
    int32_t process;
    int32_t device;
    int32_t shares_device; /* this rank allows it */
    unsigned char uuid[TTI_UUID];
};

struct reply {
    int32_t result;
    char sentence[256];
};

struct joiner {
    int socket;
    struct hello hello;
    struct reply reply;
};

struct root {
    int socket;
    struct joiner *joiners; /* as they came */
    int count;
};

/* ---- the thread behind an id ---- */

static void refuse_joiner(struct joiner *joiner, ncclResult_t result, const char *format, int a, int b)
{
    if (joiner->reply.result == ncclSuccess) {
        joiner->reply.result = result;
        /* Both sentences of each kind take two numbers. */
        (void)snprintf(joiner->reply.sentence, sizeof(joiner->reply.sentence), "%s (%d, %d)", format, a, b);
    }
}

static void compare_joiners(struct joiner *one, const struct joiner *other)
{
    const struct hello *a = &one->hello;
    const struct hello *b = &other->hello;
    if (a->version != b->version) {
        refuse_joiner(one, ncclInvalidUsage, "Mismatched NCCL version detected : versions of two ranks", a->version,
                      b->version);
    } else if (!memcmp(a->uuid, b->uuid, TTI_UUID) && !(a->shares_device && b->shares_device)) {
        refuse_joiner(one, ncclInvalidUsage, "Duplicate GPU detected : two ranks on one CUDA device", a->rank, b->rank);
    }
}

/* The reply to each rank. */
static bool judge(struct root *root)
{
    bool good = true;
    for (int i = 0; i < root->count; i++) {
        for (int j = 0; j < root->count; j++) {
            if (i != j) {
                compare_joiners(&root->joiners[i], &root->joiners[j]);
            }
        }
        good = good && root->joiners[i].reply.result == ncclSuccess;
    }
    for (int i = 0; i < root->count && !good; i++) {
        refuse_joiner(&root->joiners[i], ncclRemoteError, "another rank gave up : rank and number of ranks",
                      root->joiners[i].hello.rank, root->joiners[i].hello.ranks);
    }
    return good;
}

static bool receive_all(int socket, void *to, size_t bytes)
{
    return recv(socket, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* Accepts one rank. false: all ranks are refused. */
static bool welcome(struct root *root, int socket)
{
    struct joiner joiner = {.socket = socket};
    if (!receive_all(socket, &joiner.hello, sizeof(joiner.hello))) {
        close(socket); /* died, or aborted: as if it had not come */
        return true;
    }
    struct joiner *more = realloc(root->joiners, ((size_t)root->count + 1) * sizeof(*more));
    if (!more) {
        close(socket);
        return false;
    }
    root->joiners = more;
    root->joiners[root->count++] = joiner;
    const struct hello *first = &root->joiners[0].hello;
    for (int i = 0; i + 1 < root->count; i++) {
        if (root->joiners[i].hello.rank == joiner.hello.rank) {
            for (int j = 0; j < root->count; j++) {
                refuse_joiner(&root->joiners[j], ncclInvalidUsage,
                              "Bootstrap Root : rank of ranks has already checked in", joiner.hello.rank, first->ranks);
            }
            return false;
        }
    }
    if (joiner.hello.ranks != first->ranks) {
        for (int j = 0; j < root->count; j++) {
            refuse_joiner(&root->joiners[j], ncclInvalidUsage, "Bootstrap Root : mismatch in rank count from procs",
                          first->ranks, joiner.hello.ranks);
        }
        return false;
    }
    return true;
}

static int make_memory(const struct root *root)
{
    const int ranks = root->count;
    const size_t bytes = tti_shared_bytes(ranks);
    const int fd = memfd_create("tutti-nccl-double", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    struct tti_shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        close(fd);
        return -1;
    }
    shared->ranks = ranks;
    for (int i = 0; i < ranks; i++) {
        const struct hello *hello = &root->joiners[i].hello;
        shared->place[hello->rank].process = hello->process;
        shared->place[hello->rank].device = hello->device;
    }
    munmap(shared, bytes);
    return fd;
}

static void answer(const struct joiner *joiner, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {(void *)&joiner->reply, sizeof(joiner->reply)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    }
    /* A rank that has died or aborted meanwhile gets no reply. */
    (void)sendmsg(joiner->socket, &message, MSG_NOSIGNAL);
}

static void answer_all(const struct root *root, int fd, bool own)
{
    for (int i = 0; i < root->count; i++) {
        const struct joiner *joiner = &root->joiners[i];
        if ((joiner->hello.process == (int32_t)getpid()) == own) {
            answer(joiner, fd);
            close(joiner->socket);
        }
    }
}

static void *serve(void *argument)
{
    struct root *root = argument;
    bool good = true;
    int fd = -1;
    do {
        const int socket = accept4(root->socket, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            continue;
        }
        good = socket >= 0 && welcome(root, socket);
    } while (good && (root->count == 0 || root->count < root->joiners[0].hello.ranks));
    close(root->socket);
    if (good && judge(root)) {
        fd = make_memory(root);
        good = fd >= 0;
    } else {
        good = false;
    }
    for (int i = 0; i < root->count && !good; i++) {
        refuse_joiner(&root->joiners[i], ncclSystemError, "the memory for the communicator : no room for ranks", i,
                      root->count);
    }
    /* The ranks of this process get it last: they may end the process when they have their answer. */
    answer_all(root, fd, false);
    answer_all(root, fd, true);
    if (fd >= 0) {
        close(fd);
    }
    free(root->joiners);
    free(root);
    return NULL;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    /* The first byte 0: a name that lives as long as the socket. */
    const size_t length = strnlen(name, sizeof(address->sun_path) - 1);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

ncclResult_t tti_id_create(ncclUniqueId *id)
{
    unsigned char random[16];
    struct sockaddr_un address;
    pthread_attr_t detached;
    pthread_t thread;
    memset(id, 0, sizeof(*id));
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        return tti_refuse(ncclSystemError, "GetUniqueId : no random bytes (%s)", strerror(errno));
    }
    size_t length = strlen(id_begin);
    memcpy(id->internal, id_begin, length);
    for (size_t i = 0; i < sizeof(random); i++) {
        length += (size_t)snprintf(id->internal + length, sizeof(id->internal) - length, "%02x", random[i]);
    }
    struct root *root = calloc(1, sizeof(*root));
    if (!root) {
        return tti_refuse(ncclSystemError, "GetUniqueId : no memory");
    }
    root->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (root->socket < 0 || bind(root->socket, (struct sockaddr *)&address, address_of(id->internal, &address)) != 0 ||
        listen(root->socket, TTI_MAX_RANKS) != 0) {
        const ncclResult_t result = tti_refuse(ncclSystemError, "GetUniqueId : no socket (%s)", strerror(errno));
        if (root->socket >= 0) {
            close(root->socket);
        }
        free(root);
        return result;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const int code = pthread_create(&thread, &detached, serve, root);
    pthread_attr_destroy(&detached);
    if (code != 0) {
        close(root->socket);
        free(root);
        return tti_refuse(ncclSystemError, "GetUniqueId : no thread (%s)", strerror(code));
    }
    return ncclSuccess;
}

/* ---- a rank ---- */

static ncclResult_t was_aborted(void)
{
    return tti_refuse(ncclInternalError, "the communicator was aborted while it was being made");
}

/* Waits until there is something to receive. */
static ncclResult_t await_answer(const struct ncclComm *comm, int socket)
{
    struct pollfd fds[2] = {{.fd = socket, .events = POLLIN}, {.fd = comm->abort_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0) {
        if (errno != EINTR) {
            return tti_refuse(ncclSystemError, "CommInitRank : poll (%s)", strerror(errno));
        }
    }
    return fds[1].revents ? was_aborted() : ncclSuccess;
}

static ncclResult_t receive_memory(struct ncclComm *comm, int socket)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct reply reply;
    struct iovec data = {&reply, sizeof(reply)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct stat status;
    int fd;
    if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof(reply)) {
        return tti_refuse(ncclRemoteError, "CommInitRank : the process that made the id has ended");
    }
    if (reply.result != ncclSuccess) {
        return tti_refuse((ncclResult_t)reply.result, "%s", reply.sentence);
    }
    if (message.msg_controllen == 0) {
        return tti_refuse(ncclSystemError, "CommInitRank : a message without the memory");
    }
    memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    const size_t bytes = tti_shared_bytes(comm->ranks);
    void *memory = MAP_FAILED;
    if (fstat(fd, &status) == 0 && (size_t)status.st_size == bytes) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (memory == MAP_FAILED) {
        return tti_refuse(ncclSystemError, "CommInitRank : the memory cannot be mapped (%s)", strerror(errno));
    }
    pthread_mutex_lock(&comm->lock);
    comm->shared = memory;
    pthread_mutex_unlock(&comm->lock);
    return ncclSuccess;
}

static bool shares_device(void)
{
    const char *wanted = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return tti_version() >= 23003 && wanted && !strcmp(wanted, "1");
}

ncclResult_t tti_id_join(struct ncclComm *comm, const ncclUniqueId *id)
{
    struct sockaddr_un address;
    struct hello hello = {.ranks = comm->ranks,
                          .rank = comm->rank,
                          .version = tti_version(),
                          .process = (int32_t)getpid(),
                          .device = comm->device,
                          .shares_device = shares_device()};
    ncclResult_t result = tti_driver_uuid(comm->device, hello.uuid);
    if (result != ncclSuccess) {
        return result;
    }
    if (memchr(id->internal, 0, sizeof(id->internal)) == NULL || strncmp(id->internal, id_begin, strlen(id_begin))) {
        return tti_refuse(ncclInvalidArgument, "CommInitRank : the id is none of GetUniqueId");
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return tti_refuse(ncclSystemError, "CommInitRank : no socket (%s)", strerror(errno));
    }
    if (tti_init_hangs(comm->rank)) {
        result = await_answer(comm, -1); /* without a peer: until the abort */
    } else if (connect(fd, (struct sockaddr *)&address, address_of(id->internal, &address)) != 0 ||
               send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
        result =
            tti_refuse(ncclSystemError, "CommInitRank : the id was used up, or the process that made it has ended (%s)",
                       strerror(errno));
    } else {
        result = await_answer(comm, fd);
    }
    if (result == ncclSuccess) {
        result = receive_memory(comm, fd);
    }
    close(fd);
    /* Either all ranks have the memory, or none has the communicator. */
    if (result == ncclSuccess && !tti_comm_exchange_all(comm, NULL, 0, NULL)) {
        result = was_aborted();
    }
    return result;
}
