// SPDX-License-Identifier: Apache-2.0
// Lists the launches of a training step of GPT-2 124M in bfloat16 at batch 32, and the bytes that
// each kind of kernel reads and writes, counted on a pretended device that runs nothing. Caches are
// not modelled: a value that a kernel reads a second time, from a register or its block's cache, is
// counted once.
//
//   backend_cuda_step_launches [two-pass]
#include "backend/cuda/pretended_device.hpp"  // first, as it pretends the CUDA runtime

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "plait/backend/cuda/cuda.hpp"
#include "plait/plait.hpp"
#include "train_gpt/model.hpp"

namespace {

using model = train_gpt::sizes::gpt2;
constexpr std::size_t batch = 32, width = 768;
struct job
    : plait::parallel<model::objective, plait::serial, plait::precision<plait::bfloat16, float>> {};

// cuDNN's attention: the forward reads q, k and v once and writes the result once; the backward
// also reads and writes their gradients, and the numbers that a deterministic backward keeps for
// each pair of positions.
struct counted_attention final : plait::ext::prepared_attention {
  explicit counted_attention(std::size_t of_rows) : rows(of_rows) {}
  std::size_t rows;

  static void count(char const* what, std::size_t bytes) {
    pretended::counted.push_back({nullptr, what, {bytes}});
  }
  [[nodiscard]] std::size_t workspace_bytes() const override { return 1 << 20; }
  void forward(plait::bfloat16 const*, plait::bfloat16*, float*, std::byte*,
               cudaStream_t) override {
    count("attention", rows * width * 2 * 4);
  }
  void backward(plait::bfloat16 const*, plait::bfloat16 const*, float const*,
                plait::bfloat16 const*, plait::bfloat16*, std::byte*, cudaStream_t) override {
    count("attention backward", rows * width * 2 * 8);
  }
};
struct counted_engine final : plait::ext::attention_engine {
  [[nodiscard]] std::string name() const override { return "counting"; }
  [[nodiscard]] std::unique_ptr<plait::ext::prepared_attention> prepare(
      plait::ext::attention_shape const& of) override {
    return std::make_unique<counted_attention>(of.sequence * of.batch);
  }
};

std::filesystem::path tokens_file() {
  auto const path = std::filesystem::temp_directory_path() /
                    ("step_launches." + std::to_string(std::random_device{}()));
  std::vector<std::int32_t> header(256);
  std::vector<std::uint16_t> const tokens(2 * batch * model::sequence + 1, 7);
  header[0] = 20240520, header[1] = 1, header[2] = static_cast<std::int32_t>(tokens.size());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<char const*>(header.data()), 1024);
  file.write(reinterpret_cast<char const*>(tokens.data()),
             static_cast<std::streamsize>(2 * tokens.size()));
  return path;
}

/// Returns "layer_norm_kernel<8, bfloat16>", or the call of a library.
std::string name_of(pretended::counted_work const& work) {
  if (work.call != nullptr) return work.call;
  Dl_info about{};
  if (dladdr(work.kernel, &about) == 0 || about.dli_sname == nullptr) return "?";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> const text(
      abi::__cxa_demangle(about.dli_sname, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : about.dli_sname;
  name = name.substr(0, name.find('('));
  for (char const* const space : {"void ", "plait::cuda_kernels::", "plait::ext::", "plait::"})
    for (std::size_t at; (at = name.find(space)) != std::string::npos;)
      name.erase(at, std::strlen(space));
  return name;
}

std::size_t element_bytes(std::string const& name) {
  if (name.find("bfloat16") != std::string::npos) return 2;
  return name.find("double") != std::string::npos ? 8 : 4;
}

constexpr std::size_t parameters = 124'475'904;  // the number includes the padding of the table

/// Returns the bytes of memory that a kernel reads and writes, except for a few numbers for each
/// row or column.
std::size_t bytes_of(std::string const& name, std::vector<std::size_t> const& n) {
  std::size_t const element = element_bytes(name);
  std::string const kind = name.substr(0, name.find('<'));
  if (kind == "product") return n[3] + n[4] + n[5];
  if (kind == "attention" || kind == "attention backward") return n[0];
  if (kind == "copy") return n[0] * (n[1] + n[2] == 0 ? 2 : 1);
  if (kind == "fill_kernel") return n[2] * element;
  if (kind == "map2_kernel") return 3 * n[4] * element;
  if (kind == "layer_norm_kernel") return 2 * n[5] * n[6] * element;
  if (kind == "layer_norm_backward_kernel") return (3 + n[8]) * n[0] * n[1] * element;
  if (kind == "layer_norm_backward_parameters_kernel") return 2 * n[0] * n[1] * element;
  if (kind == "layer_norm_backward_input_kernel") return 3 * n[5] * n[6] * element;
  if (kind == "column_sums_kernel") return n[0] * n[1] * element;
  if (kind == "add_slices_kernel")  // it also reads the sums that other blocks have written
    return 2 * n[2] * n[3] * element * (name.find("<2") != std::string::npos ? 2 : 1);
  if (kind == "row_max_kernel") return n[2] * n[4] * element;
  if (kind == "cross_entropy_terms_kernel") return n[5] * n[7] * element;
  if (kind == "cross_entropy_statistics_kernel") return n[4] * n[6] * element;
  if (kind == "cross_entropy_with_gradient_kernel") return n[6] * (n[7] + n[8]) * element;
  if (kind == "cross_entropy_backward_kernel") return n[8] * (n[9] + n[10]) * element;
  if (kind == "gather_rows_kernel") return 2 * n[5] * n[6] * element;
  if (kind == "add_positions_kernel") return 2 * n[3] * n[5] * element;
  if (kind == "accumulate_positions_kernel") return n[2] * n[3] * n[4] * element;
  if (kind == "add_sorted_rows_kernel") return n[2] * n[6] * element;
  if (kind == "adamw_kernel") return parameters * (4 * 4 + 3 * 4 + 2);
  if (kind == "squares_kernel") return parameters * 4;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  bool const two_pass = count > 1 && std::string(words[1]) == "two-pass";
  pretended::only_counts = true;
  auto const path = tokens_file();
  plait::token_shards const text({path},
                                 {.sequence = model::sequence, .vocabulary = model::vocabulary});
  std::filesystem::remove(path);
  plait::cuda backend;
  backend.options.one_pass_cross_entropy = !two_pass;
  backend.options.loss_with_gradient = !two_pass;
  backend.options.one_pass_layer_norm = !two_pass;
  backend.options.fused_residual = !two_pass;
  backend.options.attention = [](plait::ext::cuda_place,
                                 plait::ext::attention_engine_options const&)
      -> std::unique_ptr<plait::ext::attention_engine> {
    return std::make_unique<counted_engine>();
  };
  plait::launch<job>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<job>(rank, plait::adamw{.learning_rate = 3e-4}, {.seed = 1, .clip = 1.0});
    auto batches = plait::batches(text, plait::global_batch<batch>{}, rank, {.epochs = 0});
    trainer.step(batches.at(0));
    pretended::counted.clear();
    trainer.step(batches.at(1));
  });
  struct line {
    int launches = 0;
    std::size_t bytes = 0;
  };
  std::map<std::string, line> lines;
  line all;
  for (auto const& work : pretended::counted) {
    auto const name = name_of(work);
    auto const bytes = bytes_of(name, work.numbers);
    for (auto* const each : {&lines[name], &all}) ++each->launches, each->bytes += bytes;
  }
  std::vector<std::pair<std::string, line>> sorted(lines.begin(), lines.end());
  std::ranges::stable_sort(sorted, {}, [](auto const& each) { return ~each.second.bytes; });
  sorted.emplace_back("all", all);
  std::printf("| kernel | launches | GB |\n|---|---|---|\n");
  for (auto const& [name, of] : sorted)
    std::printf("| %s | %d | %.2f |\n", name.c_str(), of.launches, 1e-9 * double(of.bytes));
}
