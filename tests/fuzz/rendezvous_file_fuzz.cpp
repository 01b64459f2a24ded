// SPDX-License-Identifier: Apache-2.0
// A line for the job's name, and any bytes: as what is found in a rendezvous file, and as what is
// written into one and read back.
#include <algorithm>
#include <chrono>
#include <fstream>

#include "fuzz/fuzzing.hpp"
#include "plait/backend/process/rendezvous_file.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  std::size_t const expected = fuzzing::take(bytes, 1);
  auto const job = fuzzing::take_line(bytes);
  auto const path = fuzzing::scratch() / "rendezvous";
  plait::ext::rendezvous_file const file(path, job);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<char const*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  fuzzing::accepts([&] {
    auto const got = file.read(expected, std::chrono::seconds{1}, [] {});
    fuzzing::expect(got.size() == expected, "another number of bytes");
  });
  fuzzing::expect(!fuzzing::accepts([&] { file.write({}); }), "a file was replaced");
  file.remove();
  auto const payload = std::as_bytes(bytes);
  file.write(payload);
  auto const got = file.read(bytes.size(), std::chrono::seconds{1}, [] {});
  fuzzing::expect(std::ranges::equal(got, payload), "other bytes");
  plait::ext::rendezvous_file const another(path, job + "x");
  fuzzing::expect(
      !fuzzing::accepts([&] { (void)another.read(bytes.size(), std::chrono::seconds{1}, [] {}); }),
      "another job's file was read");
  file.remove();
  return 0;
}
