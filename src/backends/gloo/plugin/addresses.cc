/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing by trying. A host name may mean 127.0.1.1, containers and virtual machines have bridges that exist on every host
 * with the same address, and firewalls differ; so nothing is guessed where ranks are on several hosts. Every rank listens
 * on all of its addresses and publishes them; every rank connects to every address of the others and compares a token
 * (an address of that number may be somebody else's); it publishes what it reached; then all know the same and take, for
 * each rank, the first of its addresses that everybody reached. The order is by the interface's speed, addresses of
 * bridges and the like come last, loopback, which leads back to the same host, at the very end.
 *
 * Where all ranks are on one host and in one network namespace, loopback is taken without trying.
 *
 * Cost: ranks x addresses connections for each rank, at once; some milliseconds where nothing is filtered, else up to
 * PATIENCE_MS.
 */
#include "backends/gloo/plugin/addresses.h"

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

constexpr size_t MAX_ADDRESSES = 12;              /* addresses of one rank */
constexpr int64_t PROBE_TIMEOUT_MS = 5000;    /* for addresses of a rank none of which has answered */
constexpr int64_t EXTRA_PROBE_MS = 250;   /* for the others, once one has */
constexpr uint64_t HASH = 1099511628211; /* FNV-1a's prime */

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

/* Where loopback leads to the same rank: boot and network namespace; TUTTI_HOST_ID parts ranks of one host, for tests. */
uint64_t host_identity()
{
    uint64_t hash = UINT64_C(14695981039346656037);
    std::string text;
    std::ifstream boot("/proc/sys/kernel/random/boot_id");
    std::getline(boot, text);
    struct stat status {
    };
    if (stat("/proc/thread-self/ns/net", &status) == 0) {
        text += std::to_string(status.st_ino);
    }
    const char *given = getenv("TUTTI_HOST_ID");
    text += given ? given : "";
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * HASH;
    }
    return hash;
}

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
    static const char *const virtual_ones[] = {"docker", "br-", "virbr", "veth", "cni", "flannel", "lxc", "podman"};
    if (address.is_loopback) {
        return -2;
    }
    for (const char *prefix : virtual_ones) {
        if (std::strncmp(address.name, prefix, std::strlen(prefix)) == 0) {
            return -1;
        }
    }
    long speed = 0;
    std::ifstream file(std::string("/sys/class/net/") + address.name + "/speed");
    return file >> speed && speed > 0 ? speed : 0;
}

/* Of the interfaces that are up, the best first. */
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
                continue; /* means nothing without the interface of the other side */
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
                  "gloo.interface is \"%s\", but the interfaces that are up here and have an address "
                  "are: %s",
                  interface.c_str(), names.empty() ? "none" : names.c_str());
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Address &a, const Address &b) { return preference(a) > preference(b); });
    found.resize(std::min(found.size(), MAX_ADDRESSES));
    return found;
}

/* Answers whoever connects to an address of this rank with the token of that address, until it is destroyed. */
class ProbeServer
{
  public:
    ProbeServer(AddressRecord *place, int rank) : stop_(eventfd(0, EFD_CLOEXEC))
    {
        for (size_t i = 0; i < place->count; i++) {
            listeners_.push_back(listen_at(&place->addresses[i]));
            tokens_.push_back({place->token, static_cast<uint32_t>(rank), static_cast<uint32_t>(i)});
        }
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* the application's signals are handled in its own threads */
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
    /* An address at which one cannot listen is one that nobody reaches. */
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
                    /* so few bytes fit at once, and the guest has them even if this end is closed at once */
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

/* Which addresses of which ranks this one reaches: one byte for each. */
class ProbeClient
{
  public:
    ProbeClient(const std::vector<AddressRecord> &places, int rank) : places_(places), reached_(places.size() * MAX_ADDRESSES)
    {
        for (size_t r = 0; r < places.size(); r++) {
            for (size_t a = 0; a < places[r].count && r != static_cast<size_t>(rank); a++) {
                begin(r, a);
            }
        }
    }

    const std::vector<char> &reached() const
    {
        return reached_;
    }

    void look(int64_t deadline_ns)
    {
        const int64_t begun = tti_now_ns();
        const int64_t last = std::min(deadline_ns, tti_deadline_ns(begun, PROBE_TIMEOUT_MS));
        const int64_t enough = std::min(last, tti_deadline_ns(begun, EXTRA_PROBE_MS));
        while (!attempts_.empty()) {
            const int64_t until = each_has_one() ? enough : last;
            const int64_t left = tti_remaining_ms(until);
            if (left == 0) {
                return;
            }
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
        }
    }

  private:
    void begin(size_t rank, size_t address)
    {
        const Address &to = places_[rank].addresses[address];
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
        reached_[a.rank * MAX_ADDRESSES + a.address] = a.got == sizeof(a.token) && a.token.token == places_[a.rank].token &&
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

    const std::vector<AddressRecord> &places_;
    std::vector<char> reached_;
    std::vector<Attempt> attempts_;
};

std::string key_of(const char *what, size_t rank)
{
    return what + std::to_string(rank);
}

Endpoint endpoint_of(const Address &address, const std::string &why)
{
    Endpoint endpoint;
    Address without = address;
    without.port = 0; /* every connection has its own */
    endpoint.attr.ai_family = address.family;
    endpoint.attr.ai_socktype = SOCK_STREAM;
    endpoint.attr.ai_protocol = 0;
    endpoint.attr.ai_addrlen = static_cast<int>(to_sockaddr(without, &endpoint.attr.ai_addr));
    endpoint.text = text_of(address) + ": " + why;
    return endpoint;
}

const Address *find_loopback(const AddressRecord &place)
{
    for (size_t i = 0; i < place.count; i++) {
        if (place.addresses[i].is_loopback && place.addresses[i].family == AF_INET) {
            return &place.addresses[i];
        }
    }
    return nullptr;
}

/* The first address of a rank, of one family, that all others reach; MOST if there is none. */
size_t reached_by_all(const std::vector<AddressRecord> &places, const std::vector<std::vector<char>> &reached, size_t rank,
                      int family)
{
    for (size_t a = 0; a < places[rank].count; a++) {
        bool all = places[rank].addresses[a].family == family;
        for (size_t r = 0; r < places.size() && all; r++) {
            all = r == rank || reached[r][rank * MAX_ADDRESSES + a] == 1;
        }
        if (all) {
            return a;
        }
    }
    return MAX_ADDRESSES;
}

std::string names_of(const AddressRecord &place)
{
    std::string text;
    for (size_t a = 0; a < place.count; a++) {
        text += (a == 0 ? "" : ", ") + text_of(place.addresses[a]);
    }
    return text;
}

Endpoint choose(const std::vector<AddressRecord> &places, const std::vector<std::vector<char>> &reached, size_t rank)
{
    size_t worst = rank;
    for (const int family : {AF_INET, AF_INET6}) { /* Gloo connects addresses of one family only */
        bool all = true;
        for (size_t r = 0; r < places.size(); r++) {
            if (reached_by_all(places, reached, r, family) == MAX_ADDRESSES) {
                worst = all && family == AF_INET ? r : worst;
                all = false;
            }
        }
        if (all) {
            return endpoint_of(places[rank].addresses[reached_by_all(places, reached, rank, family)],
                          "tried, all ranks reach it");
        }
    }
    std::string by;
    for (size_t r = 0; r < places.size(); r++) {
        const char *of_rank = &reached[r][worst * MAX_ADDRESSES];
        if (r != worst && std::find(of_rank, of_rank + MAX_ADDRESSES, 1) == of_rank + MAX_ADDRESSES) {
            by += (by.empty() ? "rank " : ", ") + std::to_string(r);
        }
    }
    fail_with(TUTTI_NOT_AVAILABLE,
              "rank %zu has no address that all ranks reach; it has %s; %s reached none of them "
              "(gloo.interface may name another one)",
              worst, names_of(places[worst]).c_str(), by.empty() ? "no rank" : by.c_str());
}

} // namespace

Endpoint choose_endpoint(Store &store, int rank, int size, const std::string &interface, int64_t deadline_ns)
{
    const size_t ranks = static_cast<size_t>(size);
    const size_t own = static_cast<size_t>(rank);
    AddressRecord place{};
    const std::vector<Address> addresses = own_addresses(interface);
    place.host = host_identity();
    place.count = addresses.size();
    std::copy(addresses.begin(), addresses.end(), place.addresses);
    if (getrandom(&place.token, sizeof(place.token), 0) != static_cast<ssize_t>(sizeof(place.token))) {
        place.token = static_cast<uint64_t>(tti_now_ns());
    }
    const ProbeServer host(&place, rank);
    const char *bytes = reinterpret_cast<const char *>(&place);
    store.set(key_of("place/", own), std::vector<char>(bytes, bytes + sizeof(place)));
    std::vector<AddressRecord> places(ranks);
    bool one_host = true;
    for (size_t r = 0; r < ranks; r++) {
        const std::vector<char> value = store.get(key_of("place/", r));
        if (value.size() != sizeof(AddressRecord)) {
            fail_with(TUTTI_PROTOCOL, "rank %zu published no addresses for Gloo", r);
        }
        std::memcpy(&places[r], value.data(), sizeof(AddressRecord));
        places[r].count = std::min<uint64_t>(places[r].count, MAX_ADDRESSES);
        one_host = one_host && places[r].host == place.host && find_loopback(places[r]);
    }
    if (one_host) {
        return endpoint_of(*find_loopback(place), "all ranks are on this host");
    }
    ProbeClient prober(places, rank);
    prober.look(deadline_ns);
    store.set(key_of("reached/", own), prober.reached());
    std::vector<std::vector<char>> reached(ranks);
    for (size_t r = 0; r < ranks; r++) {
        reached[r] = store.get(key_of("reached/", r));
        reached[r].resize(ranks * MAX_ADDRESSES);
    }
    return choose(places, reached, own);
}

} // namespace tti
