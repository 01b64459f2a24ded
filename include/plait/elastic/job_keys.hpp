// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/membership.hpp"

namespace plait::detail {

/// Thrown if another program has written to a key of the job. Waiting does not help.
struct foreign_key_error : etcd_error {
  using etcd_error::etcd_error;
};

/// The keys of an elastic job in etcd, and their contents. N is the number of a generation, UID
/// identifies a process. A key "with lease" disappears when its process dies.
///
///     job              the job's random number, and the settings that all its processes share
///     members/UID      the host of a process, with lease
///     generation       the last generation that was accepted
///     join/N/UID       the entry with which UID waits for generation N + 1, with lease
///     failed/N/UID     UID has seen generation N fail: the member that it blames, with lease
///     rendezvous/N/... addresses by which the processes of generation N connect
///     program/STEP     an exception that the program has thrown in step STEP
///     refused/UID      the reason why process UID may not take part in the job
///     done             exists if the job has ended: "" or the reason
///     last             the generation in which the job has ended
class job_keys {
 public:
  using json = nlohmann::json;

  explicit job_keys(std::string const& job);

  [[nodiscard]] std::string const& all() const { return prefix_; }
  [[nodiscard]] std::string job() const;
  [[nodiscard]] std::string generation() const;
  [[nodiscard]] std::string done() const;
  [[nodiscard]] std::string last() const;
  [[nodiscard]] std::string member(std::string const& uid) const;
  [[nodiscard]] std::string join(int number) const { return of("join", number); }
  [[nodiscard]] std::string failed(int number) const { return of("failed", number); }
  [[nodiscard]] std::string rendezvous(int number) const { return of("rendezvous", number); }
  [[nodiscard]] std::string program(std::int64_t step) const;

  [[nodiscard]] std::string refused() const;

  /// The settings that all processes of a job share.
  struct terms {
    std::string id{};    ///< the random number of the job
    std::string plan{};  ///< the fingerprint of the plan
    std::string version{};
    std::uint64_t token = 0;
    int min = 0, max = 0;
  };
  static std::string text(terms const& of);
  static std::string text(generation_record const& of);
  static std::string text(join_entry const& of) {
    return json{{"step", of.step}, {"block", of.block}, {"leaving", of.leaving}}.dump();
  }

  /// The content of all keys of the job.
  struct state {
    membership_view view{};
    terms job{};
  };
  /// Parses the keys that etcd returned.
  ///
  /// Errors: foreign_key_error if a key has a content that no process of a job writes.
  [[nodiscard]] [[gnu::cold]] state read(etcd_view const& from) const;

 private:
  [[nodiscard]] std::string of(char const* what, int number) const;

  [[noreturn]] [[gnu::cold]] static void refuse(etcd_entry const& entry);
  static json parsed(etcd_entry const& entry);
  template <class Number>
  static Number number(etcd_entry const& entry, json const& in, char const* name) {
    auto const found = in.find(name);
    if (found == in.end() || !found->is_number_integer()) refuse(entry);
    return found->get<Number>();
  }
  static std::string words(etcd_entry const& entry, json const& in, char const* name);
  static terms terms_in(etcd_entry const& entry);
  static generation_record record_in(etcd_entry const& entry);

  std::string prefix_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/job_keys.ipp"
#endif
