/* SPDX-License-Identifier: BSD-3-Clause */
/* Gloo's store, implemented on Tutti's rendezvous. Errors pass through Gloo as exceptions. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_STORE_H
#define TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_STORE_H

#include <gloo/rendezvous/store.h>

#include <exception>
#include <string>
#include <vector>

#include "backends/gloo/plugin/c_headers.h"

namespace tti
{

/* A tutti_error as an exception. entry.cc catches it. */
class Failure : public std::exception
{
  public:
    explicit Failure(const tutti_error &error) : error_(error)
    {
    }

    const tutti_error &error() const
    {
        return error_;
    }

    const char *what() const noexcept override
    {
        return error_.message;
    }

  private:
    tutti_error error_;
};

/* Throws a Failure with this sentence. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail_with(tutti_status status, const char *format, ...);

class Store : public gloo::rendezvous::Store
{
  public:
    /* Every wait ends at `deadline_ns`, also if Gloo asks for longer. Values have at most `room` bytes. */
    Store(const tutti_rendezvous *rendezvous, int64_t deadline_ns, size_t room);

    void set(const std::string &key, const std::vector<char> &data) override;
    std::vector<char> get(const std::string &key) override;
    void wait(const std::vector<std::string> &keys) override;
    void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout) override;

  private:
    std::vector<char> get_until(const std::string &key, int64_t deadline_ns);

    const tutti_rendezvous *rendezvous_;
    int64_t deadline_ns_;
    size_t room_;
};

} // namespace tti

#endif
