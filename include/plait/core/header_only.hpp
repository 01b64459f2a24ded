// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <version>  // defines the macros that describe the standard library's layout

/// Chooses how a source file uses plait. With 1, the default, the file compiles all of plait that
/// it needs. With 0, functions that do not depend on the program's types are taken from a library,
/// the runtime, which is compiled once per build from include/plait/runtime.cpp and, for
/// components, from include/plait/runtime/<component>.cpp.
///
/// A header x.hpp declares these functions, and x.ipp next to it defines them. With 1 the header
/// includes x.ipp at its end and the functions are inline. With 0 only the runtime includes x.ipp.
/// CMake's plait_add_program sets 0 and links the runtime. All files of a program must choose the
/// same value.
#if !defined(PLAIT_HEADER_ONLY)
#define PLAIT_HEADER_ONLY 1
#endif

/// Begins each definition in an .ipp file. Helper functions begin with it, too, and are not in an
/// anonymous namespace. In an anonymous namespace, each source file would have helper functions of
/// its own, and the inline functions that call them would then differ between source files.
#if PLAIT_HEADER_ONLY
#define PLAIT_DECL inline
#else
#define PLAIT_DECL
#endif

// Makes wrong combinations fail at link time. A program that mixes both values does not link, and
// neither does a program whose runtime was compiled for another C++ standard or another layout of
// the standard library. To detect that a program mixes both values, a header-only file defines the
// variable below as thread-local and the runtime defines it as an ordinary variable; linkers refuse
// that. To detect a runtime that was compiled in another way, a file that uses the runtime refers
// to a name that spells out the standard and the layout, such as
// plait_runtime_of_cpp_202002L_abi_1; only a runtime compiled in the same way defines it.
#define PLAIT_JOIN_NAMES(standard, abi, debug) plait_runtime_of_cpp_##standard##_abi_##abi##debug
#define PLAIT_EXPAND_NAMES(standard, abi, debug) PLAIT_JOIN_NAMES(standard, abi, debug)
#if defined(_GLIBCXX_DEBUG)
#define PLAIT_LAYOUT_NAME _debug
#else
#define PLAIT_LAYOUT_NAME
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI)
#define PLAIT_RUNTIME_NAME \
  PLAIT_EXPAND_NAMES(__cplusplus, _GLIBCXX_USE_CXX11_ABI, PLAIT_LAYOUT_NAME)
#else
#define PLAIT_RUNTIME_NAME PLAIT_EXPAND_NAMES(__cplusplus, other, PLAIT_LAYOUT_NAME)
#endif

extern "C" {
#if PLAIT_HEADER_ONLY
[[gnu::used]] inline thread_local char plait_header_only_file_in_a_program_with_plait_runtime = 0;
#else
extern char plait_header_only_file_in_a_program_with_plait_runtime;
extern char const PLAIT_RUNTIME_NAME;
#endif
}
#if !PLAIT_HEADER_ONLY
namespace plait::detail {
[[gnu::used]] inline char const* const wanted_runtime = &PLAIT_RUNTIME_NAME;
}  // namespace plait::detail
#endif
