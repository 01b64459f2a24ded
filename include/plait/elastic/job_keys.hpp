// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/membership.hpp"

namespace plait::detail {

/// Somebody else has written into a key of the job: to wait does not mend it.
struct foreign_key_error : etcd_error {
  using etcd_error::etcd_error;
};

/// The keys of an elastic job in etcd, and what stands in them. N is the number of a generation.
///
///     job              the job's random number, and what all its processes must have alike
///     members/UID      on the lease of a process: its host
///     generation       the last one
///     join/N/UID       who waits for generation N + 1, on its lease
///     failed/N/UID     who has seen generation N fail and whom it blames, on its lease
///     rendezvous/N/...    where the processes of generation N find each other
///     program/STEP     what a program has thrown in a step
///     refused/UID      what a process has brought that has no place in the job
///     done             the job has ended; "" or why
///     last             the generation in which it has ended
class job_keys {
 public:
  using json = nlohmann::json;

  explicit job_keys(std::string const& job) : prefix_(concat({"/plait/", job, "/"})) {}

  [[nodiscard]] std::string const& all() const { return prefix_; }
  [[nodiscard]] std::string job() const { return concat({prefix_, "job"}); }
  [[nodiscard]] std::string generation() const { return concat({prefix_, "generation"}); }
  [[nodiscard]] std::string done() const { return concat({prefix_, "done"}); }
  [[nodiscard]] std::string last() const { return concat({prefix_, "last"}); }
  [[nodiscard]] std::string member(std::string const& uid) const {
    return concat({prefix_, "members/", uid});
  }
  [[nodiscard]] std::string join(int number) const { return of("join", number); }
  [[nodiscard]] std::string failed(int number) const { return of("failed", number); }
  [[nodiscard]] std::string rendezvous(int number) const { return of("rendezvous", number); }
  [[nodiscard]] std::string program(std::int64_t step) const {
    return concat({prefix_, "program/", step});
  }

  [[nodiscard]] std::string refused() const { return concat({prefix_, "refused/"}); }

  /// What a job's processes must have alike.
  struct terms {
    std::string id{};    ///< of the job
    std::string plan{};  ///< the fingerprint of the plan
    std::string version{};
    std::uint64_t token = 0;
    int min = 0, max = 0;
  };
  static std::string text(terms const& of) {
    return json{{"id", of.id},       {"plan", of.plan}, {"version", of.version},
                {"token", of.token}, {"min", of.min},   {"max", of.max}}
        .dump();
  }
  static std::string text(generation_record const& of) {
    return json{{"number", of.number},   {"members", of.members}, {"step", of.step},
                {"closing", of.closing}, {"signal", of.signal},   {"unexplained", of.unexplained}}
        .dump(-1, ' ', true, json::error_handler_t::replace);
  }
  static std::string text(join_entry const& of) {
    return json{{"step", of.step}, {"block", of.block}, {"leaving", of.leaving}}.dump();
  }

  /// What the keys say.
  struct state {
    membership_view view{};
    terms job{};
  };
  /// Errors: foreign_key_error if a key has what no process of a job writes.
  [[nodiscard]] [[gnu::cold]] state read(etcd_view const& from) const {
    state out;
    out.view.revision = from.revision;
    std::map<std::string, join_entry> joined;
    std::string const members = concat({prefix_, "members/"});
    for (auto const& one : from.entries)
      if (one.key == generation()) {
        out.view.now = record_in(one);
        out.view.now_modified = one.modified;
      }
    auto const joins = this->join(out.view.number()), failures = failed(out.view.number());
    for (auto const& one : from.entries) {
      if (one.key == job()) {
        out.job = terms_in(one);
        out.view.job = out.job.id;
      } else if (one.key == done()) {
        out.view.done = sentence_of_another(one.value);
      } else if (one.key.starts_with(refused())) {
        out.view.refused[one.key.substr(refused().size())] = sentence_of_another(one.value);
      } else if (one.key.starts_with(members)) {
        out.view.members.push_back(
            {one.key.substr(members.size()), one.value, one.created, one.lease});
      } else if (one.key.starts_with(joins)) {
        auto const value = parsed(one);
        out.view.joined[one.key.substr(joins.size())] = {
            .step = number<std::int64_t>(one, value, "step"),
            .block = number<int>(one, value, "block"),
            .leaving = number<int>(one, value, "leaving")};
      } else if (one.key.starts_with(failures)) {
        out.view.failed[one.key.substr(failures.size())] = one.value;
      }
    }
    std::ranges::sort(out.view.members, {}, &membership_view::member::created);
    return out;
  }

 private:
  [[nodiscard]] std::string of(char const* what, int number) const {
    return concat({prefix_, what, "/", number, "/"});
  }

  [[noreturn]] [[gnu::cold]] static void refuse(etcd_entry const& entry) {
    auto const words =
        concat({"the key ", in_quotes(entry.key), " has what no process of an elastic job writes: ",
                in_quotes(std::string_view(entry.value).substr(0, 200))});
    throw foreign_key_error(concat({"etcd: ", words}), words);
  }
  static json parsed(etcd_entry const& entry) {
    auto out = json::parse(entry.value, nullptr, false);
    if (!out.is_object()) refuse(entry);
    return out;
  }
  template <class Number>
  static Number number(etcd_entry const& entry, json const& in, char const* name) {
    auto const found = in.find(name);
    if (found == in.end() || !found->is_number_integer()) refuse(entry);
    return found->get<Number>();
  }
  static std::string words(etcd_entry const& entry, json const& in, char const* name) {
    auto const found = in.find(name);
    if (found == in.end() || !found->is_string()) refuse(entry);
    return found->get<std::string>();
  }
  static terms terms_in(etcd_entry const& entry) {
    auto const value = parsed(entry);
    return {words(entry, value, "id"),        words(entry, value, "plan"),
            words(entry, value, "version"),   number<std::uint64_t>(entry, value, "token"),
            number<int>(entry, value, "min"), number<int>(entry, value, "max")};
  }
  static generation_record record_in(etcd_entry const& entry) {
    auto const value = parsed(entry);
    generation_record out{.number = number<int>(entry, value, "number"),
                          .step = number<std::int64_t>(entry, value, "step"),
                          .closing = sentence_of_another(words(entry, value, "closing")),
                          .signal = number<int>(entry, value, "signal"),
                          .unexplained = number<int>(entry, value, "unexplained")};
    auto const members = value.find("members");
    if (members == value.end() || !members->is_array()) refuse(entry);
    for (auto const& one : *members) {
      if (!one.is_string()) refuse(entry);
      out.members.push_back(one.get<std::string>());
    }
    return out;
  }

  std::string prefix_;
};

}  // namespace plait::detail
