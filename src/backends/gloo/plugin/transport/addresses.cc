/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of addresses by probing. A host name may resolve to 127.0.1.1, bridges of containers have the same address on
 * every host, and firewalls differ. So ranks on several hosts probe:
 *
 *   1. Every rank listens on all of its addresses and publishes them with a random token.
 *   2. Every rank connects to every address of the other ranks and compares the token, since another host may have the
 *      same address.
 *   3. Every rank publishes which addresses it reached. All ranks read the same results, and choose for each rank its
 *      first address that all ranks reached. Faster interfaces come first, bridges late, loopback last.
 *   4. If a rank has none, all go on with the probes that have not ended, and publish once more. A rank that stops when
 *      it has reached one address of each other rank may have missed the one that the others reached: loopback is the
 *      quickest between ranks of one host.
 *
 * If all ranks are on one host and in one network namespace, they take loopback without probing.
 *
 * Cost: ranks x addresses connections for each rank, at once: some milliseconds if no firewall drops packets, else
 * EXTRA_PROBE_MS, or PROBE_TIMEOUT_MS if a rank has no address that all reach.
 */
#include "backends/gloo/plugin/transport/addresses.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

namespace tti
{

namespace
{

constexpr size_t MAX_ADDRESSES = 12;       /* addresses of one rank */
constexpr int64_t PROBE_TIMEOUT_MS = 5000; /* while a rank has no address that has answered */
constexpr int64_t EXTRA_PROBE_MS = 250;    /* first for the remaining addresses, once each rank has one */
constexpr int ROUNDS = 2;

/* Travels between processes. */
struct Address {
    char name[16];
    uint8_t bytes[16];
    uint16_t family;
    uint16_t port; /* of the listener, network order */
    uint32_t is_loopback;
};

struct AddressRecord {
    uint64_t host; /* and network namespace */
    uint64_t token;
    uint64_t count;
    Address addresses[MAX_ADDRESSES];
};

struct Token {
    uint64_t token;
    uint32_t rank;
    uint32_t address;
};

class Descriptor
{
  public:
    explicit Descriptor(int fd = -1) : fd_(fd)
    {
    }
    Descriptor(Descriptor &&other) noexcept : fd_(other.fd_)
    {
        other.fd_ = -1;
    }
    Descriptor &operator=(Descriptor &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor()
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    int get() const
    {
        return fd_;
    }

  private:
    int fd_;
};

/* Ranks with the same value reach each other over loopback: boot id and network namespace. Tests set TUTTI_HOST_ID to
 * separate ranks of one host. */
uint64_t host_identity()
{
    char boot[TTI_BOOT_ID];
    tutti_error error;
    if (tti_boot_id(boot, &error) != TUTTI_OK) {
        throw Failure(error);
    }
    std::string text = boot;
    struct stat status {
    };
    if (stat("/proc/thread-self/ns/net", &status) == 0) {
        text += std::to_string(status.st_ino);
    }
    const char *given = getenv("TUTTI_HOST_ID");
    text += given ? given : "";
    return tti_hash_text(TTI_HASH_EMPTY, text.c_str());
}

/* The two structs of the system have other names for the same members. */
socklen_t to_sockaddr(const Address &address, sockaddr_storage *to)
{
    std::memset(to, 0, sizeof(*to));
    if (address.family == AF_INET) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = address.port;
        std::memcpy(&in.sin_addr, address.bytes, sizeof(in.sin_addr));
        std::memcpy(to, &in, sizeof(in));
        return sizeof(in);
    }
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = address.port;
    std::memcpy(&in6.sin6_addr, address.bytes, sizeof(in6.sin6_addr));
    std::memcpy(to, &in6, sizeof(in6));
    return sizeof(in6);
}

std::string text_of(const Address &address)
{
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(address.family, address.bytes, text, sizeof(text));
    return std::string(text) + " on " + address.name;
}

/* Higher is better. */
long preference(const Address &address)
{
    static const char *const virtual_prefixes[] = {"docker", "br-", "virbr", "veth", "cni", "flannel", "lxc", "podman"};
    if (address.is_loopback) {
        return -2;
    }
    for (const char *prefix : virtual_prefixes) {
        if (std::strncmp(address.name, prefix, std::strlen(prefix)) == 0) {
            return -1;
        }
    }
    long speed = 0;
    std::ifstream file(std::string("/sys/class/net/") + address.name + "/speed");
    return file >> speed && speed > 0 ? speed : 0;
}

/* The addresses of the interfaces that are up, the preferred first. */
std::vector<Address> own_addresses(const std::string &interface)
{
    std::vector<Address> found;
    std::string names;
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0) {
        fail_with(TUTTI_SYSTEM, "getifaddrs: %s", std::strerror(errno));
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> owner(list, freeifaddrs);
    for (const ifaddrs *i = list; i; i = i->ifa_next) {
        const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || !(i->ifa_flags & IFF_UP)) {
            continue;
        }
        Address address{};
        snprintf(address.name, sizeof(address.name), "%s", i->ifa_name);
        address.family = static_cast<uint16_t>(family);
        address.is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        if (family == AF_INET) {
            std::memcpy(address.bytes, &reinterpret_cast<const sockaddr_in *>(i->ifa_addr)->sin_addr, 4);
        } else {
            const auto *in6 = reinterpret_cast<const sockaddr_in6 *>(i->ifa_addr);
            if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) {
                continue; /* valid only together with the interface of the other host */
            }
            std::memcpy(address.bytes, &in6->sin6_addr, 16);
        }
        names += (names.empty() ? "" : ", ") + std::string(i->ifa_name);
        if (interface.empty() || interface == i->ifa_name) {
            found.push_back(address);
        }
    }
    if (found.empty()) {
        fail_with(TUTTI_NOT_AVAILABLE,
                  "gloo.interface is \"%s\", but the interfaces with an address that are up here "
                  "are: %s",
                  interface.c_str(), names.empty() ? "none" : names.c_str());
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Address &a, const Address &b) { return preference(a) > preference(b); });
    found.resize(std::min(found.size(), MAX_ADDRESSES));
    return found;
}

/* Listens on all addresses of this rank and sends each client the token of the address. Stops in the destructor. */
class ProbeServer
{
  public:
    ProbeServer(AddressRecord *record, int rank) : stop_(eventfd(0, EFD_CLOEXEC))
    {
        for (size_t i = 0; i < record->count; i++) {
            listeners_.push_back(listen_at(&record->addresses[i]));
            tokens_.push_back({record->token, static_cast<uint32_t>(rank), static_cast<uint32_t>(i)});
        }
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the application's threads */
        try {
            thread_ = std::thread([this] { serve(); });
        } catch (...) {
            pthread_sigmask(SIG_SETMASK, &before, nullptr);
            throw;
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    ~ProbeServer()
    {
        const uint64_t one = 1;
        while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        thread_.join();
    }

  private:
    /* An address on which this rank cannot listen gets port 0, so no rank probes it. */
    static Descriptor listen_at(Address *address)
    {
        Descriptor fd(socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_storage name;
        socklen_t length = to_sockaddr(*address, &name);
        if (fd.get() < 0 || bind(fd.get(), reinterpret_cast<const sockaddr *>(&name), length) != 0 ||
            listen(fd.get(), SOMAXCONN) != 0 ||
            getsockname(fd.get(), reinterpret_cast<sockaddr *>(&name), &length) != 0) {
            return Descriptor();
        }
        address->port = address->family == AF_INET ? reinterpret_cast<const sockaddr_in *>(&name)->sin_port
                                                   : reinterpret_cast<const sockaddr_in6 *>(&name)->sin6_port;
        return fd;
    }

    void serve()
    {
        std::vector<pollfd> waits;
        for (const Descriptor &listener : listeners_) {
            waits.push_back({listener.get(), POLLIN, 0});
        }
        waits.push_back({stop_.get(), POLLIN, 0});
        while (poll(waits.data(), waits.size(), -1) >= 0 || errno == EINTR) {
            if (waits.back().revents != 0) {
                return;
            }
            for (size_t i = 0; i < listeners_.size(); i++) {
                if (waits[i].revents & POLLIN) {
                    const Descriptor prober(accept4(waits[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
                    /* so few bytes fit into the socket at once, and arrive even if this end closes at once */
                    if (prober.get() >= 0) {
                        (void)!send(prober.get(), &tokens_[i], sizeof(tokens_[i]), MSG_NOSIGNAL | MSG_DONTWAIT);
                    }
                }
            }
        }
    }

    std::vector<Descriptor> listeners_;
    std::vector<Token> tokens_;
    Descriptor stop_;
    std::thread thread_;
};

/* One attempt to reach an address. */
struct Attempt {
    size_t rank;
    size_t address;
    Descriptor fd;
    size_t got = 0;
    Token token{};
};

/* Probes the addresses of all other ranks. reached() has one byte for each address of each rank. */
class ProbeClient
{
  public:
    ProbeClient(const std::vector<AddressRecord> &records, int rank)
        : records_(records), reached_(records.size() * MAX_ADDRESSES), begun_ns_(tti_now_ns())
    {
        for (size_t r = 0; r < records.size(); r++) {
            for (size_t a = 0; a < records[r].count && r != static_cast<size_t>(rank); a++) {
                begin(r, a);
            }
        }
    }

    const std::vector<char> &reached() const
    {
        return reached_;
    }

    void run(int64_t deadline_ns, int64_t extra_ms)
    {
        const int64_t last = std::min(deadline_ns, tti_deadline_ns(begun_ns_, PROBE_TIMEOUT_MS));
        const int64_t enough = std::min(last, tti_deadline_ns(begun_ns_, extra_ms));
        while (!attempts_.empty()) {
            const int64_t left = tti_remaining_ms(each_has_one() ? enough : last);
            std::vector<pollfd> waits;
            for (const Attempt &attempt : attempts_) {
                waits.push_back({attempt.fd.get(), POLLIN, 0});
            }
            poll(waits.data(), waits.size(), static_cast<int>(left));
            for (size_t i = attempts_.size(); i-- > 0;) {
                if (waits[i].revents != 0 && has_ended(attempts_[i])) {
                    attempts_.erase(attempts_.begin() + static_cast<ptrdiff_t>(i));
                }
            }
            if (left == 0) { /* what has answered meanwhile counts */
                return;
            }
        }
    }

  private:
    void begin(size_t rank, size_t address)
    {
        const Address &to = records_[rank].addresses[address];
        sockaddr_storage name;
        const socklen_t length = to_sockaddr(to, &name);
        Descriptor fd(socket(to.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (to.port != 0 && fd.get() >= 0 &&
            (connect(fd.get(), reinterpret_cast<const sockaddr *>(&name), length) == 0 || errno == EINPROGRESS)) {
            Attempt attempt;
            attempt.rank = rank;
            attempt.address = address;
            attempt.fd = std::move(fd);
            attempts_.push_back(std::move(attempt));
        }
    }

    bool has_ended(Attempt &a)
    {
        const ssize_t n = recv(a.fd.get(), reinterpret_cast<char *>(&a.token) + a.got, sizeof(a.token) - a.got, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) {
            return false;
        }
        a.got += n > 0 ? static_cast<size_t>(n) : 0;
        if (n > 0 && a.got < sizeof(a.token)) {
            return false;
        }
        reached_[a.rank * MAX_ADDRESSES + a.address] = a.got == sizeof(a.token) &&
                                                       a.token.token == records_[a.rank].token &&
                                                       a.token.rank == a.rank && a.token.address == a.address;
        return true;
    }

    bool each_has_one() const
    {
        for (const Attempt &attempt : attempts_) {
            const char *of_rank = &reached_[attempt.rank * MAX_ADDRESSES];
            if (std::find(of_rank, of_rank + MAX_ADDRESSES, 1) == of_rank + MAX_ADDRESSES) {
                return false;
            }
        }
        return true;
    }

    const std::vector<AddressRecord> &records_;
    std::vector<char> reached_;
    std::vector<Attempt> attempts_;
    int64_t begun_ns_;
};

std::string key_of(const std::string &what, size_t rank)
{
    return what + std::to_string(rank);
}

Endpoint endpoint_of(const Address &address, const std::string &why)
{
    Endpoint endpoint;
    Address without = address;
    without.port = 0; /* every connection gets its own port */
    endpoint.attr.ai_family = address.family;
    endpoint.attr.ai_socktype = SOCK_STREAM;
    endpoint.attr.ai_protocol = 0;
    endpoint.attr.ai_addrlen = static_cast<int>(to_sockaddr(without, &endpoint.attr.ai_addr));
    endpoint.text = text_of(address) + ": " + why;
    return endpoint;
}

const Address *find_loopback(const AddressRecord &record)
{
    for (size_t i = 0; i < record.count; i++) {
        if (record.addresses[i].is_loopback && record.addresses[i].family == AF_INET) {
            return &record.addresses[i];
        }
    }
    return nullptr;
}

/* The first address of a rank, of one family, that all other ranks reach; MAX_ADDRESSES if there is none. */
size_t reached_by_all(const std::vector<AddressRecord> &records, const std::vector<std::vector<char>> &reached,
                      size_t rank, int family)
{
    for (size_t a = 0; a < records[rank].count; a++) {
        bool all = records[rank].addresses[a].family == family;
        for (size_t r = 0; r < records.size() && all; r++) {
            all = r == rank || reached[r][rank * MAX_ADDRESSES + a] == 1;
        }
        if (all) {
            return a;
        }
    }
    return MAX_ADDRESSES;
}

std::string names_of(const AddressRecord &record)
{
    std::string text;
    for (size_t a = 0; a < record.count; a++) {
        text += (a == 0 ? "" : ", ") + text_of(record.addresses[a]);
    }
    return text;
}

/* The family in which all ranks reach an address of each rank; AF_UNSPEC if there is none. Gloo connects addresses of
 * one family only. */
int common_family(const std::vector<AddressRecord> &records, const std::vector<std::vector<char>> &reached)
{
    for (const int family : {AF_INET, AF_INET6}) {
        bool all = true;
        for (size_t r = 0; r < records.size() && all; r++) {
            all = reached_by_all(records, reached, r, family) < MAX_ADDRESSES;
        }
        if (all) {
            return family;
        }
    }
    return AF_UNSPEC;
}

[[noreturn]] void fail_without_address(const std::vector<AddressRecord> &records,
                                       const std::vector<std::vector<char>> &reached)
{
    size_t worst = 0;
    while (worst + 1 < records.size() && reached_by_all(records, reached, worst, AF_INET) < MAX_ADDRESSES) {
        worst++;
    }
    std::string by;
    for (size_t r = 0; r < records.size(); r++) {
        const char *of_rank = &reached[r][worst * MAX_ADDRESSES];
        if (r != worst && std::find(of_rank, of_rank + MAX_ADDRESSES, 1) == of_rank + MAX_ADDRESSES) {
            by += (by.empty() ? "rank " : ", ") + std::to_string(r);
        }
    }
    const std::string what = by.empty() ? "each rank reached one, but not the same one" : by + " reached none of them";
    fail_with(TUTTI_NOT_AVAILABLE,
              "rank %zu has no address that all ranks reach; it has %s; %s; set gloo.interface to another interface",
              worst, names_of(records[worst]).c_str(), what.c_str());
}

} // namespace

Endpoint choose_endpoint(Store &store, int rank, int size, const std::string &interface, int64_t deadline_ns)
{
    const size_t ranks = static_cast<size_t>(size);
    const size_t own = static_cast<size_t>(rank);
    AddressRecord own_record{};
    const std::vector<Address> addresses = own_addresses(interface);
    own_record.host = host_identity();
    own_record.count = addresses.size();
    std::copy(addresses.begin(), addresses.end(), own_record.addresses);
    if (getrandom(&own_record.token, sizeof(own_record.token), 0) != static_cast<ssize_t>(sizeof(own_record.token))) {
        own_record.token = static_cast<uint64_t>(tti_now_ns());
    }
    const ProbeServer server(&own_record, rank);
    const char *bytes = reinterpret_cast<const char *>(&own_record);
    store.set(key_of("addresses/", own), std::vector<char>(bytes, bytes + sizeof(own_record)));
    std::vector<AddressRecord> records(ranks);
    bool one_host = true;
    for (size_t r = 0; r < ranks; r++) {
        const std::vector<char> value = store.get(key_of("addresses/", r));
        if (value.size() != sizeof(AddressRecord)) {
            fail_with(TUTTI_PROTOCOL, "rank %zu published no addresses for Gloo", r);
        }
        std::memcpy(&records[r], value.data(), sizeof(AddressRecord));
        records[r].count = std::min<uint64_t>(records[r].count, MAX_ADDRESSES);
        one_host = one_host && records[r].host == own_record.host && find_loopback(records[r]);
    }
    if (one_host) {
        return endpoint_of(*find_loopback(own_record), "all ranks are on this host");
    }
    ProbeClient prober(records, rank);
    std::vector<std::vector<char>> reached(ranks);
    for (int round = 0; round < ROUNDS; round++) {
        const std::string key = "reached/" + std::to_string(round) + "/";
        prober.run(deadline_ns, round == 0 ? EXTRA_PROBE_MS : PROBE_TIMEOUT_MS);
        store.set(key_of(key, own), prober.reached());
        for (size_t r = 0; r < ranks; r++) {
            reached[r] = store.get(key_of(key, r));
            reached[r].resize(ranks * MAX_ADDRESSES);
        }
        const int family = common_family(records, reached);
        if (family != AF_UNSPEC) {
            return endpoint_of(records[own].addresses[reached_by_all(records, reached, own, family)],
                               "probed, all ranks reach it");
        }
    }
    fail_without_address(records, reached);
}

} // namespace tti
