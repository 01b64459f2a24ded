// SPDX-License-Identifier: Apache-2.0
// Calls of lean_vector's members, one for every two bytes, with results compared to std::vector.
// LeakSanitizer finds memory that a vector does not free.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/core/lean_vector.hpp"

/// Compares a lean_vector with a std::vector after each call of `calls`.
template <class T>
void compare_vectors(std::span<std::uint8_t const> calls, auto make) {
  plait::ext::lean_vector<T> lean;
  std::vector<T> usual;
  for (std::size_t i = 0; i + 1 < calls.size() && i < 512; i += 2) {
    std::size_t const number = calls[i + 1];
    auto const at = static_cast<std::ptrdiff_t>(usual.empty() ? 0 : number % usual.size());
    switch (calls[i] % 8) {
      case 0: lean.push_back(make(number)), usual.push_back(make(number)); break;
      case 1: lean.resize(number), usual.resize(number); break;
      case 2: lean.clear(), usual.clear(); break;
      case 3:
        lean.insert(lean.begin() + at, make(number)),
            usual.insert(usual.begin() + at, make(number));
        break;
      case 4:
        if (usual.empty()) break;
        lean.erase(lean.begin() + at), usual.erase(usual.begin() + at);
        break;
      case 5:
        lean = plait::ext::lean_vector<T>(number, make(i)), usual.assign(number, make(i));
        break;
      case 6: {
        auto copy = lean;
        copy.push_back(make(number));
        lean = std::move(copy), usual.push_back(make(number));
        break;
      }
      default: lean = {make(1), make(number)}, usual = {make(1), make(number)};
    }
    fuzzing::expect(std::equal(lean.begin(), lean.end(), usual.begin(), usual.end()),
                    "the vectors differ");
  }
}

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> const calls(data, size);
  compare_vectors<int>(calls, [](std::size_t number) { return static_cast<int>(number); });
  compare_vectors<std::string>(calls, [](std::size_t number) { return std::string(number, 'a'); });
  return 0;
}
