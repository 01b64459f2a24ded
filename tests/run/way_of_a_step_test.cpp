// SPDX-License-Identifier: Apache-2.0
// test: traced
// How many functions and files a reader goes through from trainer.step to a product.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plait/plait.hpp"

// No anonymous namespace: functions of its types have no names in the program.
namespace way_of_a_step {

/// The callers of the product, the last call first.
inline std::vector<void*> callers;

/// An activation that is done as the product before it stores its result; its first call sees the
/// whole way to the product.
struct traced_identity {
  template <class T>
  T operator()(T x) const {
    if (callers.empty()) {
      callers.resize(200);
      callers.resize(std::size_t(backtrace(callers.data(), int(callers.size()))));
    }
    return x;
  }
};
struct gradient {
  template <class T>
  T operator()(T, T dy) const {
    return dy;
  }
};
using activation = plait::nn::elementwise<3, traced_identity, gradient, plait::input_slot>;
struct job
    : plait::parallel<
          plait::objective<plait::residual<plait::sequential<plait::nn::linear<3, 3>, activation>>,
                           plait::nn::cross_entropy<3>>,
          plait::serial> {};

}  // namespace way_of_a_step

namespace {

using namespace way_of_a_step;

/// A function without the arguments of templates and its own:
/// "plait::execution::trainer_executor::run".
std::string short_name(std::string const& name) {
  std::string out;
  int depth = 0;
  for (char const c : name) {
    if (c == '(' && depth == 0) break;
    if (c == '<' || c == '(') ++depth;
    if (depth == 0) out += c;
    if (c == '>' || c == ')') --depth;
  }
  return out.substr(out.rfind(' ') + 1);  // without the type of its result
}

struct function {
  std::string name;
  std::string address;  ///< in the program
};

std::vector<function> functions_of(std::vector<void*> const& addresses) {
  std::vector<function> out;
  for (void* const address : addresses) {
    Dl_info found{};
    if (dladdr(address, &found) == 0 || found.dli_sname == nullptr) continue;
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> const name(
        abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
    std::array<char, 40> text{};
    // The call, not where it returns to.
    auto const offset = static_cast<char*>(address) - static_cast<char*>(found.dli_fbase) - 1;
    std::snprintf(text.data(), text.size(), "0x%zx", std::size_t(offset));
    // Some names are too much for the library; all of plait's begin so.
    std::string const mangled = found.dli_sname;
    bool const is_ours = mangled.starts_with("_ZN5plait") || mangled.starts_with("_ZNK5plait");
    if (status == 0) out.push_back({short_name(name.get()), text.data()});
    else if (is_ours) out.push_back({"plait::" + mangled, text.data()});
  }
  return out;
}

/// From what the device is asked for to the step of the trainer.
std::vector<function> way_of(std::vector<function> const& all) {
  std::vector<function> out;
  for (auto const& one : all) {
    if (one.name == "plait::ext::host_queue::run") out.clear();
    if (one.name.starts_with("plait::")) out.push_back(one);
    if (one.name == "plait::execution::trainer_on::step") return out;
  }
  return {};
}

/// The file of each function; nothing without addr2line.
std::vector<std::string> files_of(std::vector<function> const& way) {
  std::string command = "addr2line -e /proc/" + std::to_string(getpid()) + "/exe";
  for (auto const& one : way) command += " " + one.address;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const said(
      popen((command + " 2>/dev/null").c_str(), "r"), &pclose);
  std::vector<std::string> out;
  std::string line;
  for (int c = 0; said != nullptr && (c = std::fgetc(said.get())) != EOF;) {
    if (c != '\n') {
      line += char(c);
      continue;
    }
    auto const begin = line.rfind("/plait/");
    out.push_back(begin == std::string::npos ? ""
                                             : line.substr(begin + 1, line.rfind(':') - begin - 1));
    line.clear();
  }
  return out.size() == way.size() ? out : std::vector<std::string>{};
}

TEST(WayOfAStep, IsShort) {
  constexpr std::size_t most_functions = 12, most_files = 9;
  auto const data = plait::in_memory<float>::random_classes(4, 3, 3);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5});
    for (auto const& batch : plait::batches(data, plait::global_batch<4>{}, rank, {.epochs = 1}))
      trainer.step(batch);
  });
  ASSERT_FALSE(callers.empty());
  auto const way = way_of(functions_of(callers));
  ASSERT_FALSE(way.empty()) << "no product below trainer.step: functions have no names";
  auto const files = files_of(way);
  std::string text;
  for (std::size_t i = way.size(); i-- > 0;)
    text += "  " + way[i].name.substr(0, 80) + (files.empty() ? "" : "  " + files[i]) + "\n";
  std::printf("%s", text.c_str());
  std::set<std::string> functions;
  for (auto const& one : way) functions.insert(one.name);
  EXPECT_LE(functions.size(), most_functions) << text;
  EXPECT_GE(functions.size(), 3u) << text;  // it is about a way
  EXPECT_LE(std::set<std::string>(files.begin(), files.end()).size(), most_files) << text;
}

}  // namespace
