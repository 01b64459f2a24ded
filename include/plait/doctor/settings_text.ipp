// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/settings_text.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail::doctor {

/// Calls a function for each member of a part of host_settings. Writer and reader use this class,
/// so they have the same order of members.
struct settings_members {
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, numa_node>
  static void visit(Record& of, Each& each) {
    each(of.number), each(of.cpus);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, network_interface>
  static void visit(Record& of, Each& each) {
    each(of.name), each(of.is_loopback), each(of.mtu_bytes), each(of.megabits);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, cpu_quota>
  static void visit(Record& of, Each& each) {
    each(of.cpus), each(of.group), each(of.periods), each(of.throttled_periods);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, file_system_space>
  static void visit(Record& of, Each& each) {
    each(of.bytes), each(of.free_bytes);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, gpu_process>
  static void visit(Record& of, Each& each) {
    each(of.process), each(of.bytes);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, gpu_peer>
  static void visit(Record& of, Each& each) {
    each(of.uuid), each(of.status);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, gpu_settings>
  static void visit(Record& of, Each& each) {
    each(of.uuid), each(of.bus), each(of.name), each(of.driver), each(of.lanes);
    each(of.most_lanes), each(of.generation), each(of.most_generation), each(of.clock_causes);
    each(of.corrected_errors), each(of.uncorrected_errors), each(of.is_cut);
    each(of.is_persistent), each(of.processes), each(of.peers);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, other_process>
  static void visit(Record& of, Each& each) {
    each(of.number), each(of.name), each(of.cpus), each(of.last_cpu);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, processor_use>
  static void visit(Record& of, Each& each) {
    each(of.others), each(of.cpus), each(of.processes);
  }
  template <class Record, class Each>
    requires std::same_as<std::remove_const_t<Record>, host_settings>
  static void visit(Record& of, Each& each) {
    each(of.rank), each(of.host), each(of.process), each(of.pid_namespace), each(of.cpus);
    each(of.quota), each(of.governors), each(of.ticks), each(of.stolen_ticks), each(of.swap_bytes);
    each(of.own_swap_bytes), each(of.memory_bytes), each(of.memory_limit_bytes);
    each(of.numa_nodes), each(of.bytes_on_node), each(of.processor), each(of.processor_flags);
    each(of.is_amd), each(of.blas_code), each(of.blas_threads), each(of.plait), each(of.build);
    each(of.blas), each(of.mpi), each(of.nccl), each(of.cuda), each(of.driver), each(of.clock_s);
    each(of.shared_memory), each(of.most_open_files), each(of.most_locked_bytes);
    each(of.rdma_devices), each(of.interfaces), each(of.interface), each(of.uses_gpu);
    each(of.device_memory_bytes);
    each(of.gpu);
  }
};

/// Writes a value as a text that settings_reader reads: a number as digits and ';', a text as its
/// length, ':' and its bytes, a list as its length and its elements.
class settings_writer {
 public:
  void operator()(std::uint64_t of) { out += concat({of, ";"}); }
  void operator()(int of) { (*this)(static_cast<std::uint64_t>(static_cast<std::int64_t>(of))); }
  void operator()(bool of) { (*this)(std::uint64_t{of}); }
  void operator()(double of) { (*this)(std::bit_cast<std::uint64_t>(of)); }
  void operator()(std::string const& of) { out += concat({of.size(), ":", of}); }
  template <class T>
  void operator()(std::vector<T> const& of) {
    (*this)(static_cast<std::uint64_t>(of.size()));
    for (auto const& each : of) (*this)(each);
  }
  template <class T>
  void operator()(reading<T> const& of) {
    (*this)(of.is_known());
    if (of.is_known()) (*this)(of.value());
    else (*this)(of.problem());
  }
  template <class Record>
  void operator()(Record const& of) {
    settings_members::visit(of, *this);
  }

  std::string out;
};

class settings_reader {
 public:
  explicit settings_reader(std::string_view text) : rest_(text), size_(text.size()) {}

  void operator()(std::uint64_t& of) { of = take_number(';'); }
  void operator()(int& of) {
    auto const found = static_cast<std::int64_t>(take_number(';'));
    if (found < std::numeric_limits<int>::min() || found > std::numeric_limits<int>::max())
      refuse();
    of = static_cast<int>(found);
  }
  void operator()(bool& of) {
    auto const found = take_number(';');
    if (found > 1) refuse();
    of = found == 1;
  }
  void operator()(double& of) { of = std::bit_cast<double>(take_number(';')); }
  void operator()(std::string& of) {
    auto const size = take_number(':');
    if (size > rest_.size()) refuse();
    of = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(static_cast<std::size_t>(size));
  }
  template <class T>
  void operator()(std::vector<T>& of) {
    auto const size = take_number(';');
    if (size > rest_.size()) refuse();  // each element has at least one byte
    of.clear();
    for (std::uint64_t i = 0; i < size; ++i) (*this)(of.emplace_back());
  }
  template <class T>
  void operator()(reading<T>& of) {
    bool is_known = false;
    (*this)(is_known);
    if (is_known) {
      T value{};
      (*this)(value);
      of = std::move(value);
    } else {
      std::string problem;
      (*this)(problem);
      of = reading<T>::unknown(std::move(problem));
    }
  }
  template <class Record>
  void operator()(Record& of) {
    settings_members::visit(of, *this);
  }

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  [[noreturn]] [[gnu::cold]] void refuse() const {
    throw input_error({"settings of another rank: byte ", size_ - rest_.size(), " of ", size_,
                       " is not part of settings; start the same program on all hosts"});
  }

 private:
  std::uint64_t take_number(char end) {
    auto const at = rest_.find(end);
    auto const number =
        at == std::string_view::npos ? std::nullopt : whole_number(rest_.substr(0, at));
    if (!number) refuse();
    rest_.remove_prefix(at + 1);
    return *number;
  }

  std::string_view rest_;
  std::size_t size_;
};

template <class Record>
std::string text_of_record(Record const& of) {
  settings_writer writer;
  writer(of);
  return std::move(writer.out);
}

template <class Record>
Record record_from_text(std::string_view text) {
  settings_reader reader(text);
  Record out;
  reader(out);
  if (!reader.is_at_end()) reader.refuse();
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL std::string to_text(host_settings const& of) {
  return detail::doctor::text_of_record(of);
}

PLAIT_DECL host_settings settings_from_text(std::string_view text) {
  auto out = detail::doctor::record_from_text<host_settings>(text);
  if (out.cpus.is_known() && !detail::doctor::is_list_of_cpus(out.cpus.value()))
    throw input_error(
        {"settings of another rank: the cpus of rank ", out.rank, " are not a sorted list"});
  return out;
}

PLAIT_DECL std::string to_text(std::vector<processor_use> const& of) {
  return detail::doctor::text_of_record(of);
}

PLAIT_DECL std::vector<processor_use> processor_use_from_text(std::string_view text) {
  return detail::doctor::record_from_text<std::vector<processor_use>>(text);
}

}  // namespace plait::ext
