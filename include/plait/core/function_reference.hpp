// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A reference to a function or to a callable object with the given signature:
/// `function_reference<int(float)>`. It is one type for all callables, so a function with such a
/// parameter is compiled only once. The callable must outlive the reference; a temporary that is
/// passed as an argument lives until the call returns.
///
/// Cost:    one indirect call.
/// Errors:  the exceptions of the callable.
/// Threads: as for the callable.
template <class Signature>
class function_reference;

template <class Result, class... Arguments>
class function_reference<Result(Arguments...)> {
 public:
  template <class Callable>
    requires(!std::same_as<std::remove_cvref_t<Callable>, function_reference>) &&
            std::is_invocable_r_v<Result, Callable&, Arguments...>
  function_reference(Callable&& of)  // NOLINT: implicit, and never moved from
      : call_(call<std::remove_reference_t<Callable>>) {
    if constexpr (std::is_function_v<std::remove_reference_t<Callable>>)
      of_.function = reinterpret_cast<void (*)()>(&of);
    else of_.object = std::addressof(of);
  }
  Result operator()(Arguments... arguments) const {
    return call_(of_, std::forward<Arguments>(arguments)...);
  }

 private:
  union callable {
    void const* object;  // points to a const or non-const object, according to the callable's type
    void (*function)();
  };

  template <class Callable>
  static Result call(callable of, Arguments... arguments) {
    if constexpr (std::is_function_v<Callable>) {
      auto* const function = reinterpret_cast<Callable*>(of.function);
      if constexpr (std::is_void_v<Result>) function(std::forward<Arguments>(arguments)...);
      else return function(std::forward<Arguments>(arguments)...);
    } else {
      auto& object = *const_cast<Callable*>(static_cast<Callable const*>(of.object));
      if constexpr (std::is_void_v<Result>) object(std::forward<Arguments>(arguments)...);
      else return object(std::forward<Arguments>(arguments)...);
    }
  }

  callable of_;
  Result (*call_)(callable, Arguments...);
};

}  // namespace plait::ext
