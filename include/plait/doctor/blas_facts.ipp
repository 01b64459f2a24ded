// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/blas_facts.hpp"

#include <dlfcn.h>

namespace plait::ext {

PLAIT_DECL blas_facts blas_facts::of_program() {
  auto const text_of = [](char const* function) {
    auto* const found = reinterpret_cast<char* (*)()>(::dlsym(RTLD_DEFAULT, function));
    char const* const text = found == nullptr ? nullptr : found();
    return std::string(text == nullptr ? "" : text);
  };
  blas_facts out;
  auto* const threads =
      reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  if (threads == nullptr) {
    constexpr char const* why = "no function of OpenBLAS is loaded in this process";
    out.version = reading<std::string>::unknown(why);
    out.code = reading<std::string>::unknown(why);
    out.threads = reading<std::uint64_t>::unknown(why);
    return out;
  }
  int const count = threads();
  if (count > 0) out.threads = static_cast<std::uint64_t>(count);
  else
    out.threads =
        reading<std::uint64_t>::unknown("this OpenBLAS does not report its number of threads");
  if (auto text = text_of("openblas_get_config"); !text.empty()) out.version = std::move(text);
  else out.version = reading<std::string>::unknown("this OpenBLAS does not report its version");
  if (auto text = text_of("openblas_get_corename"); !text.empty() && text != "Unknown")
    out.code = std::move(text);
  else
    out.code = reading<std::string>::unknown("this OpenBLAS does not report which kernels it runs");
  return out;
}

}  // namespace plait::ext
