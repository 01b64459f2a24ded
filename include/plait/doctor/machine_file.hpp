// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/doctor/machine.hpp"

namespace plait::detail {

/// The largest size of a machine file in bytes. If all pairs of 1024 ranks were measured, the two
/// link matrices have about 50 million bytes.
inline constexpr std::size_t most_machine_bytes = std::size_t{1} << 26;

/// Reads the text of a machine file.
///
/// Errors: as for read_machine.
[[nodiscard]] [[gnu::cold]] ext::machine parse_machine(std::string const& text,
                                                       file_name const& file);

/// Returns the text of a machine file; parse_machine returns an equal machine for it.
///
/// Errors: as for write_machine.
[[nodiscard]] [[gnu::cold]] std::string text_of_machine(ext::machine const& of,
                                                        file_name const& file);

}  // namespace plait::detail

namespace plait::ext {

/// Reads a machine file: JSON with "plait_machine": 1 and a field for each member of `machine`,
/// with the name of the member. An optional member without a value has no field. A pair of ranks
/// that was not measured is null in both matrices.
///
/// Cost:   reads at most 64 MiB, and needs about 20 times as much memory as the file has bytes.
/// Errors: input_error, one sentence that names the file and the field, and states the value and
///         the allowed values. A field that is unknown, missing or repeated is an error, and so is
///         a version other than 1.
///
/// Example (tests/doctor/machine_file_test.cpp machine_file):
///     plait::ext::write_machine(path, measured);
///     auto const machine = plait::ext::read_machine(path);
[[nodiscard]] [[gnu::cold]] machine read_machine(std::string const& path);

/// Writes a machine file; read_machine returns a machine that equals `of`. The file is complete or
/// unchanged (docs/design/io.md).
///
/// Errors: input_error that names the file if read_machine would refuse the machine, or if the
///         system cannot write the file. In the first case nothing is written.
[[gnu::cold]] void write_machine(std::string const& path, machine const& of);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/machine_file.ipp"
#endif
