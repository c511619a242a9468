/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gloo over TCP, on the loopback interface unless another one is named, as a peer of `tutti bench`. The ranks exchange
 * their addresses through Tutti, so it runs in any job. No exception crosses to the caller.
 *
 * Settings, with commas between them: `ring` (the default), `bcube` or `halving_doubling`, for all_reduce;
 * `interface=NAME`, for ranks on several hosts (or GLOO_SOCKET_IFNAME, which PyTorch reads, too).
 */
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/beside/peer.h"

namespace
{

/* The ranks of a job, each connected with each. */
class Mesh : public gloo::Context
{
  public:
    Mesh(const tti_bench_peer_job *job, std::shared_ptr<gloo::transport::Device> device)
        : gloo::Context(job->rank, job->size)
    {
        constexpr size_t room = 256; /* of an address; with TCP, a socket address and a number */
        auto transport = device->createContext(rank, size);
        transport->setTimeout(getTimeout());
        const size_t ranks = static_cast<size_t>(size);
        std::vector<char> mine(ranks * room);
        std::vector<char> all(ranks * ranks * room);
        std::vector<size_t> lengths(ranks);
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank) {
                continue;
            }
            const std::vector<char> bytes = transport->createPair(peer)->address().bytes();
            if (bytes.size() > room) {
                throw std::runtime_error("its addresses are longer than expected");
            }
            lengths[static_cast<size_t>(peer)] = bytes.size(); /* the same everywhere: it is one kind of transport */
            std::memcpy(mine.data() + static_cast<size_t>(peer) * room, bytes.data(), bytes.size());
        }
        if (job->all_gather(job, mine.data(), all.data(), mine.size()) != 0) {
            throw std::runtime_error("the job failed while addresses were exchanged");
        }
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank) {
                continue;
            }
            const size_t from = static_cast<size_t>(peer);
            const char *address = all.data() + (from * ranks + static_cast<size_t>(rank)) * room;
            transport->getPair(peer)->connect(std::vector<char>(address, address + lengths[from]));
        }
        device_ = std::move(device);
        transportContext_ = std::move(transport);
    }
};

/* One of Gloo's older algorithms, which are made for one buffer, as it is used for one. */
using HalvingDoubling = gloo::AllreduceHalvingDoubling<float>;

struct Session {
    std::shared_ptr<Mesh> mesh;
    gloo::AllreduceOptions::Algorithm algorithm;
    bool halves;
    std::map<std::pair<void *, int64_t>, std::unique_ptr<HalvingDoubling>> halving;
};

struct Settings {
    gloo::AllreduceOptions::Algorithm algorithm = gloo::AllreduceOptions::Algorithm::RING;
    bool halves = false;
    gloo::transport::tcp::attr attr{"127.0.0.1"};

    void use_interface(const std::string &name)
    {
        attr = gloo::transport::tcp::attr();
        attr.iface = name;
    }
};

Settings settings_of(const std::string &text)
{
    static const std::string interface = "interface=";
    Settings settings;
    const char *name = std::getenv("GLOO_SOCKET_IFNAME");
    if (name && *name) {
        settings.use_interface(name);
    }
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
        if (word == "bcube") {
            settings.algorithm = gloo::AllreduceOptions::Algorithm::BCUBE;
        } else if (word == "halving_doubling") {
            settings.halves = true;
        } else if (word.size() > interface.size() && word.compare(0, interface.size(), interface) == 0) {
            settings.use_interface(word.substr(interface.size()));
        } else if (word != "ring") {
            throw std::invalid_argument(
                "takes ring (the default), bcube or halving_doubling, and interface=NAME, not '" + word + "'");
        }
    }
    return settings;
}

using Function = void (*)(void *, const void *, const void *, size_t);

template <typename T> Function fold_of(tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
        return &gloo::sum<T>;
    case TUTTI_PRODUCT:
        return &gloo::product<T>;
    case TUTTI_MIN:
        return &gloo::min<T>;
    case TUTTI_MAX:
        return &gloo::max<T>;
    default:
        return nullptr;
    }
}

/* NULL if Gloo has no such reduction. It has types of its own for f16, whose sums round at every step. */
Function fold_for(tutti_dtype dtype, tutti_reduce_op op)
{
    switch (dtype) {
    case TUTTI_F64:
        return fold_of<double>(op);
    case TUTTI_F32:
        return fold_of<float>(op);
    case TUTTI_I8:
        return fold_of<int8_t>(op);
    case TUTTI_I32:
        return fold_of<int32_t>(op);
    case TUTTI_I64:
        return fold_of<int64_t>(op);
    case TUTTI_U8:
        return fold_of<uint8_t>(op);
    case TUTTI_U64:
        return fold_of<uint64_t>(op);
    default:
        return nullptr;
    }
}

size_t item_of(tutti_dtype dtype)
{
#define ITEM(name, value, text, bytes, code) bytes,
    static const size_t items[] = {0, TUTTI_DTYPE_LIST(ITEM)}; /* by value, which are without gaps */
#undef ITEM
    static_assert(sizeof(items) / sizeof(items[0]) == TUTTI_DTYPE_COUNT, "an element type for each value");
    return items[dtype];
}

/* Gloo takes the size of an element from a pointer's type, so reductions are called by type, and the rest in bytes. */
template <typename T> void all_reduce(const Session &s, const tti_bench_peer_call &c)
{
    const size_t count = static_cast<size_t>(c.count);
    gloo::AllreduceOptions options(s.mesh);
    options.setAlgorithm(s.algorithm);
    options.setReduceFunction(fold_for(c.dtype, c.redop));
    if (c.in != c.out) {
        options.setInput(static_cast<T *>(const_cast<void *>(c.in)), count);
    }
    options.setOutput(static_cast<T *>(c.out), count);
    gloo::allreduce(options);
}

template <typename T> void reduce(const Session &s, const tti_bench_peer_call &c)
{
    const size_t count = static_cast<size_t>(c.count);
    gloo::ReduceOptions options(s.mesh);
    options.setRoot(c.root);
    options.setReduceFunction(fold_for(c.dtype, c.redop));
    std::vector<T> scratch; /* it reduces in the output, on every rank */
    void *out = c.out;
    if (!out) {
        scratch.resize(count);
        out = scratch.data();
    }
    if (c.in != out) {
        options.setInput(static_cast<T *>(const_cast<void *>(c.in)), count);
    }
    options.setOutput(static_cast<T *>(out), count);
    gloo::reduce(options);
}

template <typename T> void fold_ranks(const Session &s, const tti_bench_peer_call &c)
{
    if (c.kind == TUTTI_OP_ALL_REDUCE) {
        all_reduce<T>(s, c);
    } else {
        reduce<T>(s, c);
    }
}

/* Sums of f32, in the output. */
void halve_and_double(Session &s, const tti_bench_peer_call &c)
{
    std::unique_ptr<HalvingDoubling> &algorithm = s.halving[{c.out, c.count}];
    if (!algorithm) { /* all ranks alike: their calls have the same sizes in the same order, in buffers of their own */
        algorithm = std::make_unique<HalvingDoubling>(s.mesh, std::vector<float *>{static_cast<float *>(c.out)},
                                                      static_cast<int>(c.count));
    }
    if (c.in != c.out) {
        std::memcpy(c.out, c.in, static_cast<size_t>(c.count) * sizeof(float));
    }
    algorithm->run();
}

/* By width: the reduction function has the element type. */
void fold_by_width(const Session &s, const tti_bench_peer_call &c)
{
    switch (item_of(c.dtype)) {
    case 1:
        return fold_ranks<uint8_t>(s, c);
    case 4:
        return fold_ranks<uint32_t>(s, c);
    default:
        return fold_ranks<uint64_t>(s, c);
    }
}

void broadcast(const Session &s, const tti_bench_peer_call &c, size_t part)
{
    gloo::BroadcastOptions options(s.mesh);
    options.setRoot(c.root);
    options.setOutput(static_cast<char *>(c.out), part);
    gloo::broadcast(options);
}

void all_gather(const Session &s, const tti_bench_peer_call &c, size_t part, size_t whole)
{
    gloo::AllgatherOptions options(s.mesh);
    if (static_cast<const char *>(c.in) != static_cast<char *>(c.out) + static_cast<size_t>(s.mesh->rank) * part) {
        options.setInput(static_cast<char *>(const_cast<void *>(c.in)), part);
    }
    options.setOutput(static_cast<char *>(c.out), whole);
    gloo::allgather(options);
}

void gather(const Session &s, const tti_bench_peer_call &c, size_t part, size_t whole)
{
    gloo::GatherOptions options(s.mesh);
    options.setRoot(c.root);
    options.setInput(static_cast<char *>(const_cast<void *>(c.in)), part);
    if (s.mesh->rank == c.root) {
        options.setOutput(static_cast<char *>(c.out), whole);
    }
    gloo::gather(options);
}

void scatter(const Session &s, const tti_bench_peer_call &c, size_t part)
{
    gloo::ScatterOptions options(s.mesh);
    options.setRoot(c.root);
    if (s.mesh->rank == c.root) {
        std::vector<char *> parts;
        parts.reserve(static_cast<size_t>(s.mesh->size));
        for (int r = 0; r < s.mesh->size; r++) {
            parts.push_back(static_cast<char *>(const_cast<void *>(c.in)) + static_cast<size_t>(r) * part);
        }
        options.setInputs(parts, part);
    }
    options.setOutput(static_cast<char *>(c.out), part);
    gloo::scatter(options);
}

void all_to_all(const Session &s, const tti_bench_peer_call &c, size_t whole)
{
    gloo::AlltoallOptions options(s.mesh);
    options.setInput(static_cast<char *>(const_cast<void *>(c.in)), whole);
    options.setOutput(static_cast<char *>(c.out), whole);
    gloo::alltoall(options);
}

void sendrecv(const Session &s, const tti_bench_peer_call &c, size_t part)
{
    const int size = s.mesh->size;
    auto in = s.mesh->createUnboundBuffer(const_cast<void *>(c.in), part);
    auto out = s.mesh->createUnboundBuffer(c.out, part);
    out->recv((s.mesh->rank + size - 1) % size, 1);
    in->send((s.mesh->rank + 1) % size, 1);
    in->waitSend();
    out->waitRecv();
}

/* A tag for each message: two receives of the same tag could take each other's data. */
void exchange(const Session &s, const tti_bench_peer_call &c, size_t whole)
{
    const int partner = s.mesh->rank ^ 1;
    const size_t messages = c.pattern == TTI_BENCH_WINDOW ? TTI_BENCH_MESSAGES : 1;
    if (partner >= s.mesh->size) {
        return;
    }
    auto in = s.mesh->createUnboundBuffer(const_cast<void *>(c.in), whole);
    auto out = s.mesh->createUnboundBuffer(c.out, whole);
    const size_t part = whole / messages;
    const bool answers = c.pattern == TTI_BENCH_PING_PONG && s.mesh->rank % 2 == 1;
    for (size_t i = 0; i < messages; i++) {
        out->recv(partner, i, i * part, part);
    }
    if (answers) {
        out->waitRecv();
    }
    for (size_t i = 0; i < messages; i++) {
        in->send(partner, i, i * part, part);
    }
    for (size_t i = 0; i < messages; i++) {
        in->waitSend();
        if (!answers) {
            out->waitRecv();
        }
    }
}

void run(Session &s, const tti_bench_peer_call &c)
{
    const size_t part = static_cast<size_t>(c.count) * item_of(c.dtype);
    const size_t whole = part * static_cast<size_t>(s.mesh->size);
    if (s.halves && c.kind == TUTTI_OP_ALL_REDUCE) {
        return halve_and_double(s, c);
    }
    switch (c.kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return fold_by_width(s, c);
    case TUTTI_OP_BROADCAST:
        return broadcast(s, c, part);
    case TUTTI_OP_ALL_GATHER:
        return all_gather(s, c, part, whole);
    case TUTTI_OP_GATHER:
        return gather(s, c, part, whole);
    case TUTTI_OP_SCATTER:
        return scatter(s, c, part);
    case TUTTI_OP_ALL_TO_ALL:
        return all_to_all(s, c, whole);
    case TUTTI_OP_SEND:
        return c.pattern == TTI_BENCH_ONE_CALL ? sendrecv(s, c, part) : exchange(s, c, part);
    default:
        gloo::BarrierOptions options(s.mesh);
        return gloo::barrier(options);
    }
}

/* 0, or 1 and the sentence of an exception. */
template <typename F> int guarded(char *why, size_t capacity, F run_it)
{
    try {
        run_it();
        return 0;
    } catch (const std::exception &e) {
        std::snprintf(why, capacity, "%s", e.what());
    } catch (...) {
        std::snprintf(why, capacity, "unknown exception");
    }
    return 1;
}

int open_peer(const tti_bench_peer_job *job, const char *settings, void **session, char *version,
              size_t version_capacity, char *why, size_t why_capacity)
{
    std::snprintf(version, version_capacity, "Gloo %d.%d.%d, TCP", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                  GLOO_VERSION_PATCH);
    return guarded(why, why_capacity, [&] {
        const Settings chosen = settings_of(settings);
        auto device = gloo::transport::tcp::CreateDevice(chosen.attr);
        auto mesh = std::make_shared<Mesh>(job, std::move(device));
        *session = new Session{std::move(mesh), chosen.algorithm, chosen.halves, {}};
    });
}

/* Its reduce_scatter is one of the older algorithm classes, which are made for one buffer. It has no sub-groups. */
int supports(void *session, const tti_bench_peer_call *call)
{
    if (call->kind == TUTTI_OP_REDUCE_SCATTER || call->pattern == TTI_BENCH_GROUP) {
        return 0;
    }
    if (call->kind == TUTTI_OP_SEND && static_cast<const Session *>(session)->mesh->size == 1) {
        return 0;
    }
    if (static_cast<const Session *>(session)->halves && call->kind == TUTTI_OP_ALL_REDUCE) {
        return call->dtype == TUTTI_F32 && call->redop == TUTTI_SUM && call->count <= INT32_MAX ? 1 : 0;
    }
    return call->redop == 0 || fold_for(call->dtype, call->redop) ? 1 : 0;
}

int call_peer(void *session, const tti_bench_peer_call *call, char *why, size_t capacity)
{
    return guarded(why, capacity, [&] { run(*static_cast<Session *>(session), *call); });
}

void close_peer(void *session)
{
    guarded(nullptr, 0, [&] { delete static_cast<Session *>(session); }); /* else the other ranks have ended */
}

} // namespace

extern "C" {
extern __attribute__((visibility("default"))) const struct tti_bench_peer tti_bench_peer;
const struct tti_bench_peer tti_bench_peer = {
    TTI_BENCH_PEER_ABI, sizeof(struct tti_bench_peer), "gloo", open_peer, supports, call_peer, close_peer};
}
