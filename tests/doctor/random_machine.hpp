// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plait/doctor/machine.hpp"

// Machines for tests of the machine file.
namespace random_machine {

using plait::ext::machine;
using plait::ext::machine_link;

/// Makes valid machines in which every member has a random value.
class generator {
 public:
  explicit generator(unsigned seed) : random_(seed) {}

  machine make() {
    machine out;
    out.name = text();
    out.date = "20" + digits(10, 99) + "-" + digits(1, 12) + "-" + digits(1, 28) + "T" +
               digits(0, 23) + ":" + digits(0, 59) + ":" + digits(0, 59) + "Z";
    out.backend = text();
    out.quiet = number(0, 1) == 1;
    for (std::size_t i = number(0, 3); i > 0; --i) out.versions.push_back({text(i), text()});
    for (std::size_t i = number(0, 3); i > 0; --i) out.settings.push_back({text(i), text()});
    for (std::size_t i = number(1, 3); i > 0; --i)
      out.hosts.push_back({text(i), number(1, 16), number(1, 1ull << 50), number(1, 1ull << 50)});
    for (std::size_t i = number(1, 5); i > 0; --i) out.ranks.push_back(rank_of(out));
    out.memory_bytes_per_second = maybe(1, 1e24);
    for (std::size_t i = number(0, 3); i > 0; --i) out.element_types.push_back(type(i));
    if (number(0, 1) == 1) out.link_within_host = link();
    if (number(0, 1) == 1) out.link_between_hosts = link();
    if (number(0, 1) == 1) add_matrices(out);
    if (out.ranks.size() > 1) add_collectives(out);
    return out;
  }

  std::size_t number(std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random_);
  }

  /// Returns a number with a uniformly distributed logarithm and all digits of a double.
  double real(double least, double most) {
    return std::exp(std::uniform_real_distribution(std::log(least), std::log(most))(random_));
  }

  /// Returns a text that no call with another `index` returns.
  std::string text(std::size_t index = 0) {
    static constexpr char const* parts[]{
        "a", " ",   "\"", "\\", "\n", "\x1b[2J", "\xc3\xa4", "\xe6\xb8\xac", "\xf0\x9f\x90\x8c",
        "/", "\x7f"};
    std::string out = std::to_string(index);
    for (std::size_t i = number(0, 8); i > 0; --i) out += parts[number(0, std::size(parts) - 1)];
    return out;
  }

 private:
  std::string digits(std::size_t least, std::size_t most) {
    auto const out = std::to_string(number(least, most));
    return out.size() == 1 ? "0" + out : out;
  }

  std::optional<double> maybe(double least, double most) {
    return number(0, 1) == 1 ? std::optional(real(least, most)) : std::nullopt;
  }

  machine::rank rank_of(machine const& of) {
    machine::rank out;
    out.host = of.hosts[number(0, of.hosts.size() - 1)].name;
    for (std::size_t i = 0, cpu = 0; i < number(0, 4); ++i) {
      out.cpus.push_back(cpu + number(0, 9));
      cpu = out.cpus.back() + 1;
    }
    out.speed = maybe(1e-6, 1e6);
    return out;
  }

  machine::element_type type(std::size_t index) {
    machine::element_type out;
    out.name = text(index);
    for (std::size_t i = number(0, 4); i > 0; --i) {
      plait::ext::product_shape const shape{
          i, number(1, 100'000), number(1, 1'000'000'000'000),
          static_cast<plait::ext::transposed_operand>(number(0, 2))};
      out.products.push_back({shape, real(1, 1e24)});
    }
    for (std::size_t i = number(0, 2); i > 0; --i) out.attentions.push_back({i, real(1, 1e24)});
    out.row_bytes_per_second = maybe(1, 1e24);
    out.optimizer_bytes_per_second = maybe(1, 1e24);
    out.seconds_per_operation = maybe(1e-12, 1e9);
    return out;
  }

  machine_link link() { return {real(1e-12, 1e9), real(1, 1e24), number(1, 64)}; }

  void add_matrices(machine& to) {
    std::size_t const count = to.ranks.size();
    to.link_latency_seconds.assign(count, std::vector<double>(count, 0));
    to.link_bytes_per_second = to.link_latency_seconds;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        if (i != j && number(0, 3) > 0) {
          to.link_latency_seconds[i][j] = real(1e-12, 1e9);
          to.link_bytes_per_second[i][j] = real(1, 1e24);
        }
  }

  void add_collectives(machine& to) {
    using plait::ext::rank_group;
    for (auto const over : {rank_group::world, rank_group::host, rank_group::one_per_host})
      for (int kind = 0; kind < 5; ++kind) {
        if (number(0, 2) > 0) continue;
        std::size_t const ranks =
            over == rank_group::world ? to.ranks.size() : number(2, to.ranks.size());
        auto& one = to.collectives.emplace_back();
        one = {static_cast<plait::ext::collective>(kind), over, ranks, {}};
        std::uint64_t bytes = 0;
        for (std::size_t i = number(2, 5); i > 0; --i) {
          bytes += number(1, 1'000'000);
          one.times.push_back({bytes, real(1e-12, 1e9)});
        }
      }
  }

  std::mt19937_64 random_;
};

/// A machine of four ranks on two hosts in which every member is set.
inline machine complete() {
  machine out;
  out.name = "cluster";
  out.date = "2026-11-30T09:15:00Z";
  out.backend = "mpi";
  out.quiet = true;
  out.versions = {{"plait", "0.1.0"}, {"blas", "OpenBLAS 0.3.21 Zen"}};
  out.settings = {{"governor", "performance"}};
  out.hosts = {{"a", 2, 1ull << 36, 1ull << 35}, {"b", 2, 1ull << 36, 1ull << 35}};
  out.ranks = {{"a", {0}, 1.0}, {"a", {1}, 0.98}, {"b", {0}, 1.02}, {"b", {1, 5}, 1.0}};
  out.memory_bytes_per_second = 2.1e10;
  auto& type = out.element_types.emplace_back();
  type.name = "float";
  for (auto const transposed :
       {plait::ext::transposed_operand::none, plait::ext::transposed_operand::a})
    for (std::size_t const size : {32u, 512u})
      type.products.push_back({{size, size, size, transposed}, size == 32 ? 2e10 : 8e10});
  type.attentions = {{64, 3e10}};
  type.row_bytes_per_second = 1e10;
  type.optimizer_bytes_per_second = 1.5e10;
  type.seconds_per_operation = 1e-7;
  out.link_within_host = machine_link{1e-6, 8e9, 2};
  out.link_between_hosts = machine_link{2e-5, 1e9, 2};
  out.link_latency_seconds = {
      {0, 1e-6, 2e-5, 0}, {1e-6, 0, 0, 0}, {2e-5, 0, 0, 1e-6}, {0, 0, 1e-6, 0}};
  out.link_bytes_per_second = {{0, 8e9, 1e9, 0}, {8e9, 0, 0, 0}, {1e9, 0, 0, 8e9}, {0, 0, 8e9, 0}};
  out.collectives = {{plait::ext::collective::all_reduce,
                      plait::ext::rank_group::world,
                      4,
                      {{4, 2e-5}, {1024, 3e-5}, {1048576, 1e-3}}},
                     {plait::ext::collective::all_gather,
                      plait::ext::rank_group::host,
                      2,
                      {{4, 1e-6}, {1048576, 2e-4}}}};
  return out;
}

}  // namespace random_machine
