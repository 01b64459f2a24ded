// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gloo's header <gloo/transport/tcp/pair.h> includes this one, which Gloo forgets to install (as of
// 2025, and so in Debian and Ubuntu). Where there is a real one it is taken. What stands here has
// its names and its members, as objects of Gloo's library have them.
#if __has_include_next(<gloo/common/memory.h>)
#include_next <gloo/common/memory.h>
#else

#include <memory>
#include <thread>

namespace gloo {

template <typename T>
class WeakNonOwningPtr;

/// An object that lives at least as long as this, or null.
template <typename T>
class NonOwningPtr final {
 public:
  NonOwningPtr() = default;
  explicit NonOwningPtr(WeakNonOwningPtr<T> const& from) : ptr_(from.ptr_.lock()) {}

  T* operator->() const noexcept { return ptr_.get(); }
  explicit operator bool() const noexcept { return ptr_ != nullptr; }

 private:
  std::shared_ptr<T> ptr_;
};

template <typename T>
class ShareableNonOwningPtr;

/// An object that may be gone.
template <typename T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(ShareableNonOwningPtr<T> const& from) : ptr_(from.ptr_) {}

  /// Whether it was ever given one.
  explicit operator bool() const noexcept {
    return ptr_.owner_before(std::weak_ptr<T>()) || std::weak_ptr<T>().owner_before(ptr_);
  }

 protected:
  std::weak_ptr<T> ptr_;

  friend class NonOwningPtr<T>;
};

/// A member of the object itself, whose destructor waits until nobody uses the object.
template <typename T>
class ShareableNonOwningPtr final {
 public:
  explicit ShareableNonOwningPtr(T* object) : ptr_(object, [](void*) {}) {}
  ShareableNonOwningPtr(ShareableNonOwningPtr const&) = delete;
  ShareableNonOwningPtr& operator=(ShareableNonOwningPtr const&) = delete;
  ~ShareableNonOwningPtr() {
    std::weak_ptr<T> const users = ptr_;
    ptr_.reset();
    while (!users.expired()) std::this_thread::yield();
  }

 protected:
  std::shared_ptr<T> ptr_;

  friend class WeakNonOwningPtr<T>;
};

}  // namespace gloo

#endif
