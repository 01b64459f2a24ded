// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd.hpp"

#include <unistd.h>
#include <cerrno>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL etcd_view etcd::read(std::string const& prefix) {
  auto const answer = ask("kv/range", etcd_range(prefix), true);
  etcd_view view{.revision = revision_of(answer),
                 .cluster = number<std::uint64_t>(object(answer, "header"), "cluster_id")};
  auto const found = answer.find("kvs");
  if (found == answer.end()) return view;
  if (!found->is_array()) refuse("its 'kvs' is not a list");
  for (auto const& entry : *found)
    view.entries.push_back({.key = bytes(entry, "key"),
                            .value = bytes(entry, "value"),
                            .created = number(entry, "create_revision"),
                            .modified = number(entry, "mod_revision"),
                            .lease = number(entry, "lease")});
  return view;
}

PLAIT_DECL std::int64_t etcd::grant(std::chrono::seconds ttl) {
  auto const lease = number(ask("lease/grant", {{"TTL", std::to_string(ttl.count())}}, true), "ID");
  if (lease == 0) refuse("it has no 'ID'");
  return lease;
}

PLAIT_DECL std::chrono::seconds etcd::keep_alive(std::int64_t lease) {
  auto const answer = ask("lease/keepalive", {{"ID", std::to_string(lease)}}, true);
  return std::chrono::seconds(number(object(answer, "result"), "TTL"));
}

PLAIT_DECL void etcd::revoke(std::int64_t lease) {
  ask("lease/revoke", {{"ID", std::to_string(lease)}}, true, 404);
}

PLAIT_DECL etcd::outcome etcd::change(std::vector<etcd_condition> const& if_all,
                                      std::vector<etcd_change> const& then) {
  auto compare = json::array(), success = json::array();
  for (auto const& [key, what, value] : if_all) {
    constexpr std::pair<char const*, char const*> names[]{
        {"CREATE", "create_revision"}, {"MOD", "mod_revision"}, {"LEASE", "lease"}};
    auto const [target, field] = names[static_cast<std::size_t>(what)];
    compare.push_back({{"key", to_base64(key)},
                       {"target", target},
                       {"result", "EQUAL"},
                       {field, std::to_string(value)}});
  }
  for (auto const& [key, value, lease, is_prefix] : then)
    if (value)
      success.push_back({{"request_put",
                          {{"key", to_base64(key)},
                           {"value", to_base64(*value)},
                           {"lease", std::to_string(lease)}}}});
    else
      success.push_back(
          {{"request_delete_range", is_prefix ? etcd_range(key) : json{{"key", to_base64(key)}}}});
  auto const answer = ask("kv/txn", {{"compare", compare}, {"success", success}}, false);
  auto const done = answer.find("succeeded");
  if (done != answer.end() && !done->is_boolean())
    refuse("its 'succeeded' is neither true nor false");
  return {.done = done != answer.end() && done->get<bool>(), .revision = revision_of(answer)};
}

PLAIT_DECL etcd::json etcd::ask(std::string const& call, json const& body, bool again,
                                int no_error) {
  auto const until = clock::now() + timeout_;
  auto const request = body.dump();
  std::string problems, words;
  bool refused = false;
  for (auto servers = static_cast<int>(access_->servers().size()); servers > 0; --servers) {
    auto const& server = access_->servers()[now_];
    call_ = concat({server.name, " answers to ", call});
    auto const now = clock::now();
    auto [status, problem, is_refusal, was_sent] =
        send(server, call, request, again, now + (until - now) / servers);
    if (status == 200 && problem.empty()) return parsed(http_.text());
    if (status == no_error && status != 0) return json::object();
    if (status > 200) words = etcd_words(http_.text());
    if (status > 200 && status < 500) refuse(problem, is_refusal, words);
    refused |= is_refusal;
    problems += concat({(problems.empty() ? "" : "; "), server.name, ": ", problem});
    now_ = (now_ + 1) % access_->servers().size();
    if (was_sent && !again) {
      problems += "; the change may have been made";
      break;
    }
  }
  auto const text = concat({"etcd: ", call, " has failed: ", problems});
  if (refused) throw etcd_refusal(text, words);
  throw etcd_error(text, words);
}

PLAIT_DECL etcd::reply etcd::send(etcd_server const& server, std::string const& call,
                                  std::string const& request, bool again, clock::time_point end) {
  auto const with = [&](bool may_be_sent_anew) {
    auto const left = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()), shortest);
    return etcd_http::terms{.connect = left, .total = left, .again = may_be_sent_anew};
  };
  for (bool is_second = false;; is_second = true) {
    if (access_->has_user() && access_->token().empty())
      if (auto out = sign_in(server, with(true)); !out.problem.empty()) return out;
    auto const token = access_->token();
    http_.begin(server, call, request, with(again), token);
    reply out{.problem = http_.end(), .is_refusal = http_.refused()};
    out.status = http_.status();
    out.was_sent = http_.sent();
    std::string_view const said = http_.text();
    bool const is_old = access_->has_user() && etcd_access::is_of_old_token(said.substr(0, 1000));
    if (is_old) access_->forget(token);
    if (is_old && !is_second) continue;
    if (out.status <= 200) return out;
    out.problem = concat({"status ", out.status, ", ", in_quotes(said)});
    auto const certificate = access_->why_no_certificate(said);
    if (!certificate.empty()) out.problem = certificate;
    out.is_refusal = out.status == 401 || out.status == 403 || !certificate.empty() ||
                     said.find("user name is empty") != said.npos;
    if (out.is_refusal) out.problem += why_refused(said);
    return out;
  }
}

PLAIT_DECL etcd::reply etcd::sign_in(etcd_server const& server, etcd_http::terms const& with) {
  std::string question;
  try {
    question = access_->question();
  } catch (input_error const& problem) {
    throw etcd_refusal(concat({"etcd: ", problem.what()}));
  }
  http_.begin(server, "auth/authenticate", question, with);
  reply out{.problem = http_.end(), .is_refusal = http_.refused()};
  out.status = http_.status();
  if (!out.problem.empty()) return out;
  if (out.status == 200 && access_->take_token(http_.text())) return {};
  out.is_refusal = out.status < 500;
  out.problem = access_->why_no_token(out.status, http_.text());
  // The answer has no token, so the status 200 is not a success.
  if (out.status == 200) out.status = 400;
  return out;
}

PLAIT_DECL std::string etcd::why_refused(std::string_view said) const {
  if (!access_->has_user() &&
      (said.find("user name is empty") != said.npos || said.find("permission denied") != said.npos))
    return "; etcd requires a user: give a user and a password file (PLAIT_ELASTIC_USER, "
           "PLAIT_ELASTIC_PASSWORD_FILE)";
  if (access_->has_user() && said.find("permission denied") != said.npos)
    return concat({"; user ", in_quotes(access_->files().user),
                   " has no permission for the keys of jobs: grant this user a role that may read "
                   "and write /plait/"});
  return "";
}

PLAIT_DECL etcd::json etcd::parsed(std::string const& text) const {
  auto answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) refuse(concat({in_quotes(text), ", which is not a JSON object"}));
  if (answer.contains("error")) refuse(in_quotes(text));
  return answer;
}

PLAIT_DECL void etcd::refuse(std::string const& what, bool is_refusal,
                             std::string const& words) const {
  auto const text = concat({"etcd: ", call_, ": ", what});
  if (is_refusal) throw etcd_refusal(text, words);
  throw etcd_error(text, words);
}

PLAIT_DECL etcd::json const& etcd::object(json const& in, char const* name) const {
  auto const found = in.find(name);
  if (found == in.end() || !found->is_object())
    refuse(concat({"the object '", name, "' is missing"}));
  return *found;
}

PLAIT_DECL std::string_view etcd::text(json const& in, char const* name,
                                       std::string_view none) const {
  if (!in.is_object()) refuse("an entry is not an object");
  auto const found = in.find(name);
  if (found == in.end()) return none;
  if (!found->is_string()) refuse(concat({"'", name, "' is not a string"}));
  return found->get_ref<std::string const&>();
}

PLAIT_DECL std::string etcd::bytes(json const& in, char const* name) const {
  auto out = from_base64(text(in, name, ""));
  if (!out) refuse(concat({"'", name, "' is not base64"}));
  return *std::move(out);
}

}  // namespace plait::detail
