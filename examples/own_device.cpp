// SPDX-License-Identifier: Apache-2.0
// ctest:
// Your own device: a skeleton to start from. Its memory is the processor's, its streams are the
// calling thread, and its kernels are those of the host. Replace these parts one after the other;
// after each change plait::testing::check_device reports the laws that the device breaks.
#include <plait/backend/host/run_ranks.hpp>
#include <plait/plait.hpp>
#include <plait/testing/check_device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ext = plait::ext;
namespace operation = plait::operation;

using counts = std::map<std::string_view, long>;  // how often each row has run

// example-begin queue
// Takes the operations of a stream: one function for each row of plait/operation/rows.hpp. The base
// provides the names that a step calls, such as fill() and add().
class own_queue : public ext::queue_calls<own_queue> {
 public:
  explicit own_queue(counts& ran) : ran_(&ran) {}

  // Your kernel. A device with streams puts it at the end of one and returns.
  template <class T>
  void run(operation::add row, ext::matrix<T const> a, ext::matrix<T const> b,
           ext::matrix<T> sum) const {
    ++(*ran_)[row.is.name];
    for (std::size_t i = 0; i < sum.count(); ++i) sum.data[i] = a.data[i] + b.data[i];
  }
  // All other rows: the host's kernels, as long as the host can read the memory.
  template <operation::is_row Row, class... Arguments>
    requires ext::runs<ext::host_queue, Row, Arguments...>
  void run(Row row, Arguments... arguments) const {
    ++(*ran_)[row.is.name];
    ext::host_queue{}.run(row, arguments...);
  }
  // A layer's own kernels, for ops.run(kernel, views...).
  template <class Kernel, class... Views>
    requires(!operation::is_row<Kernel>)
  void run(Kernel kernel, Views... views) const {
    ext::call_kernel(kernel, *this, views...);
  }
  // Called once for each shape of attention, before a step: allocate the memory of its kernels.
  template <class Row, class T>
  void prepare(Row, ext::matrix<T const>, ext::attention_shape const&) const {}
  // These bytes are written again before they are read.
  void discard(void*, std::size_t) const {}

 private:
  counts* ran_;
};
// example-end

// example-begin device
struct own_device {
  using concept_tag = ext::device_tag;
  static constexpr ext::device_parts parts{};  // none of the optional members of a device
  struct memory {                              // views of different memories are different types
    using concept_tag = ext::memory_tag;
  };
  using queue = own_queue;
  using arena = ext::host_arena;  // has data() and size(), and its destructor frees the memory
  struct graph {};                // contains the recording of replay()
  struct event {};                // contains the place in a stream at which record() was called

  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(bytes); }
  void upload(void const* from, void* to, std::size_t bytes) const {
    std::copy_n(static_cast<std::byte const*>(from), bytes, static_cast<std::byte*>(to));
  }
  void download(void const* from, void* to, std::size_t bytes) const { upload(from, to, bytes); }

  // All streams are this thread, so each operation has ended when its call returns.
  [[nodiscard]] queue on(ext::stream) const { return queue(*ran); }
  void synchronize() const {}
  [[nodiscard]] event make_event() const { return {}; }
  void record(event&, ext::stream) const {}
  void wait(ext::stream, event const&, ext::wait_site) const {}
  void replay(graph&, auto&& body) const { body(); }

  [[nodiscard]] std::string kind() const { return "own device, version 1"; }
  [[nodiscard]] int mark(char const*) const { return 0; }  // no profiler asks for names

  std::shared_ptr<counts> ran = std::make_shared<counts>();
};
static_assert(ext::device<own_device>);
// example-end

// example-begin backend
// Starts ranks: here a thread for each, whose communicators read and write each other's memory.
struct own_backend {
  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<own_device, ext::thread_communicator>;
  int data_ranks = 0;
  own_device device{};

  void run(ext::mesh_groups const& groups, std::function<void(rank_type&)> const& program) const {
    auto const& grid = groups.grid();
    ext::thread_world world(grid.world_size());
    auto const ids = ext::declare_groups(groups, [&](std::vector<int> members, ext::axis_set) {
      return world.add_group(std::move(members));
    });
    ext::run_ranks(world, [&](int rank) {
      std::vector<ext::thread_communicator> members;
      for (int i = 0; i < groups.sets().size(); ++i)
        members.emplace_back(world, ids[std::size_t(rank)][std::size_t(i)],
                             grid.group_of(rank, groups.sets()[i]), rank, groups.sets()[i]);
      rank_type handle(groups, rank, device, std::move(members));
      program(handle);
    });
  }
};
static_assert(ext::backend<own_backend>);
// example-end

}  // namespace

int main() {
  // example-begin check
  auto const report = plait::testing::check_device(own_device{});
  if (!report.passed()) return std::printf("%s", report.text().c_str());
  std::printf("the device keeps the laws: %zu laws and kernels were run\n", report.checked.size());
  // example-end
  using net =
      plait::sequential<plait::nn::linear<10, 16>, plait::nn::relu<16>, plait::nn::linear<16, 2>>;
  using job = plait::parallel<plait::objective<net, plait::nn::cross_entropy<2>>, plait::serial>;
  own_backend const backend;
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);
  plait::launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 5}))
      if (auto const done = trainer.step(batch); done.step % 20 == 0)
        std::printf("step %2ld  loss %.3f\n", long(done.step), done.loss);
  });
  for (auto const& [row, times] : *backend.device.ran)
    std::printf("%4ld times %.*s\n", times, int(row.size()), row.data());
}
