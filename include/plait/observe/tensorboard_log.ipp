// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/clock.hpp"
#include "plait/observe/tensorboard_log.hpp"

#include <isa-l/crc.h>
#include <unistd.h>

#include <cstring>
#include <system_error>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL void protobuf_message::add(int field, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  write([&](auto& out) { out.WriteTag(tag(field, 1)), out.WriteLittleEndian64(bits); });
}

PLAIT_DECL void protobuf_message::add(int field, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  write([&](auto& out) { out.WriteTag(tag(field, 5)), out.WriteLittleEndian32(bits); });
}

PLAIT_DECL void protobuf_message::add(int field, std::int64_t value) {
  write([&](auto& out) {
    out.WriteTag(tag(field, 0)), out.WriteVarint64(static_cast<std::uint64_t>(value));
  });
}

PLAIT_DECL void protobuf_message::add(int field, std::string const& bytes) {
  write([&](auto& out) {
    out.WriteTag(tag(field, 2)), out.WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
    out.WriteString(bytes);
  });
}

// Returns a record of a TFRecord file: its length, the data, and a masked CRC-32C of each.
PLAIT_DECL std::string tfrecord(std::string const& data) {
  auto const little_endian = [](auto number) {
    std::string out;
    for (std::size_t i = 0; i < sizeof number; ++i)
      out += static_cast<char>(number >> 8 * i & 0xff);
    return out;
  };
  auto const checksum = [&](std::string bytes) {
    auto* const first = reinterpret_cast<unsigned char*>(bytes.data());
    std::uint32_t const crc = ~::crc32_iscsi(first, static_cast<int>(bytes.size()), ~0u);
    return little_endian(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
  };
  auto const length = little_endian(std::uint64_t{data.size()});
  return length + checksum(length) + data + checksum(data);
}

PLAIT_DECL std::string tensorboard_event(double seconds, std::int64_t step,
                                         std::vector<logged_number> const& numbers) {
  protobuf_message summary;
  for (auto const& number : numbers) {
    protobuf_message value;
    value.add(1, number.name);
    value.add(2, static_cast<float>(number.value));
    summary.add(1, value.bytes());
  }
  protobuf_message event;
  event.add(1, seconds);
  if (step != 0) event.add(2, step);  // Protocol Buffers omit fields that are 0
  event.add(5, summary.bytes());
  return tfrecord(event.bytes());
}

PLAIT_DECL std::string tensorboard_head(double seconds) {
  protobuf_message event;
  event.add(1, seconds);
  event.add(3, std::string("brain.Event:2"));
  return tfrecord(event.bytes());
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL tensorboard_writer::tensorboard_writer(std::filesystem::path const& folder, int rank,
                                                  log_options const&)
    : file_(path_in(folder, rank), "log", detail::growing_file::start::at_end) {
  file_.append(detail::tensorboard_head(now()));
}

PLAIT_DECL double tensorboard_writer::now() {
  auto const since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

PLAIT_DECL std::filesystem::path tensorboard_writer::path_in(std::filesystem::path const& folder,
                                                             int rank) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem)
    detail::file_name("folder of logs", folder)
        .refuse(concat({"cannot be made: ", problem.message()}));
  auto const nanoseconds = std::chrono::system_clock::now().time_since_epoch().count();
  return detail::path_of_rank(
      folder / concat({"events.out.tfevents.", nanoseconds, ".", ::getpid()}), rank);
}

}  // namespace plait::ext
