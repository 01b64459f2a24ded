// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/job_keys.hpp"

#include <unistd.h>
#include <algorithm>
#include <map>
#include <string_view>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL job_keys::job_keys(std::string const& job) : prefix_(concat({"/plait/", job, "/"})) {}

PLAIT_DECL std::string job_keys::job() const { return concat({prefix_, "job"}); }

PLAIT_DECL std::string job_keys::generation() const { return concat({prefix_, "generation"}); }

PLAIT_DECL std::string job_keys::done() const { return concat({prefix_, "done"}); }

PLAIT_DECL std::string job_keys::last() const { return concat({prefix_, "last"}); }

PLAIT_DECL std::string job_keys::member(std::string const& uid) const {
  return concat({prefix_, "members/", uid});
}

PLAIT_DECL std::string job_keys::program(std::int64_t step) const {
  return concat({prefix_, "program/", step});
}

PLAIT_DECL std::string job_keys::refused() const { return concat({prefix_, "refused/"}); }

PLAIT_DECL std::string job_keys::text(terms const& of) {
  return json{{"id", of.id},       {"plan", of.plan}, {"version", of.version},
              {"token", of.token}, {"min", of.min},   {"max", of.max}}
      .dump();
}

PLAIT_DECL std::string job_keys::text(generation_record const& of) {
  return json{{"number", of.number},   {"members", of.members}, {"step", of.step},
              {"closing", of.closing}, {"signal", of.signal},   {"unexplained", of.unexplained}}
      .dump(-1, ' ', true, json::error_handler_t::replace);
}

PLAIT_DECL job_keys::state job_keys::read(etcd_view const& from) const {
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

PLAIT_DECL std::string job_keys::of(char const* what, int number) const {
  return concat({prefix_, what, "/", number, "/"});
}

PLAIT_DECL void job_keys::refuse(etcd_entry const& entry) {
  auto const words = concat({"the key ", in_quotes(entry.key),
                             " has a value that no process of an elastic job writes: ",
                             in_quotes(std::string_view(entry.value).substr(0, 200))});
  throw foreign_key_error(concat({"etcd: ", words}), words);
}

PLAIT_DECL job_keys::json job_keys::parsed(etcd_entry const& entry) {
  auto out = json::parse(entry.value, nullptr, false);
  if (!out.is_object()) refuse(entry);
  return out;
}

PLAIT_DECL std::string job_keys::words(etcd_entry const& entry, json const& in, char const* name) {
  auto const found = in.find(name);
  if (found == in.end() || !found->is_string()) refuse(entry);
  return found->get<std::string>();
}

PLAIT_DECL job_keys::terms job_keys::terms_in(etcd_entry const& entry) {
  auto const value = parsed(entry);
  return {words(entry, value, "id"),        words(entry, value, "plan"),
          words(entry, value, "version"),   number<std::uint64_t>(entry, value, "token"),
          number<int>(entry, value, "min"), number<int>(entry, value, "max")};
}

PLAIT_DECL generation_record job_keys::record_in(etcd_entry const& entry) {
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

}  // namespace plait::detail
