// SPDX-License-Identifier: Apache-2.0
// test: libs=machine
#include "plait/doctor/machine_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "doctor/random_machine.hpp"
#include "plait/core/error.hpp"
#include "plait/doctor/machine_rules.hpp"

namespace {

using json = nlohmann::ordered_json;
using plait::detail::file_name;
using plait::ext::machine;
namespace files = std::filesystem;

file_name const& name() {
  static file_name const out("machine file", "m");
  return out;
}

machine parsed(std::string const& text) { return plait::detail::parse_machine(text, name()); }
std::string text_of(machine const& of) { return plait::detail::text_of_machine(of, name()); }

/// Returns the error text without the name of the file; "" if there is no error.
std::string refusal_of(std::function<void()> const& call, std::string const& file = "m") {
  try {
    call();
  } catch (plait::input_error const& problem) {
    std::string const begin = "machine file '" + file + "' ", text = problem.what();
    EXPECT_TRUE(text.starts_with(begin)) << text;
    return text.substr(std::min(begin.size(), text.size()));
  }
  return {};
}
std::string refusal(std::string const& text) {
  return refusal_of([&] { (void)parsed(text); });
}
std::string refusal(json const& value) { return refusal(value.dump()); }

/// A file or folder of this test that does not exist yet.
std::string scratch(std::string const& of) {
  auto const path = testing::TempDir() + "plait_machine_" + of;
  files::remove_all(path);
  return path;
}

std::string content(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(MachineFile, WhatIsWrittenIsReadAgain) {
  auto const path = scratch("again.json");
  auto const measured = random_machine::complete();
  // example-begin machine_file
  plait::ext::write_machine(path, measured);
  auto const machine = plait::ext::read_machine(path);
  // example-end
  EXPECT_EQ(machine, measured);
  random_machine::generator random(1);
  for (int i = 0; i < 20; ++i) {
    auto const other = random.make();
    plait::ext::write_machine(path, other);
    EXPECT_EQ(plait::ext::read_machine(path), other) << content(path);
  }
}

TEST(MachineFile, EveryDigitOfRandomMachinesIsReadAgain) {
  random_machine::generator random(2);
  for (int i = 0; i < 100; ++i) {
    auto const measured = random.make();
    auto const text = text_of(measured);
    EXPECT_EQ(parsed(text), measured) << text;
    EXPECT_EQ(text_of(parsed(text)), text);
  }
}

// Reads the file with another reader of JSON, and compares names and values of fields.
TEST(MachineFile, FieldsHaveTheNamesOfTheMembers) {
  auto const value = json::parse(text_of(random_machine::complete()));
  EXPECT_EQ(value["plait_machine"], 1);
  EXPECT_EQ(value["name"], "cluster");
  EXPECT_EQ(value["quiet"], true);
  EXPECT_EQ(value["versions"]["blas"], "OpenBLAS 0.3.21 Zen");
  EXPECT_EQ(value["hosts"][1]["memory_bytes"], std::size_t{1} << 36);
  EXPECT_EQ(value["ranks"][3]["cpus"], json::parse("[1, 5]"));
  EXPECT_EQ(value["ranks"][2]["speed"], 1.02);
  EXPECT_EQ(value["element_types"][0]["products"][2]["transposed"], "a");
  EXPECT_EQ(value["element_types"][0]["products"][3]["flop_per_second"], 8e10);
  EXPECT_EQ(value["link_between_hosts"]["latency_seconds"], 2e-5);
  EXPECT_EQ(value["link_latency_seconds"][0], json::parse("[null, 1e-6, 2e-5, null]"));
  EXPECT_EQ(value["collectives"][0]["over"], "world");
  EXPECT_EQ(value["collectives"][0]["times"][2]["bytes"], 1048576);
  EXPECT_EQ(value.size(), 16u);
}

TEST(MachineFile, AFileOfTwoRanksIsRead) {
  // example-begin file
  std::string const file = R"({
    "plait_machine": 1,
    "name": "desk", "date": "2026-11-30T09:15:00Z", "backend": "threads", "quiet": true,
    "versions": {"plait": "0.1.0", "blas": "OpenBLAS 0.3.21 Zen"},
    "settings": {"governor": "performance"},
    "hosts": [{"name": "desk", "devices": 2, "memory_bytes": 16000000000, "device_memory_bytes": 8000000000}],
    "ranks": [{"host": "desk", "cpus": [0], "speed": 1.0}, {"host": "desk", "cpus": [1], "speed": 0.98}],
    "memory_bytes_per_second": 2.1e10,
    "element_types": [{
      "name": "float",
      "products": [
        {"rows": 32, "columns": 32, "inner": 32, "transposed": "none", "flop_per_second": 2e10},
        {"rows": 512, "columns": 512, "inner": 512, "transposed": "none", "flop_per_second": 8e10}],
      "attentions": [{"head_width": 64, "flop_per_second": 3e10}],
      "row_bytes_per_second": 1e10,
      "optimizer_bytes_per_second": 1.5e10,
      "seconds_per_operation": 1e-7}],
    "link_within_host": {"latency_seconds": 1e-6, "bytes_per_second": 8e9, "shared_by": 2},
    "link_latency_seconds": [[null, 1e-6], [1.1e-6, null]],
    "link_bytes_per_second": [[null, 8e9], [7.9e9, null]],
    "collectives": [{
      "kind": "all_reduce", "over": "world", "ranks": 2,
      "times": [{"bytes": 4, "seconds": 2e-6}, {"bytes": 1048576, "seconds": 3e-4}]}]
  })";
  // example-end
  machine expected;
  expected.name = "desk";
  expected.date = "2026-11-30T09:15:00Z";
  expected.backend = "threads";
  expected.quiet = true;
  expected.versions = {{"plait", "0.1.0"}, {"blas", "OpenBLAS 0.3.21 Zen"}};
  expected.settings = {{"governor", "performance"}};
  expected.hosts = {{"desk", 2, 16'000'000'000, 8'000'000'000}};
  expected.ranks = {{"desk", {0}, 1.0}, {"desk", {1}, 0.98}};
  expected.memory_bytes_per_second = 2.1e10;
  using plait::ext::transposed_operand;
  expected.element_types = {{"float",
                             {{{32, 32, 32, transposed_operand::none}, 2e10},
                              {{512, 512, 512, transposed_operand::none}, 8e10}},
                             {{64, 3e10}},
                             1e10,
                             1.5e10,
                             1e-7}};
  expected.link_within_host = plait::ext::machine_link{1e-6, 8e9, 2};
  expected.link_latency_seconds = {{0, 1e-6}, {1.1e-6, 0}};
  expected.link_bytes_per_second = {{0, 8e9}, {7.9e9, 0}};
  expected.collectives = {{plait::ext::collective::all_reduce,
                           plait::ext::rank_group::world,
                           2,
                           {{4, 2e-6}, {1048576, 3e-4}}}};
  EXPECT_EQ(parsed(file), expected);
}

TEST(MachineFile, AFileWithoutMeasurementsIsReadToo) {
  auto const read =
      parsed(R"({"quiet": false, "plait_machine": 1, "name": "n", "backend": "threads",
    "date": "2024-02-29T23:59:60Z", "versions": {}, "settings": {"OMP": ""},
    "hosts": [{"name": "h", "devices": 1, "device_memory_bytes": 1, "memory_bytes": 2}],
    "ranks": [{"cpus": [], "host": "h"}], "element_types": [], "link_latency_seconds": [],
    "link_bytes_per_second": [], "collectives": []})");
  machine expected;
  expected.name = "n";
  expected.date = "2024-02-29T23:59:60Z";
  expected.backend = "threads";
  expected.settings = {{"OMP", ""}};
  expected.hosts = {{"h", 1, 2, 1}};
  expected.ranks = {{"h", {}, {}}};
  EXPECT_EQ(read, expected);
}

// ---- Wrong files ----

/// Calls visit(value, path) for each value within `value`; `visit` may change it.
void for_each_value(json& value, std::string const& path,
                    std::function<void(json&, std::string const&)> const& visit) {
  if (!path.empty()) visit(value, path);
  if (value.is_object())
    for (auto& [key, one] : value.items())
      for_each_value(one, path + (path.empty() ? "" : ".") + key, visit);
  else if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      for_each_value(value[i], path + "[" + std::to_string(i) + "]", visit);
}

json complete_file() { return json::parse(text_of(random_machine::complete())); }

bool is_in_texts(std::string const& path) {
  return path.starts_with("versions.") || path.starts_with("settings.");
}

// Each value in turn is replaced by values of all kinds. A value that the field cannot have is
// refused with the path of the field. All values of a complete file are tried.
TEST(MachineFile, EachWrongValueIsNamedWithItsPath) {
  std::vector<json> const wrong{
      nullptr, 0, 1.5e30, "\x1b[2J", json::array(), json::object({{"a", 1}})};
  auto file = complete_file();
  int values = 0, refused = 0;
  for_each_value(file, "", [&](json& value, std::string const& path) {
    auto const right = value;
    ++values;
    for (auto const& other : wrong) {
      value = other;
      auto const says = refusal(file);
      bool const is_list = right.is_array() && other == json::array();
      bool const is_valid =
          (right.is_string() && other.is_string()) || (right.is_boolean() && other.is_boolean()) ||
          (right.is_null() && other.is_null()) || is_list ||
          ((path == "versions" || path == "settings") && other == json::object()) ||
          (path.find(".cpus[0]") != path.npos && other == 0);
      if (is_valid) continue;  // allowed, or refused because of another field
      ++refused;
      EXPECT_TRUE(says.starts_with("has ")) << path << ": " << says;
      auto const place = is_in_texts(path) ? path.substr(0, path.find('.')) : path;
      EXPECT_NE(says.find("'" + place), std::string::npos) << path << ": " << says;
      EXPECT_EQ(says.find('\x1b'), std::string::npos) << says;
      EXPECT_TRUE(path == "plait_machine" || says.find("; it must be ") != says.npos ||
                  says.starts_with("has no field ") || says.starts_with("has the unknown field "))
          << path << ": " << says;
    }
    value = right;
  });
  EXPECT_EQ(refusal(file), "");
  EXPECT_GT(values, 130);
  EXPECT_GT(refused, 700);
}

TEST(MachineFile, EachMissingUnknownOrRepeatedFieldIsRefused) {
  auto file = complete_file();
  std::vector<std::string> const optional{"memory_bytes_per_second",    "speed",
                                          "row_bytes_per_second",       "link_within_host",
                                          "optimizer_bytes_per_second", "link_between_hosts",
                                          "seconds_per_operation"};
  int missing = 0;
  auto const try_object = [&](json& object, std::string const& path) {
    if (!object.is_object() || path == "versions" || path == "settings") return;
    auto const right = object;
    auto const prefix = path.empty() ? "" : path + ".";
    for (auto const& [key, value] : right.items()) {
      object = right;
      object.erase(key);
      bool const may = std::find(optional.begin(), optional.end(), key) != optional.end();
      auto const expected = key == "plait_machine"
                                ? "is not a machine file: it has no field 'plait_machine'"
                                : "has no field '" + prefix + key + "'";
      EXPECT_EQ(refusal(file), may ? "" : expected);
      missing += may ? 0 : 1;
      // The library that makes this text cannot write a key twice.
      object = right;
      object["PLACE"] = 1;
      auto text = file.dump();
      text.replace(text.find("\"PLACE\":1"), 9, "\"" + key + "\":" + value.dump());
      EXPECT_EQ(refusal(text), "has the field '" + prefix + key + "' twice");
    }
    object = right;
    object["speeed"] = 1;
    auto const says = refusal(file);
    EXPECT_TRUE(says.starts_with("has the unknown field 'speeed'")) << says;
    auto const where = path.empty() ? "" : " in '" + path + "'";
    EXPECT_NE(says.find("'" + where + "; the fields there are: "), says.npos) << says;
    object = right;
  };
  try_object(file, "");
  for_each_value(file, "", try_object);
  EXPECT_EQ(missing, 78);
  EXPECT_EQ(refusal(file), "");
}

struct mistake {
  std::string place;  ///< JSON pointer
  json value;
  std::string says;
};

TEST(MachineFile, MistakesAreSentences) {
  std::string const whole = "a whole number from 1 to 10^12";
  for (
      auto const& [place, value, says] : std::vector<mistake>{
          {"/plait_machine", 2,
           "has 2 for 'plait_machine'; this version of plait reads only version 1"},
          {"/plait_machine", "1",
           "has '1' for 'plait_machine'; this version of plait reads only version 1"},
          {"/date", "yesterday",
           "has 'yesterday' for 'date'; it must be a time in UTC such as '2026-11-30T09:15:00Z'"},
          {"/quiet", 1, "has 1 for 'quiet'; it must be true or false"},
          {"/name", "", "has a text of 0 bytes for 'name'; it must be a text of 1 to 200 bytes"},
          {"/name", 5, "has 5 for 'name'; it must be a text"},
          {"/versions", json::array(), "has a list for 'versions'; it must be an object"},
          {"/hosts", json::array(),
           "has a list of 0 elements for 'hosts'; it must be a list of 1 to 65536 elements"},
          {"/hosts/1/devices", 2.5,
           "has 2.5 for 'hosts[1].devices'; it must be a whole number from "
           "1 to 10^18"},
          {"/hosts/1/name", "a",
           "has a second element 'a' for 'hosts[1]'; it must be the only one in its list"},
          {"/ranks/2/host", "c",
           "has 'c' for 'ranks[2].host'; it must be the name of a host in 'hosts'"},
          {"/ranks/3/cpus/1", 1,
           "has 1 for 'ranks[3].cpus[1]'; it must be greater than the previous number, 1"},
          {"/element_types/0/products/1/rows", "many",
           "has 'many' for 'element_types[0].products[1].rows'; it must be " + whole},
          {"/element_types/0/products/1/transposed", "both",
           "has 'both' for 'element_types[0].products[1].transposed'; it must be one of these: "
           "none, "
           "a, b"},
          {"/element_types/0/products/0", complete_file()["element_types"][0]["products"][3],
           "has a second element '512x512x512 a transposed' for 'element_types[0].products[3]'; it "
           "must be the only one in its list"},
          {"/link_within_host/latency_seconds", 0,
           "has 0.0 for 'link_within_host.latency_seconds'; it must be a number from 10^-12 to "
           "10^9"},
          {"/link_latency_seconds/1", json::array({1e-6, nullptr}),
           "has a row of 2 numbers for 'link_latency_seconds[1]'; it must be a row of 4 numbers, "
           "as "
           "the matrix has 4 rows"},
          {"/link_latency_seconds/0/1", 0,
           "has 0 for 'link_latency_seconds[0][1]'; it must be a number from 10^-12 to 10^9, or "
           "null"},
          {"/link_latency_seconds/2/2", 1e-6,
           "has 1e-06 for 'link_latency_seconds[2][2]'; it must be null, as a rank has no link to "
           "itself"},
          {"/link_latency_seconds/0/1", nullptr,
           "has a number for 'link_bytes_per_second[0][1]'; it must be a number if and only if "
           "'link_latency_seconds[0][1]' is"},
          {"/link_bytes_per_second", json::array(),
           "has a matrix of 0 rows for 'link_bytes_per_second'; it must be as large as "
           "'link_latency_seconds', which has 4 rows"},
          {"/link_bytes_per_second", json::parse("[[null, 1], [1, null]]"),
           "has a matrix of 2 rows for 'link_bytes_per_second'; it must be empty or have a row for "
           "each of 4 ranks"},
          {"/collectives/0/kind", "send",
           "has 'send' for 'collectives[0].kind'; it must be one of these: all_reduce, all_gather, "
           "reduce_scatter, all_to_all, broadcast"},
          {"/collectives/0/ranks", 3,
           "has 3 for 'collectives[0].ranks'; it must be 4, the number of ranks in 'ranks'"},
          {"/collectives/1/ranks", 1,
           "has 1 for 'collectives[1].ranks'; it must be from 2 to the number of ranks, 4"},
          {"/collectives/0/times/2/bytes", 1000,
           "has 1000 for 'collectives[0].times[2].bytes'; it must be greater than the bytes of the "
           "previous element, 1024"},
          {"/collectives/1/times", json::parse(R"([{"bytes": 4, "seconds": 1}])"),
           "has a list of 1 elements for 'collectives[1].times'; it must be a list of 2 to 1000 "
           "elements"}}) {
    auto file = complete_file();
    file[json::json_pointer(place)] = value;
    EXPECT_EQ(refusal(file), says) << place;
  }
}

TEST(MachineFile, OtherDatesAreRefused) {
  auto file = complete_file();
  for (char const* const date :
       {"2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z", "2026-04-31T00:00:00Z", "2026-04-00T00:00:00Z",
        "2026-04-01T24:00:00Z", "2026-04-01T23:60:00Z", "2026-04-01T23:59:61Z",
        "2026-04-01 23:59:59Z", "2026-04-01T23:59:59", "2026-4-01T23:59:059Z",
        "-026-04-01T23:59:59Z", "2026-04-01T23:59:59Z "}) {
    file["date"] = date;
    EXPECT_EQ(refusal(file), "has '" + std::string(date) +
                                 "' for 'date'; it must be a time in UTC such as "
                                 "'2026-11-30T09:15:00Z'");
  }
  for (char const* const date :
       {"2000-02-29T00:00:00Z", "2026-12-31T23:59:60Z", "0001-01-01T00:00:00Z"}) {
    file["date"] = date;
    EXPECT_EQ(refusal(file), "") << date;
  }
}

TEST(MachineFile, OtherTextsAreRefused) {
  EXPECT_EQ(refusal(std::string()), "is not JSON (at its byte 1)");
  EXPECT_EQ(refusal(std::string("[]")), "is not a machine file: it has no field 'plait_machine'");
  EXPECT_EQ(refusal(std::string("{}")), "is not a machine file: it has no field 'plait_machine'");
  EXPECT_EQ(refusal(std::string("{\"plait_machine\": 1}")), "has no field 'name'");
  EXPECT_EQ(refusal(std::string("{\"plait_machine\": 1, \"plait_machine\": 1}")),
            "has the field 'plait_machine' twice");
  EXPECT_EQ(refusal(std::string("{\"plait_machine\": 1e400}")),
            "is not JSON (it has a number that is too large)");
  auto text = text_of(random_machine::complete());
  text.replace(text.find("cluster"), 7, "\xff\xfe");
  EXPECT_TRUE(refusal(text).starts_with("is not JSON (at its byte ")) << refusal(text);
  EXPECT_EQ(refusal(std::string(1'000'000, '[')),
            "has lists and objects that are nested more than 16 deep, so it is not a machine file");
  auto const path = scratch("large.json");
  std::ofstream(path) << "{}";
  files::resize_file(path, plait::detail::most_machine_bytes + 1);
  EXPECT_EQ(refusal_of([&] { (void)plait::ext::read_machine(path); }, path),
            "has 67108865 bytes; at most 67108864 are allowed");
  files::remove(path);
  EXPECT_EQ(refusal_of([&] { (void)plait::ext::read_machine(path); }, path),
            "cannot be read: No such file or directory");
  EXPECT_NE(
      refusal_of([&] { (void)plait::ext::read_machine(testing::TempDir()); }, testing::TempDir()),
      "");
}

// Each text is read or refused. A machine that was read can be written and read again.
void expect_read_or_refused(std::string const& text) {
  try {
    auto const read = parsed(text);
    EXPECT_EQ(parsed(text_of(read)), read) << text;
  } catch (plait::input_error const& problem) {
    EXPECT_TRUE(std::string(problem.what()).starts_with("machine file 'm' ")) << problem.what();
  }
}

TEST(MachineFile, DamagedFilesAreReadOrRefused) {
  auto const text = text_of(random_machine::complete());
  auto const last = text.rfind('}');
  for (std::size_t size = 0; size <= last; size += 7) EXPECT_NE(refusal(text.substr(0, size)), "");
  std::mt19937 random(3);
  auto const below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  static constexpr std::string_view bytes = "0123456789-+.eE\"\\{}[],:nulltrue \n\x00\xff";
  for (int i = 0; i < 1000; ++i) {
    auto damaged = text;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      auto const at = below(damaged.size()), size = below(12);
      if (i % 3 == 0) damaged[at] = bytes[below(bytes.size())];
      else if (i % 3 == 1) damaged.erase(at, size);
      else damaged.insert(at, text.substr(below(text.size()), size));
    }
    expect_read_or_refused(damaged);
  }
}

// ---- Wrong machines ----

TEST(MachineFile, AMachineThatCannotBeReadIsNotWritten) {
  auto const folder = scratch("folder");
  files::create_directory(folder);
  auto const path = folder + "/m.json";
  plait::ext::write_machine(path, random_machine::complete());
  auto const before = content(path);
  std::vector<std::pair<std::function<void(machine&)>, std::string>> const changes{
      {[](machine& of) { of.hosts[1].devices = 0; },
       "0 for 'hosts[1].devices'; it must be a whole number from 1 to 10^18"},
      {[](machine& of) { of.memory_bytes_per_second = std::nan(""); },
       "nan for 'memory_bytes_per_second'; it must be a number from 1 to 10^24"},
      {[](machine& of) { of.ranks[0].speed = -std::numeric_limits<double>::infinity(); },
       "-inf for 'ranks[0].speed'; it must be a number from 10^-6 to 10^6"},
      {[](machine& of) { of.link_latency_seconds[1][0] = -1; },
       "-1.0 for 'link_latency_seconds[1][0]'; it must be a number from 10^-12 to 10^9"},
      {[](machine& of) { of.name = "\xff"; }, "'\\xff' for 'name'; it must be UTF-8"},
      {[](machine& of) { of.settings.emplace_back().name = "governor"; },
       "a second element 'governor' for 'settings[1]'; it must be the only one in its list"},
      {[](machine& of) { of.versions[1].value = std::string(4001, 'x'); },
       "a text of 4001 bytes for 'versions[1]'; it must be a text of 0 to 4000 bytes"},
      {[](machine& of) { of.collectives[1].kind = plait::ext::collective::barrier; },
       "the value 7 of an enum for 'collectives[1].kind'; it must be one of these: all_reduce, "
       "all_gather, reduce_scatter, all_to_all, broadcast"},
      {[](machine& of) { of.ranks.clear(); },
       "a list of 0 elements for 'ranks'; it must be a list of 1 to 65536 elements"},
      {[](machine& of) { of.link_latency_seconds.resize(1025); },
       "a matrix of 1025 rows for 'link_latency_seconds'; it must be empty for more than 1024 "
       "ranks"}};
  for (auto const& [change, says] : changes) {
    auto wrong = random_machine::complete();
    change(wrong);
    EXPECT_EQ(refusal_of([&] { plait::ext::write_machine(path, wrong); }, path),
              "cannot be written: the machine has " + says);
    EXPECT_EQ(content(path), before);
  }
  EXPECT_EQ(std::distance(files::directory_iterator(folder), {}), 1);
  EXPECT_NE(
      refusal_of([&] { plait::ext::write_machine(folder, random_machine::complete()); }, folder),
      "");
  auto const nowhere = folder + "/none/m.json";
  EXPECT_NE(
      refusal_of([&] { plait::ext::write_machine(nowhere, random_machine::complete()); }, nowhere),
      "");
}

// Writes and reads a machine with large matrices, which take the most room in a file.
TEST(MachineFile, ManyRanksFit) {
  auto large = random_machine::complete();
  large.collectives.clear();
  large.ranks.resize(100, large.ranks[0]);
  large.link_latency_seconds.assign(100, std::vector<double>(100, 1.2345678901234567e-7));
  large.link_bytes_per_second.assign(100, std::vector<double>(100, 1.2345678901234567e10));
  for (std::size_t i = 0; i < 100; ++i)
    large.link_latency_seconds[i][i] = large.link_bytes_per_second[i][i] = 0;
  auto const text = text_of(large);
  EXPECT_EQ(parsed(text), large);
  EXPECT_LT(text.size() * (1024 * 1024) / (100 * 100), plait::detail::most_machine_bytes);
}

}  // namespace
