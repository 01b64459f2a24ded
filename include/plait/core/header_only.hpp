// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Says which of two ways a file of a program uses plait: 1 (the default) compiles all that it
/// needs of plait in the file itself; 0 expects the functions that do not depend on the program's
/// own types in a library, the runtime, which is compiled once per build from
/// include/plait/runtime.cpp.
///
/// Each header x.hpp declares such functions, and x.ipp next to it defines them. With 1 the header
/// includes its .ipp at its end and the functions are inline; with 0 only runtime.cpp includes the
/// .ipp. CMake's plait_add_program defines 0 and links the runtime. All files of a program choose
/// the same way.
#if !defined(PLAIT_HEADER_ONLY)
#define PLAIT_HEADER_ONLY 1
#endif

/// Begins each definition in an .ipp file.
#if PLAIT_HEADER_ONLY
#define PLAIT_DECL inline
#else
#define PLAIT_DECL
#endif

// The linker refuses a program that mixes both ways, or a runtime that was compiled for another C++
// standard or with another layout of the standard library. A header-only file defines a
// thread-local variable by the first name below, the runtime an ordinary one: linkers do not accept
// both. A file that wants the runtime refers to a name that spells what changes layouts, such as
// plait_runtime_of_cpp_202002L_abi_1, which only a runtime compiled alike defines.
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
