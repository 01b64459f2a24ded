// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/observe/training_log.hpp"

namespace plait::detail {

/// A message of the protocol buffers, written field by field.
class protobuf_message {
 public:
  void add(int field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    write([&](auto& out) { out.WriteTag(tag(field, 1)), out.WriteLittleEndian64(bits); });
  }
  void add(int field, float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    write([&](auto& out) { out.WriteTag(tag(field, 5)), out.WriteLittleEndian32(bits); });
  }
  void add(int field, std::int64_t value) {
    write([&](auto& out) {
      out.WriteTag(tag(field, 0)), out.WriteVarint64(static_cast<std::uint64_t>(value));
    });
  }
  void add(int field, std::string const& bytes) {
    write([&](auto& out) {
      out.WriteTag(tag(field, 2)), out.WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
      out.WriteString(bytes);
    });
  }
  [[nodiscard]] std::string const& bytes() const { return bytes_; }

 private:
  static std::uint32_t tag(int field, std::uint32_t type) {
    return static_cast<std::uint32_t>(field) << 3 | type;
  }
  template <class Body>
  void write(Body body) {
    google::protobuf::io::StringOutputStream to(&bytes_);
    google::protobuf::io::CodedOutputStream out(&to);
    body(out);
  }
  std::string bytes_;
};

/// A record of a TFRecord file: its length, the data, and a masked CRC-32C of each.
inline std::string tfrecord(std::string const& data) {
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

/// One event of TensorBoard, as a record.
inline std::string tensorboard_event(double seconds, std::int64_t step,
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
  if (step != 0) event.add(2, step);  // 0 is not written
  event.add(5, summary.bytes());
  return tfrecord(event.bytes());
}

/// What a file of events begins with.
inline std::string tensorboard_head(double seconds) {
  protobuf_message event;
  event.add(1, seconds);
  event.add(3, std::string("brain.Event:2"));
  return tfrecord(event.bytes());
}

}  // namespace plait::detail

namespace plait::ext {

/// Scalars for TensorBoard: an events.out.tfevents file in a folder, which is made if need be. What
/// is there already stays, as TensorBoard reads all files of a folder.
///
/// Source: the format of TensorFlow's event files (event.proto, summary.proto, TFRecord).
class tensorboard_writer {
 public:
  [[gnu::cold]] tensorboard_writer(std::filesystem::path const& folder, int rank,
                                   log_options const&)
      : file_(path_in(folder, rank), "log", detail::growing_file::start::at_end) {
    file_.append(detail::tensorboard_head(now()));
  }

  void write(std::int64_t step, std::vector<logged_number> const& numbers) {
    file_.append(detail::tensorboard_event(now(), step, numbers));
  }

 private:
  static double now() {
    auto const since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
  }
  [[gnu::cold]] static std::filesystem::path path_in(std::filesystem::path const& folder,
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

  detail::growing_file file_;
};

}  // namespace plait::ext

namespace plait {

/// `plait::tensorboard_log log(rank, "runs/first"); log.write(trainer.step(batch));`, for
/// `tensorboard --logdir runs`. Links plait::tensorboard.
using tensorboard_log = training_log<ext::tensorboard_writer>;

}  // namespace plait
