/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debian's libgloo-dev 0.0~git20220518 has headers that include this one, and does not have this one. What those declare is
 * laid out by three templates, each of which is one smart pointer; so much is said here, and the rest is in the library.
 */
#ifndef TTI_BACKENDS_GLOO_COMPAT_MEMORY_H
#define TTI_BACKENDS_GLOO_COMPAT_MEMORY_H

#include <gloo/config.h>

#include <memory>

static_assert(GLOO_VERSION == 500, "the layout below was compared with Gloo 0.5.0");

namespace gloo
{

template <typename T> class ShareableNonOwningPtr;

/* Held by a connection for as long as it needs the object, which may be destroyed. */
template <typename T> class WeakNonOwningPtr final
{
  public:
    WeakNonOwningPtr() = default;
    explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T> &object) : pointer(object.pointer)
    {
    }

    std::weak_ptr<T> pointer;
};

/* Held while the object is in use, which keeps it alive. */
template <typename T> class NonOwningPtr final
{
  public:
    std::shared_ptr<T> pointer;
};

/* The object's own. The library constructs and destroys it. */
template <typename T> class ShareableNonOwningPtr final
{
  public:
    ShareableNonOwningPtr(const ShareableNonOwningPtr &) = delete;
    ShareableNonOwningPtr &operator=(const ShareableNonOwningPtr &) = delete;

    std::shared_ptr<T> pointer;
};

} // namespace gloo

#endif
