// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/observe/training_log.hpp"

namespace plait::detail {

/// A message in the wire format of Protocol Buffers, written field by field.
class protobuf_message {
 public:
  void add(int field, double value);
  void add(int field, float value);
  void add(int field, std::int64_t value);
  void add(int field, std::string const& bytes);
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

/// Returns one event of TensorBoard with several numbers, as a record of an event file.
std::string tensorboard_event(double seconds, std::int64_t step,
                              std::vector<logged_number> const& numbers);

/// Returns the first record of an event file.
std::string tensorboard_head(double seconds);

}  // namespace plait::detail

namespace plait::ext {

/// Writes numbers as scalars for TensorBoard, to a new events.out.tfevents file in a folder. The
/// folder is made if necessary. Existing files stay, since TensorBoard reads all files of a folder.
///
/// Source: the format of TensorFlow's event files (event.proto, summary.proto, TFRecord).
class tensorboard_writer {
 public:
  [[gnu::cold]] tensorboard_writer(std::filesystem::path const& folder, int rank,
                                   log_options const&);

  void write(std::int64_t step, std::vector<logged_number> const& numbers) {
    file_.append(detail::tensorboard_event(now(), step, numbers));
  }

 private:
  static double now();
  [[gnu::cold]] static std::filesystem::path path_in(std::filesystem::path const& folder, int rank);

  detail::growing_file file_;
};

}  // namespace plait::ext

namespace plait {

/// Writes a log for TensorBoard (`tensorboard --logdir runs`): `plait::tensorboard_log log(rank,
/// "runs/first"); log.write(trainer.step(batch));`. A program that uses it links
/// plait::tensorboard.
using tensorboard_log = training_log<ext::tensorboard_writer>;

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/observe/tensorboard_log.ipp"
#endif
