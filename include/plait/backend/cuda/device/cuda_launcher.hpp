// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <tuple>
#include <type_traits>

#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/core/namespaces.hpp"

#if !defined(__CUDACC__)
namespace plait::detail {

// Runs a kernel in a build without a CUDA compiler, where kernels are ordinary functions. Only a
// test that emulates a device defines it. `numbers` has an entry for each argument: the value of an
// integer, the number of elements of an element_range, 1 for a pointer, 0 for a null pointer and
// for other types. `pointers` has an entry for each argument, null if the argument is not a
// pointer.
cudaError_t launch_pretended(void const* kernel, std::initializer_list<std::size_t> numbers,
                             std::initializer_list<void const*> pointers,
                             cuda_kernels::launch_shape shape, cudaStream_t stream,
                             std::function<void()> thread);
template <class T>
void const* pointer_in(T const& argument) {
  if constexpr (std::is_convertible_v<T, void const*>) return argument;
  else return nullptr;
}

template <class T>
std::size_t number_of(T const& argument) {
  if constexpr (std::is_integral_v<T>) return static_cast<std::size_t>(argument);
  else if constexpr (std::is_pointer_v<T>) return argument != nullptr;
  else if constexpr (std::is_same_v<T, cuda_kernels::element_range>)
    return argument.end - argument.begin;
  else return 0;
}

}  // namespace plait::detail
#endif

namespace plait::ext {

/// Puts kernels and calls of CUDA's libraries at the end of one stream of a device; models
/// `cuda_kernels::launcher`.
class cuda_launcher {
 public:
  cuda_launcher(cuda_place at, cudaStream_t stream) : at_(at), stream_(stream) {}

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), cuda_kernels::launch_shape shape,
                  Arguments... arguments) const {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "cuda_launcher: the number of arguments differs from the kernel's parameters");
    device_scope const scope(at_);
    auto const* const function = reinterpret_cast<void const*>(kernel);
    if (shape.shared_bytes > std::size_t{48} * 1024)
      detail::check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)),
                    "cudaFuncSetAttribute (shared memory of a kernel)", at_);
#if defined(__CUDACC__)
    std::tuple<std::remove_cv_t<Parameters>...> values(
        static_cast<std::remove_cv_t<Parameters>>(arguments)...);
    std::apply(
        [&](auto&... each) {
          std::array<void*, sizeof...(Parameters)> addresses{
              const_cast<void*>(static_cast<void const*>(&each))...};
          detail::check(
              cudaLaunchKernel(function, dim3(shape.blocks, shape.blocks_y), dim3(shape.threads),
                               addresses.data(), shape.shared_bytes, stream_),
              "cudaLaunchKernel", at_);
        },
        values);
#else
    detail::check(detail::launch_pretended(function, {detail::number_of(arguments)...},
                                           {detail::pointer_in(arguments)...}, shape, stream_,
                                           [=] { kernel(arguments...); }),
                  "cudaLaunchKernel", at_);
#endif
  }

  template <class Function>
  void call(char const* name, Function function) const {
    device_scope const scope(at_);
    (void)cudaGetLastError();  // some libraries would report an older error as their own
    detail::check(function(stream_), name, at_);
  }

 private:
  cuda_place at_;
  cudaStream_t stream_;
};

static_assert(cuda_kernels::launcher<cuda_launcher>);

}  // namespace plait::ext
