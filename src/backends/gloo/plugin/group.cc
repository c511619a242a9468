/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/gloo/plugin/group.h"

#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backends/gloo/plugin/addresses.h"
#include "backends/gloo/plugin/call.h"

namespace tti
{

namespace
{

constexpr uint64_t NEWS_MAGIC = UINT64_C(0x7475747469303031);
constexpr int64_t LONG_MS = INT64_C(24) * 3600 * 1000; /* for Gloo, which has no "for ever" */
constexpr int64_t LINGER_MS = 10000;
constexpr int64_t LINGER_FAILED_MS = 100;

const char *setting(const tutti_open_info *info, const char *key, const char *otherwise)
{
    const char *text = info->setting ? info->setting(info->settings, key) : nullptr;
    return text ? text : otherwise;
}

} // namespace

Group::Group(const tutti_open_info *info)
    : rank(info->rank), size(info->world_size), lanes(info->lanes), timeout_ms(info->timeout_ms), messages(*this),
      left_(static_cast<size_t>(info->world_size))
{
    if (size > 1) {
        connect(info);
    }
}

/* What is the same on all ranks: rank 0's. */
void Group::agree(const tutti_open_info *info, Store &store)
{
    std::array<uint64_t, 2> terms{};
    if (rank == 0) {
        terms[0] =
            std::max<uint64_t>(std::strtoull(setting(info, "gloo.segment", "262144"), nullptr, 10), 4096) / 64 * 64;
        if (getrandom(&terms[1], sizeof(terms[1]), 0) != static_cast<ssize_t>(sizeof(terms[1]))) {
            terms[1] = static_cast<uint64_t>(tti_now_ns());
        }
        const char *bytes = reinterpret_cast<const char *>(terms.data());
        store.set("terms", std::vector<char>(bytes, bytes + sizeof(terms)));
    }
    const std::vector<char> value = store.get("terms");
    if (value.size() != sizeof(terms)) {
        fail_with(TUTTI_PROTOCOL, "rank 0 published no terms for Gloo");
    }
    std::memcpy(terms.data(), value.data(), sizeof(terms));
    segment = static_cast<size_t>(terms[0]);
    token = terms[1];
}

void Group::connect(const tutti_open_info *info)
{
    const size_t ranks = static_cast<size_t>(size);
    const int64_t begun = tti_now_ns();
    const int64_t deadline = tti_deadline_ns(begun, info->timeout_ms);
    Store store(info->rendezvous, deadline, 4096 + ranks * 1024);
    const Way chosen = choose_way(store, rank, size, setting(info, "gloo.interface", ""), deadline);
    way = chosen.text;
    agree(info, store);

    device_ = make_device(chosen.attr);
    std::shared_ptr<gloo::transport::Device> device = device_;
    gloo::rendezvous::Context context(rank, size);
    const int64_t left_ms = tti_remaining_ms(deadline);
    /* Gloo waits five times as long for connections */
    context.setTimeout(std::chrono::milliseconds(left_ms < 0 ? LONG_MS : std::max<int64_t>(left_ms / 5, 1)));
    try {
        context.connectFullMesh(store, device);
    } catch (const Failure &) {
        throw;
    } catch (const std::exception &e) {
        const std::shared_ptr<Mesh> begun_mesh = device_->mesh();
        const int peer = begun_mesh ? begun_mesh->connecting.load(std::memory_order_relaxed) : -1;
        const bool late = deadline != TTI_NEVER && tti_now_ns() >= deadline - 50000000;
        fail_with(late ? TUTTI_TIMEOUT : TUTTI_BACKEND, "rank %d (%s) could not connect with rank %d in %lld ms: %s",
                  rank, way.c_str(), peer, static_cast<long long>((tti_now_ns() - begun) / 1000000), e.what());
    }
    mesh = device_->mesh();

    news_in_.resize(FACTS * ranks);
    news_seen_.resize(ranks);
    news_buffers_.resize(ranks);
    failed_buffer_ = mesh->buffer(&failed_news_, sizeof(failed_news_));
    left_buffer_ = mesh->buffer(&left_news_, sizeof(left_news_));
    waiting_buffer_ = mesh->buffer(&waiting_news_, sizeof(waiting_news_));
    waits_.resize(ranks);
    awaited_.resize(ranks);
    for (int r = 0; r < size; r++) {
        if (r != rank) {
            auto &buffer = news_buffers_[static_cast<size_t>(r)];
            buffer = mesh->buffer(&news_in_[FACTS * static_cast<size_t>(r)], FACTS * sizeof(News));
            for (size_t i = 0; i < FACTS; i++) {
                recv(*buffer, r, slot_of(Use::NEWS, 0), i * sizeof(News), sizeof(News));
            }
        }
    }
    messages.begin();
    greet(*this, deadline); /* all have come so far, and every connection leads to whom it should */
}

/* Whatever was sent has to arrive: a socket that is closed with something unread forgets what it has not sent. */
Group::~Group()
{
    if (!mesh) {
        return;
    }
    const bool failed = has_failed();
    if (!failed) {
        tell(left_news_, *left_buffer_, Fact::LEAVES);
    }
    await_sent(failed ? LINGER_FAILED_MS : LINGER_MS);
    mesh->discard();
    mesh->shut();
}

void Group::await_sent(int64_t limit_ms)
{
    const int64_t limit = tti_deadline_ns(tti_now_ns(), limit_ms);
    for (int r = 0; r < size; r++) {
        while (r != rank && !mesh->is_gone(r) && mesh->pair(r)->is_sending() && tti_now_ns() < limit) {
            mesh->bell.wait(mesh->bell.value(), tti_now_ns() + 500000); /* an acknowledgement rings no bell */
        }
    }
}

bool Group::send(Buffer &from, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept
{
    try {
        from.send(peer, slot, offset, bytes);
        return true;
    } catch (...) {
        return false;
    }
}

bool Group::recv(Buffer &to, int peer, uint64_t slot, size_t offset, size_t bytes) noexcept
{
    try {
        to.recv(peer, slot, offset, bytes);
        return true;
    } catch (...) {
        return false;
    }
}

/* Writes down the first cause; false if there was one. */
bool Group::note(const tutti_error &cause) noexcept
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (failed_.load(std::memory_order_relaxed) != TUTTI_OK) {
        return false;
    }
    cause_ = cause;
    cause_.size = static_cast<uint32_t>(sizeof(cause_));
    cause_.scope = TUTTI_SCOPE_GROUP;
    /* release: pairs with the acquire of whoever reads the cause */
    failed_.store(cause.status != TUTTI_OK ? cause.status : TUTTI_INTERNAL, std::memory_order_release);
    return true;
}

void Group::tell(News &news, Buffer &buffer, Fact fact) noexcept
{
    news.magic = NEWS_MAGIC;
    news.fact = fact;
    for (int r = 0; r < size; r++) {
        if (r != rank && !mesh->is_gone(r)) {
            send(buffer, r, slot_of(Use::NEWS, 0), 0, sizeof(News));
        }
    }
}

void Group::fail(const tutti_error &cause) noexcept
{
    if (!note(cause)) {
        return;
    }
    if (mesh) {
        failed_news_.cause = cause_;
        tell(failed_news_, *failed_buffer_, Fact::HAS_FAILED);
        mesh->discard();
    }
    bell().ring();
}

/* With the lock. */
void Group::take_in(const News &news, int peer, tutti_error *cause)
{
    if (news.magic != NEWS_MAGIC || news.fact == Fact::LEAVES) {
        left_[static_cast<size_t>(peer)].store(true, std::memory_order_release);
    } else if (news.fact == Fact::WAITS) {
        waits_[static_cast<size_t>(peer)] = true;
        for (int r = 0; r < std::min(size, TOLD_RANKS); r++) {
            const size_t told = static_cast<size_t>(r);
            awaited_[told] = awaited_[told] || (news.missing[told / 8] >> (told % 8) & 1) != 0;
        }
        asked_lane_.store(news.lane, std::memory_order_relaxed);
    } else {
        *cause = news.cause;
        cause->message[sizeof(cause->message) - 1] = '\0';
        cause->suspect = cause->suspect >= 0 && cause->suspect < size ? cause->suspect : peer;
    }
}

void Group::look()
{
    for (int r = 0; mesh && r < size && !has_failed(); r++) {
        const size_t peer = static_cast<size_t>(r);
        if (r == rank) {
            continue;
        }
        tutti_error cause{};
        {
            const std::lock_guard<std::mutex> guard(lock_);
            while (news_seen_[peer] < std::min<size_t>(news_buffers_[peer]->received(), FACTS)) {
                take_in(news_in_[FACTS * peer + news_seen_[peer]++], r, &cause);
            }
        }
        if (cause.status != TUTTI_OK && note(cause)) {
            mesh->discard();
            bell().ring();
        }
    }
}

void Group::tell_waiting(int32_t waiting_lane, const std::vector<int> &missing)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (told_waiting_) {
            return;
        }
        told_waiting_ = true;
        waiting_news_.lane = waiting_lane;
        for (const int r : missing) {
            if (r < TOLD_RANKS) {
                uint8_t &byte = waiting_news_.missing[r / 8];
                byte = static_cast<uint8_t>(byte | 1 << r % 8);
            }
        }
    }
    tell(waiting_news_, *waiting_buffer_, Fact::WAITS);
}

std::vector<int> Group::silent(const std::vector<int> &missing)
{
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<int> ranks;
    for (int r = 0; r < size; r++) {
        const size_t peer = static_cast<size_t>(r);
        const bool is_missing = awaited_[peer] || std::find(missing.begin(), missing.end(), r) != missing.end();
        if (r != rank && is_missing && !waits_[peer]) {
            ranks.push_back(r);
        }
    }
    return ranks.empty() ? missing : ranks; /* they wait for one another */
}

tutti_status Group::check(tutti_error *error)
{
    if (!has_failed()) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_REVOKED, "the group has failed: %.300s", cause_.message);
    if (error) {
        error->suspect = cause_.suspect;
        error->scope = TUTTI_SCOPE_GROUP;
    }
    return TUTTI_REVOKED;
}

tutti_status Group::failure(tutti_error *error)
{
    look();
    for (int r = 0; mesh && r < size && !has_failed(); r++) {
        if (r != rank && mesh->is_gone(r) && !has_left(r)) {
            look(); /* its farewell was before the end of the connection */
            tutti_error unused;
            if (!has_left(r)) {
                peer_is_gone(r, "the group", &unused);
            }
        }
    }
    if (!has_failed()) {
        return TUTTI_OK;
    }
    if (error) {
        *error = cause_;
    }
    return failed_.load(std::memory_order_relaxed);
}

tutti_status Group::peer_is_gone(int peer, const std::string &what, tutti_error *error)
{
    const std::string why = mesh->why(peer);
    look();
    if (has_failed()) {
        return check(error);
    }
    if (has_left(peer)) {
        tti_error_set(error, TUTTI_PEER_LEFT, "%s: rank %d waits for rank %d, which has destroyed its group",
                      what.c_str(), rank, peer);
    } else {
        tti_error_set(error, TUTTI_PEER_DEAD,
                      "%s: rank %d lost its connection with rank %d, which has ended or cannot be "
                      "reached any more; Gloo: %.200s",
                      what.c_str(), rank, peer, why.c_str());
    }
    error->suspect = peer;
    error->scope = TUTTI_SCOPE_GROUP;
    const tutti_status status = error->status;
    fail(*error);
    return status;
}

} // namespace tti
