/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debian's libgloo-dev 0.0~git20220518 does not install this header, which its other headers include. They use three
 * templates of it, each of which holds one smart pointer. This file declares their layout; the library has the rest.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COMPAT_GLOO_COMMON_MEMORY_H
#define TTI_BACKENDS_GLOO_PLUGIN_COMPAT_GLOO_COMMON_MEMORY_H

#include <gloo/config.h>

#include <memory>

static_assert(GLOO_VERSION == 500, "the layout below was compared with Gloo 0.5.0");

namespace gloo
{

template <typename T> class ShareableNonOwningPtr;

/* A connection holds it; the object may be destroyed meanwhile. */
template <typename T> class WeakNonOwningPtr final
{
  public:
    WeakNonOwningPtr() = default;
    explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T> &object) : pointer(object.pointer)
    {
    }

    std::weak_ptr<T> pointer;
};

/* Keeps the object alive while a thread uses it. */
template <typename T> class NonOwningPtr final
{
  public:
    NonOwningPtr() = default;
    explicit NonOwningPtr(const WeakNonOwningPtr<T> &object) : pointer(object.pointer.lock())
    {
    }

    explicit operator bool() const noexcept
    {
        return static_cast<bool>(pointer);
    }

    std::shared_ptr<T> pointer;
};

/* A member of the object. The library constructs and destroys it. */
template <typename T> class ShareableNonOwningPtr final
{
  public:
    ShareableNonOwningPtr(const ShareableNonOwningPtr &) = delete;
    ShareableNonOwningPtr &operator=(const ShareableNonOwningPtr &) = delete;

    std::shared_ptr<T> pointer;
};

} // namespace gloo

#endif
