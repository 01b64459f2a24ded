// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include "plait/backend/simulated/shadow_memory.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

// An operation while it is executed. The operation first declares the memory that it reads and
// writes, so that races are found, and then computes.
//
// Reads are declared before writes. An operation that reads undefined values computes nothing, and
// its results are undefined, too. The text of the first such read of a job is kept as the
// suspicion. If an operation later writes these values, the race with that operation is reported,
// which is the actual fault. The suspicion is reported only if no such operation is executed.
class simulated_operation {
 public:
  simulated_operation(simulated_rank& rank, shadow_memory::accessor const& by,
                      std::string& suspicion)
      : rank_(rank), by_(by), suspicion_(suspicion) {}

  template <class T>
  void reads(T const* data, std::size_t count) {
    read_bytes(data, count * sizeof(T));
  }
  template <class T>
  void writes(T* data, std::size_t count) {
    write_bytes(data, count * sizeof(T));
  }
  // Declares a read and then a write of the same elements.
  template <class T>
  void updates(T* data, std::size_t count) {
    reads(data, count);
    writes(data, count);
  }
  // Declares reads of `rows` rows of `columns` elements each; `stride` is the distance from one row
  // to the next. writes_rows declares writes.
  template <class T>
  void reads_rows(T const* data, std::size_t stride, std::size_t rows, std::size_t columns) {
    if (stride == columns) return reads(data, rows * columns);
    for (std::size_t r = 0; r < rows; ++r) reads(data + r * stride, columns);
  }
  template <class T>
  void writes_rows(T* data, std::size_t stride, std::size_t rows, std::size_t columns) {
    if (stride == columns) return writes(data, rows * columns);
    for (std::size_t r = 0; r < rows; ++r) writes(data + r * stride, columns);
  }

  void read_bytes(void const* data, std::size_t bytes);
  void write_bytes(void* data, std::size_t bytes);
  // Declares a write that makes the values undefined.
  void discard_bytes(void* data, std::size_t bytes);

  // The scratch memory of this rank's kernels.
  [[nodiscard]] host_workspace& workspace() const { return rank_.workspace(); }

  [[nodiscard]] bool is_defined() const { return is_defined_; }
  void make_undefined() { is_defined_ = false; }

  // Calls compute() if all values that were read are defined; compute() must not declare accesses.
  template <class Compute>
  void run(Compute compute) const {
    if (!is_defined_) return;
    try {
      compute();
    } catch (std::exception const& e) {
      throw error(rank_.failure_text(by_, e.what()));
    }
  }

 private:
  [[gnu::cold]] void judge(shadow_memory::finding const& found, bool writes);

  void suspect(std::string text) {
    if (suspicion_.empty()) suspicion_ = std::move(text);
  }

  simulated_rank& rank_;
  shadow_memory::accessor by_;
  std::string& suspicion_;
  bool is_defined_ = true;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_operation.ipp"
#endif
