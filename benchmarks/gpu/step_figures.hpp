// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Figures that are computed from the measurements of a training step.
namespace step_figures {

/// The numbers of a GPT that determine its arithmetic.
struct model_size {
  std::size_t parameters = 0, layers = 0, width = 0, sequence = 0;
};

/// FLOPs of a training step per token: 6 N + 6 L C T. Each of the N parameters takes part in one
/// multiply-add forward and two backward; attention in each of L layers of width C has two products
/// with on average T/2 of the T positions. A table that is also the head counts once; recomputation
/// in the backward does not count.
constexpr double flops_per_token(model_size const& of) {
  return 6.0 * double(of.parameters) +
         6.0 * double(of.layers) * double(of.width) * double(of.sequence);
}

struct spread {
  double median = 0, least = 0, greatest = 0;
};

inline spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto const middle = values.size() / 2;
  double const median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

/// The memory in use while a batch of this many samples is trained.
struct memory_use {
  std::size_t batch = 0, bytes = 0;
};

/// The largest batch, a multiple of `grain`, that should fit into `total` bytes: memory grows by
/// the same for every sample. 0 if it does not grow.
inline std::size_t predicted_batch(memory_use const& less, memory_use const& more,
                                   std::size_t total, std::size_t grain) {
  if (more.bytes <= less.bytes || more.batch <= less.batch || total < less.bytes) return 0;
  auto const each = double(more.bytes - less.bytes) / double(more.batch - less.batch);
  auto const further = std::size_t(double(total - less.bytes) / each);
  return (less.batch + further) / grain * grain;
}

/// One run of a kernel, or one copy, on the device.
struct kernel_run {
  std::string name;
  std::uint64_t ns = 0;
};

/// All runs of one kernel: numbers per step, and its part of the time of all kernels.
struct kernel_share {
  std::string name;
  double calls = 0, us = 0, share = 0;
};

/// The name of a kernel without the types of its arguments, its return type and the namespaces of
/// plait's kernels.
inline std::string short_name(std::string_view demangled) {
  int depth = 0;  // how many < and ( are open
  std::size_t begin = 0, end = demangled.size();
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    char const c = demangled[i];
    if (c == '(' && depth == 0 && !demangled.substr(i).starts_with("(anonymous namespace)")) {
      end = i;
      break;
    }
    if (c == ' ' && depth == 0) begin = i + 1;
    depth += (c == '<' || c == '(') - (c == '>' || c == ')');
  }
  std::string name(demangled.substr(begin, end - begin));
  for (std::string_view const folder : {"plait::cuda_kernels::", "plait::functions::", "plait::"})
    for (auto at = name.find(folder); at != std::string::npos; at = name.find(folder))
      name.erase(at, folder.size());
  return name;
}

/// The `most` kernels that take longest, in that order, and one line for all others.
inline std::vector<kernel_share> kernel_shares(std::vector<kernel_run> const& runs, int steps,
                                               std::size_t most) {
  std::map<std::string, kernel_share> by_name;
  double total = 0;
  for (auto const& run : runs) {
    auto& kernel = by_name[run.name];
    kernel.calls += 1.0 / steps;
    kernel.us += 1e-3 * double(run.ns) / steps;
    total += 1e-3 * double(run.ns) / steps;
  }
  std::vector<kernel_share> out;
  for (auto& [name, kernel] : by_name) {
    kernel.name = name;
    kernel.share = total > 0 ? kernel.us / total : 0;
    out.push_back(kernel);
  }
  std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) {
    return a.us != b.us ? a.us > b.us : a.name < b.name;
  });
  if (out.size() > most) {
    kernel_share rest{.name = std::to_string(out.size() - most) + " others"};
    for (std::size_t i = most; i < out.size(); ++i) {
      rest.calls += out[i].calls;
      rest.us += out[i].us;
      rest.share += out[i].share;
    }
    out.resize(most);
    out.push_back(rest);
  }
  return out;
}

}  // namespace step_figures
