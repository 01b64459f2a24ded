// SPDX-License-Identifier: Apache-2.0
// Any bytes as a machine file.
#include <cmath>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "plait/doctor/compare_machines.hpp"
#include "plait/doctor/machine_costs.hpp"
#include "plait/doctor/machine_file.hpp"

namespace {

plait::ext::machine parsed(std::string const& text) {
  return plait::detail::parse_machine(text, plait::detail::file_name("machine file", "m"));
}

std::string text_of(plait::ext::machine const& of) {
  return plait::detail::text_of_machine(of, plait::detail::file_name("machine file", "m"));
}

void expect_time(double seconds) {
  fuzzing::expect(std::isfinite(seconds) && seconds > 0, "a time is not a positive number");
}

// The promises of the reader to code that computes with the numbers.
void expect_costs(plait::ext::machine const& of) {
  for (auto const& type : of.element_types)
    for (auto const& product : type.products) {
      auto shape = product.shape;
      expect_time(plait::ext::seconds_of_product(of, type.name, shape));
      shape.rows = 1'000'000'000'000 - shape.rows;
      if (shape.rows > 0) expect_time(plait::ext::seconds_of_product(of, type.name, shape));
    }
  for (auto const& one : of.collectives)
    for (auto const bytes : {std::uint64_t{0}, std::uint64_t{1000}, ~std::uint64_t{0}})
      expect_time(plait::ext::seconds_of_collective(of, one.kind, one.over, bytes));
  for (int rank = 1; rank < static_cast<int>(of.ranks.size()); ++rank)
    fuzzing::accepts([&] { expect_time(plait::ext::link_between(of, 0, rank).latency_seconds); });
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  bool const is_read = fuzzing::accepts([&] {
    auto const machine = parsed(text);
    auto const again = text_of(machine);
    fuzzing::expect(parsed(again) == machine, "another machine is read back");
    fuzzing::expect(text_of(parsed(again)) == again, "another text");
    expect_costs(machine);
    fuzzing::expect(plait::ext::compare_machines(machine, machine).fallen.empty(),
                    "a machine is slower than itself");
  });
  // A file with this text gives the same result.
  fuzzing::expect(fuzzing::accepts([&] {
                    (void)plait::ext::read_machine(fuzzing::file_of({data, size}));
                  }) == is_read,
                  "a file is another machine than its text");
  return 0;
}
