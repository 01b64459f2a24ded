// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "plait/core/namespaces.hpp"

namespace plait::detail {

/// Refers to something that can be called as `Signature` says, `function_reference<int(float)>`:
/// one type for all of them, so that what takes it is compiled once.
///
/// Threads: as what it refers to, which must live as long; a temporary does until the end of the
///          call to which it is given.
template <class Signature>
class function_reference;

template <class Result, class... Arguments>
class function_reference<Result(Arguments...)> {
 public:
  template <class Callable>
    requires(!std::same_as<std::remove_cvref_t<Callable>, function_reference>)
  function_reference(Callable&& of)  // NOLINT: implicit, and never moved from
      : of_(&of), call_(call<std::remove_reference_t<Callable>>) {}
  Result operator()(Arguments... arguments) const {
    return call_(of_, std::forward<Arguments>(arguments)...);
  }

 private:
  template <class Callable>
  static Result call(void const* of, Arguments... arguments) {
    // Not const where it was not.
    return (*const_cast<Callable*>(static_cast<Callable const*>(of)))(
        std::forward<Arguments>(arguments)...);
  }

  void const* of_;
  Result (*call_)(void const*, Arguments...);
};

}  // namespace plait::detail
