// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/cuda/device/cuda_device.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <type_traits>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/functions.hpp"

namespace {

using namespace cuda_testing;
using plait::ext::cuda_device;
using plait::ext::matrix;
using plait::ext::row_of;
using plait::ext::stream;
namespace operation = plait::operation;

std::vector<int> numbers(std::size_t count, int first = 0) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Staging pieces of 64 bytes, so that a small buffer passes through all of them several times.
plait::cuda_options const small_pieces{.staging_bytes = 64, .staging_pieces = 3};

TEST(CudaDevice, HostMemoryMayBeChangedWhenUploadReturns) {
  cuda_device device({0, 0}, small_pieces);
  for (std::size_t const count : {0u, 1u, 16u, 17u, 1000u}) {
    auto const room = device.allocate(count * sizeof(int));
    auto values = numbers(count);
    device.upload(values.data(), room.data(), count * sizeof(int));
    std::fill(values.begin(), values.end(), -1);
    std::vector<int> back(count, -2);
    device.download(room.data(), back.data(), count * sizeof(int));
    device.synchronize();
    EXPECT_EQ(back, numbers(count));
  }
}

TEST(CudaDevice, DownloadsInOneQueueDoNotDisturbEachOther) {
  cuda_device device({0, 0}, small_pieces);
  on_device<int> const x(device, numbers(40));
  auto const queue = device.on(stream::compute);
  std::vector<int> before(40), after(40);
  device.download(x.data(), before.data(), 160);
  queue.fill(7, x.data(), 40);
  device.download(x.data(), after.data(), 160);
  device.synchronize();
  EXPECT_EQ(before, numbers(40));
  EXPECT_EQ(after, std::vector<int>(40, 7));
}

TEST(CudaDevice, AStreamWaitsForAnEventOfAnother) {
  cuda_device device({0, 0});
  std::size_t const count = std::size_t{1} << 20;
  on_device<int> const x(device, std::vector<int>(count, 0)), y(device, std::vector<int>(count, 0));
  auto computed = device.make_event(), copied = device.make_event();
  auto const compute = device.on(stream::compute), data = device.on(stream::data);
  for (int round = 1; round <= 20; ++round) {
    compute.fill(round, x.data(), count);
    device.record(computed, stream::compute);
    device.wait(stream::data, computed, {});
    data.copy_bytes(x.data(), y.data(), count * sizeof(int));
    device.record(copied, stream::data);
    device.wait(stream::compute, copied, {});
    compute.fill(-1, x.data(), count);
    if (round % 5 == 0) {
      ASSERT_EQ(y.get(), std::vector<int>(count, round));
    }
  }
}

TEST(CudaDevice, TheCurrentDeviceOfTheProgramStays) {
  int before = -1, after = -1;
  ASSERT_EQ(cudaGetDevice(&before), cudaSuccess);
  int const last = gpus() - 1;
  {
    cuda_device device({0, last});
    on_device<float> const x(device, std::vector<float>(100, 2.0f));
    cudaPointerAttributes about{};
    ASSERT_EQ(cudaPointerGetAttributes(&about, x.data()), cudaSuccess);
    EXPECT_EQ(about.device, last);
    device.on(stream::compute).add(x.data(), x.data(), x.data(), 100);
    EXPECT_EQ(x.get(), std::vector<float>(100, 4.0f));
  }
  ASSERT_EQ(cudaGetDevice(&after), cudaSuccess);
  EXPECT_EQ(after, before);
}

TEST(CudaDevice, TooMuchMemoryIsAnErrorWithTheNumbers) {
  cuda_device device({2, 0});
  auto const some = device.allocate(1000);
  std::size_t const asked = std::size_t{1} << 46;
  try {
    (void)device.allocate(asked);
    FAIL() << "64 TiB were there";
  } catch (plait::out_of_memory const& e) {
    EXPECT_EQ(e.bytes.asked, asked);
    EXPECT_GT(e.bytes.total, 0u);
    EXPECT_LE(e.bytes.free, e.bytes.total);
    std::size_t const scratch =
        plait::cuda_options{}.workspace_bytes +
        (plait::ext::stream_count - 1) * plait::detail::cuda_state::least_scratch;
    EXPECT_EQ(e.bytes.held, 1000 + scratch);
    expect_text(e.what(), "rank 2, CUDA device 0: out of memory");
  }
  EXPECT_NO_THROW((void)device.allocate(1000));
}

TEST(CudaDevice, ReplayRunsTwiceAndRepeatsFromThenOn) {
  for (bool const graphs : {false, true}) {
    cuda_device device({0, 0}, {.graphs = graphs});
    on_device<int> const x(device, {0}), y(device, {0}), z(device, {0}), ones(device, {1});
    auto computed = device.make_event(), copied = device.make_event();
    cuda_device::graph graph;
    int calls = 0;
    for (int round = 1; round <= 5; ++round) {
      device.replay(graph, [&] {
        ++calls;
        auto const queue = device.on(stream::compute);
        queue.add(x.data(), ones.data(), x.data(), 1);
        device.record(computed, stream::compute);
        device.wait(stream::data, computed, {});
        device.on(stream::data).copy_bytes(x.data(), y.data(), sizeof(int));
        device.record(copied, stream::data);
        device.wait(stream::compute, copied, {});
        queue.add(x.data(), y.data(), x.data(), 1);
      });
      // Operations that are issued later run after the operations of the body.
      device.on(stream::data).copy_bytes(y.data(), z.data(), sizeof(int));
      EXPECT_EQ(x.get().front(), 2 * ((1 << round) - 1));
      EXPECT_EQ(z.get().front(), (2 << (round - 1)) - 1);
    }
    EXPECT_EQ(calls, graphs ? 2 : 5);
  }
}

TEST(CudaDevice, ScratchMemoryNeverMoves) {
  cuda_device device({0, 0}, {.workspace_bytes = 1000});
  auto& state = device.state();
  auto* const few = state.scratch(stream::compute, 1000);
  auto* const many = state.scratch(stream::compute, 1001);
  EXPECT_NE(few, many);
  EXPECT_EQ(state.scratch(stream::compute, 2000), many);  // the scratch has at least doubled
  EXPECT_EQ(state.scratch(stream::compute, 4), few);
  on_device<int> const x(device, numbers(250));
  auto const queue = device.on(stream::compute);
  queue.copy_bytes(x.data(), few, 1000);  // both buffers are still allocated
  queue.copy_bytes(few, many, 1000);
  queue.fill(0, x.data(), 250);
  queue.copy_bytes(many, x.data(), 1000);
  EXPECT_EQ(x.get(), numbers(250));
}

#if !defined(__CUDACC__)
// A download of more than all pieces waits for the first piece, after work that takes too long. The
// buffer may be destroyed after the failure, so no piece may be written to it.
TEST(CudaDevice, ADownloadThatFailsWritesNothingLater) {
  auto options = small_pieces;
  options.timeout = std::chrono::milliseconds{50};
  cuda_device device({0, 0}, options);
  on_device<int> const x(device, numbers(100));
  std::atomic<bool> ends{false};
  {
    pretended::lock const hold(pretended::machine::get().mutex);
    pretended::enqueue_made(device.on(stream::compute).stream(), [&ends] {
      return pretended::item{[&ends] { return ends.load(); }, {}};
    });
  }
  std::vector<int> back(100, -1);
  EXPECT_THROW(device.download(x.data(), back.data(), 400), plait::communication_timeout);
  ends = true;
  device.synchronize();
  EXPECT_EQ(back, std::vector<int>(100, -1));
}
#endif

TEST(CudaDevice, WaitsOfTheHostCannotBeRecorded) {
  cuda_device device({0, 0}, {.graphs = true});
  on_device<int> const x(device, {1});
  cuda_device::graph graph;
  int host = 0;
  auto const body = [&] { device.upload(&host, x.data(), sizeof host); };
  device.replay(graph, body);
  expect_text(message_of<plait::cuda_error>([&] { device.replay(graph, body); }),
              "an upload was asked for while a step is recorded as a graph");
  EXPECT_EQ(x.get().front(), 0);  // the device is unchanged
}

// A layer's own operations that wait for the value they compute: by the queue, as thrust_policy()
// does, by CUDA itself, and by a library that throws its own exception for an error of CUDA.
struct waits_for_its_queue {
  void operator()(plait::ext::cuda_queue const& queue) const { queue.wait(); }
};
struct waits_in_cuda {
  void operator()(plait::ext::cuda_queue const& queue) const {
    (void)cudaStreamSynchronize(queue.stream());
    (void)cudaGetLastError();
  }
};
struct waits_in_a_library {
  void operator()(plait::ext::cuda_queue const& queue) const {
    if (cudaStreamSynchronize(queue.stream()) != cudaSuccess) throw std::runtime_error("a library");
  }
};

TEST(CudaDevice, AnOperationThatReturnsAValueCannotBeRecorded) {
  auto const refuses = [](auto kernel) {
    cuda_device device({0, 0}, {.graphs = true});
    on_device<int> const x(device, {1}), ones(device, {1});
    auto const queue = device.on(stream::compute);
    auto const body = [&] {
      queue.add(x.data(), ones.data(), x.data(), 1);
      queue.run(kernel);
    };
    cuda_device::graph graph, other;
    device.replay(graph, body);  // the first step is not recorded
    expect_text(message_of<plait::cuda_error>([&] { device.replay(graph, body); }),
                "an algorithm that returns a value to the host cannot be part of a recorded step; "
                "write the value to device memory, for example by cub::DeviceReduce");
    EXPECT_EQ(x.get().front(), 2);  // the device is unchanged and still records
    for (int i = 0; i < 3; ++i)
      device.replay(other, [&] { queue.add(x.data(), ones.data(), x.data(), 1); });
    EXPECT_EQ(x.get().front(), 5);
  };
  refuses(waits_for_its_queue{});
  refuses(waits_in_cuda{});
  refuses(waits_in_a_library{});
}

// Returns small integers: sums are exact in every type and order.
template <class T>
std::vector<T> whole_numbers(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<T>(static_cast<float>(static_cast<int>(bits() % 9) - 4)));
  return values;
}
template <class T>
std::vector<double> wide(std::vector<T> const& values) {
  std::vector<double> out;
  for (T const each : values)
    out.push_back(static_cast<double>(static_cast<plait::accumulate_t<T>>(each)));
  return out;
}

template <class T, class C>
struct product_types {
  using operand = T;
  using result = C;
};
template <class Types>
struct Matmul : testing::Test {
  static void compare();
};
using products = testing::Types<product_types<float, float>, product_types<double, double>,
                                product_types<plait::bfloat16, plait::bfloat16>,
                                product_types<plait::bfloat16, float>>;
TYPED_TEST_SUITE(Matmul, products);

template <class Types>
void Matmul<Types>::compare() {
  using A = typename Types::operand;
  using C = typename Types::result;
  cuda_device device({0, 0});
  plait::ext::host_queue const host;
  struct sizes {
    std::size_t m, n, k, more;
  };
  for (auto const& [m, n, k, more] : {sizes{1, 1, 1, 0},
                                      {8, 16, 24, 0},
                                      {5, 7, 3, 2},
                                      {64, 40, 33, 1},
                                      {3, 4, 0, 1},
                                      {0, 4, 5, 0}})
    for (int form = 0; form < 8; ++form) {
      bool const at = form & 1, bt = form & 2, accumulate = form & 4;
      std::size_t const a_rows = at ? k : m, a_columns = at ? m : k, lda = a_columns + more,
                        b_rows = bt ? n : k, b_columns = bt ? k : n, ldb = b_columns + more,
                        ldc = n + more;
      auto const a = whole_numbers<A>(a_rows * lda, 1);
      auto const b = whole_numbers<A>(b_rows * ldb, 2);
      auto const c = whole_numbers<C>(m * ldc, 3);
      auto expected = wide(c);
      auto const wide_a = wide(a), wide_b = wide(b);
      plait::ext::transposes const lie{at, bt};
      host.run(operation::matmul{}, matrix{wide_a.data(), a_rows, a_columns, lda},
               matrix{wide_b.data(), b_rows, b_columns, ldb}, matrix{expected.data(), m, n, ldc},
               lie, accumulate);
      on_device<A> const da(device, a), db(device, b);
      on_device<C> const dc(device, c);
      device.on(stream::compute)
          .run(operation::matmul{}, matrix<A const>{da.data(), a_rows, a_columns, lda},
               matrix<A const>{db.data(), b_rows, b_columns, ldb}, matrix<C>{dc.data(), m, n, ldc},
               lie, accumulate);
      auto const got = wide(dc.get());
      for (std::size_t i = 0; i < got.size(); ++i)
        // Sums are below 2^10; a bfloat16 result is rounded to 8 bits.
        ASSERT_NEAR(got[i], expected[i], sizeof(C) == 2 ? std::abs(expected[i]) / 256 : 0)
            << m << 'x' << n << 'x' << k << " form " << form << " at " << i;
    }
}

TYPED_TEST(Matmul, IsThatOfTheHost) { this->compare(); }
#if !defined(__CUDACC__)
TYPED_TEST(Matmul, ThatTheLibraryDoesNotTakeIsThatOfTheHost) {
  pretended::takes_products = false;
  this->compare();
  pretended::takes_products = true;
}
TYPED_TEST(Matmul, IsMadeByTheFastestAlgorithmWhereTheOptionsSaySo) {
  using A = typename TypeParam::operand;
  using C = typename TypeParam::result;
  for (bool const times : {false, true})
    for (int const fastest : {2, 0, 1}) {
      pretended::fastest = fastest;
      cuda_device device({0, 0}, {.time_products = times});
      on_device<A> const a(device, whole_numbers<A>(16, 1)), b(device, whole_numbers<A>(16, 2));
      on_device<C> const c(device, std::vector<C>(16, static_cast<C>(1.0f)));
      for (int const round : {1, 2}) {
        device.on(stream::compute)
            .run(operation::matmul{}, matrix<A const>{a.data(), 4, 4},
                 matrix<A const>{b.data(), 4, 4}, matrix<C>{c.data(), 4, 4},
                 plait::ext::transposes{}, true);
        EXPECT_EQ(pretended::last_algorithm, times ? fastest : 0) << round;
      }
      auto const x = wide(whole_numbers<A>(16, 1)), y = wide(whole_numbers<A>(16, 2));
      double expected = 1;
      for (std::size_t p = 0; p < 4; ++p) expected += 2 * x[p] * y[4 * p];
      EXPECT_NEAR(wide(c.get())[0], expected, sizeof(C) == 2 ? std::abs(expected) / 128 : 0);
    }
}
TYPED_TEST(Matmul, AnEarlierErrorIsNotBlamedOnTheLibrary) {
  using A = typename TypeParam::operand;
  using C = typename TypeParam::result;
  cuda_device device({0, 0});
  on_device<A> const a(device, whole_numbers<A>(16, 1));
  on_device<C> const c(device, whole_numbers<C>(16, 1));
  auto const multiply = [&] {
    matrix<A const> const operand{a.data(), 4, 4};
    device.on(stream::compute)
        .run(operation::matmul{}, operand, operand, matrix<C>{c.data(), 4, 4},
             plait::ext::transposes{}, false);
  };
  pretended::last_error = cudaErrorInvalidConfiguration;
  try {
    multiply();
    ADD_FAILURE() << "not found";
  } catch (plait::cuda_error const& error) {
    EXPECT_NE(std::string(error.what()).find("a kernel launched before cublasLtMatmul"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(multiply());  // all algorithms are still offered
}
#endif

struct twice {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return x + x;
  }
};

template <class T>
struct Epilogue : testing::Test {
  cuda_device device{{0, 0}};
  plait::ext::host_queue host;

  // Compares a product of m x k and k x n numbers on the device with the host's in double.
  template <class Function>
  void compare(std::size_t m, std::size_t n, std::size_t k, bool adds, bool in_place) {
    using on_host = plait::ext::epilogue<double, Function>;
    // For odd m the row is aligned to its elements only, and for odd n the added matrix is.
    auto const a = whole_numbers<T>(m * k, 1), b = whole_numbers<T>(n * k, 2),
               row = whole_numbers<T>(n + m % 2, 3), kept = whole_numbers<T>(m * n + n % 2, 4),
               nothing = std::vector<T>(m * n);
    bool const sums = !on_host::maps && in_place;
    auto const wide_a = wide(a), wide_b = wide(b), wide_row = wide(row), wide_kept = wide(kept);
    std::vector<double> c(m * n), out(m * n);
    plait::ext::transposes const b_lies{.b = true};
    host.run(operation::matmul{}, matrix{wide_a.data(), m, k}, matrix{wide_b.data(), n, k},
             matrix{c.data(), m, n}, b_lies,
             on_host{.row = adds ? wide_row.data() + m % 2 : nullptr,
                     .kept = wide_kept.data(),
                     .mapped = in_place ? c.data() : out.data(),
                     .added = sums ? wide_kept.data() + n % 2 : nullptr});

    on_device<T> const da(device, a), db(device, b), drow(device, row), dkept(device, kept),
        dc(device, nothing), dout(device, nothing);
    device.on(stream::compute)
        .run(operation::matmul{}, matrix<T const>{da.data(), m, k},
             matrix<T const>{db.data(), n, k}, matrix<T>{dc.data(), m, n}, b_lies,
             plait::ext::epilogue<T, Function>{.row = adds ? drow.data() + m % 2 : nullptr,
                                               .kept = dkept.data(),
                                               .mapped = in_place ? dc.data() : dout.data(),
                                               .added = sums ? dkept.data() + n % 2 : nullptr});
    auto const where = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                       (adds ? " with a row" : "") + (in_place ? " in place" : "") +
                       (sums ? " of a matrix that is added" : "");
    if (!on_host::maps || !on_host::takes_two) expect_near(dc.get(), c, c, where + ", c");
    // A derivative has the error of one factor of the product.
    if (on_host::maps && !in_place)
      expect_near(dout.get(), out, on_host::takes_two ? c : out, where + ", mapped");
  }
  static void expect_near(std::vector<T> const& got, std::vector<double> const& expected,
                          std::vector<double> const& scale, std::string const& where) {
    auto const values = wide(got);
    double const accuracy = sizeof(T) == 2 ? 1.0 / 64 : sizeof(T) == 4 ? 1e-5 : 1e-12;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], accuracy * (1 + std::abs(scale[i])))
          << where << " at " << i;
  }
  template <class Function>
  void compare_all() {
    for (auto const& [m, n, k] : {std::array<std::size_t, 3>{1, 1, 1},
                                  {16, 24, 8},
                                  {5, 7, 3},
                                  {3, 8, 0},
                                  {0, 8, 4},
                                  {40, 64, 33}})
      for (bool const adds : {false, true})
        for (bool const in_place : {false, true}) compare<Function>(m, n, k, adds, in_place);
  }
  void compare_functions() {
    compare_all<plait::ext::no_function>();
    compare_all<plait::functions::relu>();
    compare_all<plait::functions::relu_derivative>();
    compare_all<twice>();
  }
};
using epilogue_types = testing::Types<float, double, plait::bfloat16>;
TYPED_TEST_SUITE(Epilogue, epilogue_types);

TYPED_TEST(Epilogue, IsThatOfTheHost) { this->compare_functions(); }
TYPED_TEST(Epilogue, OfGeluIsThatOfTheHost) {
  this->template compare_all<plait::functions::gelu_tanh>();
  this->template compare_all<plait::functions::gelu_tanh_derivative>();
}
#if !defined(__CUDACC__)
TYPED_TEST(Epilogue, IsAskedOfTheLibrary) {
  pretended::epilogues = 0;
  this->compare_functions();
  EXPECT_EQ(pretended::epilogues > 0, !(std::is_same_v<TypeParam, double>));
}
TYPED_TEST(Epilogue, OfGeluIsPlaitsOwnWhereItIsSwitchedOff) {
  this->device = cuda_device({0, 0}, {.fused_gelu = false});
  pretended::epilogues = 0;
  this->template compare<plait::functions::gelu_tanh>(8, 16, 8, false, false);
  EXPECT_EQ(pretended::epilogues, 0);
}
TYPED_TEST(Epilogue, ThatAddsAMatrixIsRequestedUnlessSwitchedOff) {
  for (bool const fuses : {true, false}) {
    this->device = cuda_device({0, 0}, {.fused_residual = fuses});
    for (bool const adds : {false, true}) {
      pretended::added_matrices = 0;
      this->template compare<plait::ext::no_function>(16, 24, 8, adds, true);
      bool const has_row = adds && !std::is_same_v<TypeParam, double>;
      EXPECT_EQ(pretended::added_matrices, fuses && (!adds || has_row) ? 1 : 0) << adds;
    }
    this->template compare_all<plait::ext::no_function>();
  }
}
TYPED_TEST(Epilogue, WorksWhereTheLibraryRefusesWhatItOffered) {
  pretended::refuses = 1;
  this->compare_functions();
  pretended::refuses = 8;
  EXPECT_THROW(this->compare_functions(), plait::cuda_error);
  pretended::refuses = 0;
}
TYPED_TEST(Epilogue, WorksWhereTheLibraryHasNone) {
  pretended::epilogues = 0;
  pretended::knows_epilogues = false;
  this->compare_functions();
  pretended::knows_epilogues = true;
  EXPECT_EQ(pretended::epilogues, 0);
}
#endif

// Compares a product and the sums of an operand with the host's in double. Both run twice, so that
// the second run adds to existing values.
template <class T>
struct ProductAndSums : testing::Test {
  using sum = std::conditional_t<std::is_same_v<T, plait::bfloat16>, float, T>;
  cuda_device device{{0, 0}, {.fused_bias_gradient = true}};

  static std::vector<sum> made_by(cuda_device& on, std::size_t m, std::size_t n, std::size_t k,
                                  bool of_a) {
    auto const a = whole_numbers<T>(k * m, 1), b = whole_numbers<T>(k * n, 2);
    std::size_t const count = of_a ? m : n;
    on_device<T> const da(on, a), db(on, b);
    on_device<sum> const dc(on, std::vector<sum>(m * n)), dsums(on, whole_numbers<sum>(count, 3));
    auto const queue = on.on(stream::compute);
    for (bool const adds : {false, true})
      queue.run(operation::matmul{}, matrix<T const>{da.data(), k, m},
                matrix<T const>{db.data(), k, n}, matrix<sum>{dc.data(), m, n},
                plait::ext::transposes{.a = true}, adds,
                plait::ext::operand_sums<sum>{dsums.data(), of_a});
    auto out = dc.get();
    auto const sums = dsums.get();
    out.insert(out.end(), sums.begin(), sums.end());
    return out;
  }
  void compare(std::size_t m, std::size_t n, std::size_t k, bool of_a) {
    auto const a = wide(whole_numbers<T>(k * m, 1)), b = wide(whole_numbers<T>(k * n, 2));
    auto sums = wide(whole_numbers<sum>(of_a ? m : n, 3));
    std::vector<double> expected(m * n);
    for (bool const adds : {false, true})
      plait::ext::host_queue{}.run(operation::matmul{}, matrix{a.data(), k, m},
                                   matrix{b.data(), k, n}, matrix{expected.data(), m, n},
                                   plait::ext::transposes{.a = true}, adds,
                                   plait::ext::operand_sums<double>{sums.data(), of_a});
    expected.insert(expected.end(), sums.begin(), sums.end());
    auto const got = made_by(device, m, n, k, of_a);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), expected[i], 1e-6 * (1 + std::abs(expected[i])))
          << m << "x" << n << "x" << k << (of_a ? " of a" : " of b") << " at " << i;
  }
  void compare_all() {
    for (auto const& [m, n, k] : {std::array<std::size_t, 3>{1, 1, 1},
                                  {8, 16, 40},
                                  {5, 7, 3},
                                  {3, 8, 0},
                                  {0, 8, 4},
                                  {24, 300, 130}})
      for (bool const of_a : {false, true}) compare(m, n, k, of_a);
  }
};
TYPED_TEST_SUITE(ProductAndSums, epilogue_types);

TYPED_TEST(ProductAndSums, AreThoseOfTheHost) { this->compare_all(); }
TYPED_TEST(ProductAndSums, HaveTheBitsOfTwoCallsWhereTheyAreNotFused) {
  using S = typename TestFixture::sum;
  std::size_t const m = 24, n = 40, k = 130;
  cuda_device apart({0, 0});
  auto const queue = apart.on(stream::compute);
  for (bool const of_a : {false, true}) {
    auto const together = this->made_by(apart, m, n, k, of_a);
    on_device<TypeParam> const a(apart, whole_numbers<TypeParam>(k * m, 1)),
        b(apart, whole_numbers<TypeParam>(k * n, 2));
    on_device<S> const sums(apart, whole_numbers<S>(of_a ? m : n, 3));
    for (int turn = 0; turn < 2; ++turn)
      queue.accumulate_column_sums(of_a ? a.data() : b.data(), sums.data(), k, of_a ? m : n);
    auto const expected = sums.get();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), together.begin() + m * n));
  }
}
#if !defined(__CUDACC__)
TYPED_TEST(ProductAndSums, AreAskedOfTheLibraryInBfloat16) {
  bool const in_bfloat16 = std::is_same_v<TypeParam, plait::bfloat16>;
  pretended::epilogues = 0;
  this->compare(8, 16, 40, true);
  EXPECT_EQ(pretended::epilogues, in_bfloat16 ? 2 : 0);
  this->device = cuda_device({0, 0});
  this->compare(8, 16, 40, true);
  EXPECT_EQ(pretended::epilogues, in_bfloat16 ? 2 : 0);
}
TYPED_TEST(ProductAndSums, WorkWhereTheLibraryRefuses) {
  pretended::epilogues = 0;
  for (auto* const known : {&pretended::knows_epilogues, &pretended::knows_sums}) {
    *known = false;
    this->device = cuda_device({0, 0}, {.fused_bias_gradient = true});
    this->compare_all();
    *known = true;
  }
  // The workspace is too small for the sums.
  this->device = cuda_device({0, 0}, {.fused_bias_gradient = true, .workspace_bytes = 1024});
  this->compare(24, 300, 130, false);
  EXPECT_EQ(pretended::epilogues, 0);
  this->device = cuda_device({0, 0}, {.fused_bias_gradient = true});
  pretended::refuses = 2;
  this->compare_all();
  pretended::refuses = 0;
}
TYPED_TEST(ProductAndSums, AreKeptWhereProductsAreTimed) {
  this->device = cuda_device({0, 0}, {.fused_bias_gradient = true, .time_products = true});
  this->compare_all();
}
#endif

struct weighted {
  template <class T>
  PLAIT_HOST_DEVICE double operator()(T term, double weight) const {
    return static_cast<double>(term) * weight;
  }
};

// Compares each operation of the queue with the host's, so that every argument is passed on
// correctly. The kernels have their own tests.
struct QueueOperations : testing::Test {
  static constexpr std::size_t rows = 6, columns = 20, count = rows * columns;
  cuda_device device{{0, 0}};
  plait::ext::cuda_queue queue = device.on(stream::compute);
  plait::ext::host_queue host;

  static matrix<double const> read(double const* x) { return {x, rows, columns}; }
  static matrix<double> written(double* x) { return {x, rows, columns}; }
  static std::vector<double> values(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::uniform_real_distribution<double> draw(-1, 1);
    std::vector<double> out(n);
    for (double& each : out) each = draw(bits);
    return out;
  }
  // Runs work(queue, pointers of the operands...) on both devices, and checks that the operands are
  // equal afterwards.
  template <class Work, class... Vectors>
  void compare(Work work, Vectors... operands) {
    compare_copies(work, std::tuple(operands...), on_device(device, operands)...);
  }
  template <class Work, class... Vectors, class... OnDevice>
  void compare_copies(Work work, std::tuple<Vectors...> mine, OnDevice const&... theirs) {
    work(queue, theirs.data()...);
    std::apply([&](auto&... each) { work(host, each.data()...); }, mine);
    std::apply([&](auto const&... each) { (expect_equal(theirs.get(), each), ...); }, mine);
  }
  template <class T>
  static void expect_equal(std::vector<T> const& got, std::vector<T> const& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << i;
  }
};

TEST_F(QueueOperations, Elements) {
  auto const x = values(count, 1), y = values(count, 2), row = values(columns, 3);
  compare([](auto q, double* a, double* b) { q.add(a, b, b, count); }, x, y);
  compare(
      [](auto q, double const* a, double* b) {
        q.run(operation::map{}, plait::functions::gelu_tanh{}, written(b), read(a));
      },
      x, y);
  compare(
      [](auto q, double const* a, double* b) {
        q.run(operation::map{}, plait::functions::gelu_tanh_derivative{}, written(b), read(a),
              read(b));
      },
      x, y);
  compare([](auto q, double* a, float* b) { q.convert(a, b, count); }, x,
          std::vector<float>(count));
  compare([](auto q, double* a, double* b) { q.copy_blocks(a + 1, columns, b, 7, 5, 6); }, x, y);
  compare([](auto q, double* a, double* b) { q.add_row(a, b, rows, columns); }, row, x);
  compare([](auto q, double* a, double* b) { q.accumulate_column_sums(a, b, rows, columns); }, x,
          row);
  compare(
      [](auto q, double const* a, double const* b, double* c) {
        q.run(operation::accumulate_columns{}, read(a), read(b), row_of(c, columns),
              plait::functions::multiply{});
      },
      x, y, row);
  compare(  // operands: terms and weights of rows
      [](auto q, float const* a, double const* b, double* sum) {
        q.run(operation::accumulate_columns{}, matrix{a, rows, 1}, matrix{b, rows, 1}, row_of(sum),
              weighted{});
      },
      std::vector<float>(x.begin(), x.begin() + rows), y, std::vector<double>{2});
}

TEST_F(QueueOperations, Rows) {
  auto const x = values(count, 1), dy = values(count, 2), gamma = values(columns, 3),
             beta = values(columns, 4), statistics = values(2 * rows, 5);
  compare(
      [](auto q, double* a, double const* g, double const* b, double* s) {
        q.run(operation::layer_norm{}, read(a), row_of(g, columns), row_of(b, columns), written(a),
              matrix{s, rows, 2}, 1e-5);
      },
      x, gamma, beta, statistics);
  compare(
      [](auto q, double* d, double const* a, double const* s, double const* g) {
        q.run(operation::layer_norm_backward_input{}, read(d), read(a), matrix{s, rows, 2},
              row_of(g, columns), written(d));
      },
      dy, x, statistics, gamma);
  compare(
      [](auto q, double const* d, double const* a, double const* s, double* dg, double* db) {
        q.run(operation::layer_norm_backward_parameters{}, read(d), read(a), matrix{s, rows, 2},
              row_of(dg, columns), row_of(db, columns));
      },
      dy, x, statistics, gamma, beta);
  compare(
      [](auto q, double* d, double* a, double const* s, double const* g, double* dg, double* db) {
        auto const backward = [&](matrix<double const> added, matrix<double> sum) {
          q.run(operation::layer_norm_backward{}, read(d), read(a), matrix{s, rows, 2},
                row_of(g, columns), written(d), row_of(dg, columns), row_of(db, columns), added,
                sum);
        };
        backward({}, {});
        backward(read(a), written(a));
      },
      dy, x, statistics, gamma, gamma, beta);
}

TEST_F(QueueOperations, OfOnePassAreThoseOfTwo) {
  constexpr std::size_t many = 130, wide = 24;
  cuda_device apart({0, 0}, {.one_pass_cross_entropy = false, .one_pass_layer_norm = false});
  auto const floats = [](std::size_t n, unsigned seed) {
    auto const drawn = values(n, seed);
    return std::vector<float>(drawn.begin(), drawn.end());
  };
  std::vector<std::int32_t> labels(many);
  for (std::size_t r = 0; r < many; ++r) labels[r] = static_cast<std::int32_t>(r % wide);
  auto const results = [&](cuda_device& on) {
    auto const q = on.on(stream::compute);
    on_device<float> const x(on, floats(many * wide, 1)), dy(on, floats(many * wide, 2)),
        gamma(on, floats(wide, 3)), statistics(on, floats(2 * many, 4)),
        added(on, floats(many * wide, 7)), dgamma(on, floats(wide, 5)), dbeta(on, floats(wide, 6)),
        max(on, floats(many, 0)), terms(on, floats(2 * many, 0));
    on_device<std::int32_t> const of_rows(on, labels);
    using in = matrix<float const>;
    q.run(operation::layer_norm_backward{}, in{dy.data(), many, wide}, in{x.data(), many, wide},
          in{statistics.data(), many, 2}, in{gamma.data(), 1, wide}, matrix{dy.data(), many, wide},
          row_of(dgamma.data(), wide), row_of(dbeta.data(), wide), in{added.data(), many, wide},
          matrix{added.data(), many, wide});
    q.run(operation::cross_entropy_statistics{}, in{x.data(), many, wide - 1, wide},
          matrix<std::int32_t const>{of_rows.data(), many, 1}, matrix{max.data(), many, 1},
          matrix{terms.data(), many, 2}, plait::ext::one_hot_target{});
    std::vector<float> all;
    for (auto const* const each : {&added, &dgamma, &dbeta, &max, &terms}) {
      auto const got = each->get();
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  };
  auto const once = results(device), twice = results(apart);
  ASSERT_EQ(once.size(), twice.size());
  for (std::size_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(once[i], twice[i], 1e-6 * std::max(1.0f, std::abs(twice[i]))) << i;
#if !defined(__CUDACC__)
  std::size_t const gradients = many * wide + 2 * wide;  // for other sizes code may be contracted
  ASSERT_TRUE(std::equal(once.begin(), once.begin() + gradients, twice.begin()));
#endif
}

TEST_F(QueueOperations, Attention) {
  constexpr std::size_t sequence = 9, batch = 2, heads = 3, width = 8;
  constexpr std::size_t positions = sequence * batch, all = positions * heads * width;
  plait::ext::equal_heads const shape{sequence, batch, heads, width};
  auto const qkv = values(3 * all, 1), out = values(all, 2), dout = values(all, 3),
             log_sum = values(positions * heads, 4);
  compare(
      [&](auto q, double const* a, double* o, double* l, double const* d, double* da) {
        matrix const in{a, positions, 3 * heads * width}, of_out{d, positions, heads * width};
        q.run(operation::attention_side_by_side{}, in, matrix{o, positions, heads * width},
              matrix{l, positions, heads}, shape);
        q.run(operation::attention_side_by_side_backward{}, in,
              matrix<double const>{o, positions, heads * width},
              matrix<double const>{l, positions, heads}, of_out,
              matrix{da, positions, 3 * heads * width}, shape);
      },
      qkv, out, log_sum, dout, values(3 * all, 5));
}

TEST_F(QueueOperations, LookUpAndLoss) {
  std::vector<std::int32_t> const ids{3, 0, 5, 3, 9, 2};
  auto const table = values(8 * columns, 1), x = values(count, 2);
  compare(
      [](auto q, std::int32_t const* i, double* t, double* y) {
        matrix const of_rows{i, rows, 1};
        q.run(operation::gather_rows{}, of_rows, matrix<double const>{t, 7, columns}, written(y),
              std::size_t{1});
        q.run(operation::scatter_add_rows{}, of_rows, read(y), matrix{t, 7, columns},
              std::size_t{1});
      },
      ids, table, x);
  compare(
      [](auto q, double* a, double* t) {
        double* const from = t + columns;
        q.run(operation::add_positions{}, read(a), matrix<double const>{from, 3, columns},
              written(a), std::size_t{2});
        q.run(operation::accumulate_positions{}, read(a), matrix{from, 3, columns}, std::size_t{2});
      },
      x, table);
  std::vector<std::int32_t> const labels{3, -1, 17, 7, 0, 11};
  auto const compare_loss = [&](auto target, bool weighted) {
    compare(
        [=](auto q, double* a, std::int32_t const* l, double* max, double* terms,
            double const* scale, double const* weights, double* loss) {
          using in = matrix<double const>;
          in const logits{a, rows, columns - 2, columns}, of_max{max, rows, 1},
              of_terms{terms, rows, target.terms},
              by_row = row_of(weighted ? weights : nullptr, rows);
          matrix const of_labels{l, rows, 1};
          matrix const to_max{max, rows, 1}, to_terms{terms, rows, target.terms};
          q.run(operation::cross_entropy_statistics{}, logits, of_labels, to_max, to_terms, target);
          q.run(operation::row_max{}, logits, to_max);
          q.run(operation::cross_entropy_terms{}, logits, of_labels, of_max, to_terms, target,
                std::size_t{0});
          q.run(operation::cross_entropy_sum{}, of_terms, of_labels, row_of(scale), by_row,
                row_of(loss), target, -1);
          q.run(operation::cross_entropy_backward{}, logits, of_labels, of_max, of_terms,
                row_of(scale), by_row, matrix{a, rows, columns - 2, columns}, target, -1,
                std::size_t{0});
        },
        x, labels, values(rows, 3), values(target.terms * rows, 4), std::vector<double>{0.25},
        values(rows, 5), std::vector<double>{2});
  };
  for (bool const weighted : {false, true}) {
    compare_loss(plait::ext::one_hot_target{}, weighted);
    compare_loss(plait::ext::smoothed_target{.on_label = 0.7, .on_each = 0.3 / 35}, weighted);
  }
}

// Looks up more positions than one block sorts. In float, another order of additions would give
// other bits.
TEST_F(QueueOperations, LookUpOfManyPositions) {
  constexpr std::size_t positions = 20000, table_rows = 300, width = 2;
  std::mt19937 bits(1);
  std::vector<std::int32_t> ids(positions);
  for (auto& id : ids) id = static_cast<std::int32_t>(bits() % (table_rows + 50));
  auto const dy = values(positions * width, 2);
  compare(
      [](auto q, std::int32_t const* i, float const* y, float* t) {
        q.run(operation::scatter_add_rows{}, matrix{i, positions, 1}, matrix{y, positions, width},
              matrix{t, table_rows, width}, std::size_t{25});
      },
      ids, std::vector<float>(dy.begin(), dy.end()), std::vector<float>(table_rows * width));
}

TEST_F(QueueOperations, Dropout) {
  std::vector<std::uint32_t> const step{5};
  compare(
      [](auto q, double* a, std::uint32_t* at) {
        q.run(operation::dropout{}, read(a), written(a), plait::ext::dropout_key{9, 4, at}, 0.3,
              plait::ext::dropout_block{.batch_local = 2,
                                        .first_position = 1,
                                        .first_sample = 2,
                                        .first_column = 0,
                                        .sequence_global = 8,
                                        .width_global = columns});
      },
      values(count, 1), step);
}

TEST_F(QueueOperations, Optimizers) {
  std::vector<plait::ext::update_range> const ranges{{0, 50, 1, 1}, {50, count - 50, 0.5f, 0}};
  std::vector<double> const scale{0.5};
  auto states = values(2 * count, 3);
  for (double& each : states) each = std::abs(each);
  auto const arena = [](double* p, double* g, double* s, plait::ext::update_range const* r,
                        double* by) {
    return plait::ext::optimizer_arena<double>{p, g, s, nullptr, count, count, r, 2, by};
  };
  // The ranges are copied along but not compared: they do not change.
  on_device<plait::ext::update_range> const on_gpu(device, ranges);
  auto const ranges_of = [&](auto q) -> plait::ext::update_range const* {
    return std::is_same_v<decltype(q), plait::ext::host_queue> ? ranges.data() : on_gpu.data();
  };
  std::vector<plait::ext::adamw_numbers> const now{{0.1, 0.2, 0.3}};
  on_device<plait::ext::adamw_numbers> const now_on_gpu(device, now);
  compare(
      [&](auto q, double* p, double* g, double* s, double* by) {
        bool const host_side = std::is_same_v<decltype(q), plait::ext::host_queue>;
        q.adamw(arena(p, g, s, ranges_of(q), by), plait::ext::adamw_constants{},
                host_side ? now.data() : now_on_gpu.data());
      },
      values(count, 1), values(count, 2), states, scale);
  std::vector<plait::ext::sgd_numbers> const rate{{0.1}};
  on_device<plait::ext::sgd_numbers> const rate_on_gpu(device, rate);
  compare(
      [&](auto q, double* p, double* g, double* s, double* by) {
        bool const host_side = std::is_same_v<decltype(q), plait::ext::host_queue>;
        q.sgd(arena(p, g, s, ranges_of(q), by), plait::ext::sgd_constants{0.9, 0.1},
              host_side ? rate.data() : rate_on_gpu.data());
      },
      values(count, 1), values(count, 2), states, scale);
}

TEST_F(QueueOperations, AveragesAndSwap) {
  compare(
      [](auto q, double* x, double* average, double* by) {
        q.average(static_cast<double const*>(x), average, count, 0.9, by);
        q.swap(x, average, count);
        q.add_and_clear(average, x, count);
      },
      values(count, 1), values(count, 2), values(1, 3));
}

TEST_F(QueueOperations, NormAndClip) {
  std::vector<plait::ext::squares_range> const ranges{{0, 50, 1}, {60, 60, 0}};
  on_device<plait::ext::squares_range> const on_gpu(device, ranges);
  compare(
      [&](auto q, double* x, double* squares, double* norm, double* factor, double* inverse) {
        bool const host_side = std::is_same_v<decltype(q), plait::ext::host_queue>;
        q.sums_of_squares(x, host_side ? ranges.data() : on_gpu.data(), 2, squares);
        q.clip(squares, std::size_t{2}, 0.7, norm, factor);
        q.divide(1.0, norm, inverse);
      },
      values(count, 1), values(2, 2), values(1, 3), values(1, 4), values(1, 5));
}

// A layer's own operation launches on the queue's stream.
__global__ void negate_kernel(double* x, std::size_t n) {
  plait::cuda_kernels::for_each_pack<1>({0, n}, [&](std::size_t i) { x[i] = -x[i]; });
}
struct negate {
  void operator()(plait::ext::cuda_queue const& queue,
                  plait::view<double, plait::invariant, plait::ext::cuda_memory> x) const {
    queue.launcher()(negate_kernel, plait::cuda_kernels::launch_shape{1, 64}, x.data, x.count());
  }
};

TEST_F(QueueOperations, OfALayersOwn) {
  on_device<double> const x(device, {1, -2, 3});
  queue.run(negate{},
            plait::view<double, plait::invariant, plait::ext::cuda_memory>{x.data(), 1, 3});
  EXPECT_EQ(x.get(), (std::vector<double>{-1, 2, -3}));
}

#if !defined(__CUDACC__)
// Pretended devices refuse the calls that a device refuses.

TEST(PretendedDevice, CallsThatACaptureForbidsEndIt) {
  cuda_device device({0, 0});
  auto const s = device.on(stream::compute).stream();
  auto const status_after = [&](cudaStreamCaptureMode mode, auto call) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(s, mode), cudaSuccess);
    call();
    auto const status = cudaStreamEndCapture(s, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    return status;
  };
  void *taken = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, 16), cudaSuccess);
  auto const take = [&] {
    void* more = nullptr;
    return cudaMalloc(&more, 16) == cudaSuccess ? cudaFree(more) : cudaErrorUnknown;
  };
  auto const elsewhere = [](auto call) {
    return [call] { std::thread([call] { (void)call(); }).join(); };
  };
  auto constexpr by_thread = cudaStreamCaptureModeThreadLocal;
  auto constexpr ended = cudaErrorStreamCaptureInvalidated;
  EXPECT_EQ(status_after(by_thread, [] {}), cudaSuccess);
  EXPECT_EQ(status_after(by_thread, [&] { (void)take(); }), ended) << "cudaMalloc";
  EXPECT_EQ(status_after(by_thread, [&] { (void)cudaFree(taken); }), ended) << "cudaFree";
  EXPECT_EQ(status_after(by_thread, [&] { (void)cudaHostAlloc(&pinned, 16, 0); }), ended)
      << "cudaHostAlloc";
  EXPECT_EQ(status_after(by_thread, [&] { (void)cudaStreamQuery(s); }), ended) << "cudaStreamQuery";
  EXPECT_EQ(status_after(by_thread, elsewhere(take)), cudaSuccess);
  EXPECT_EQ(status_after(cudaStreamCaptureModeGlobal, elsewhere(take)), ended);
  EXPECT_EQ(status_after(cudaStreamCaptureModeRelaxed, [&] { (void)take(); }), cudaSuccess);
  EXPECT_EQ(cudaFree(taken), cudaSuccess) << "the capture has refused to free it";
}

TEST(PretendedDevice, PointersOfKernelsAreToMemoryThatADeviceSees) {
  cuda_device device({0, 0});
  on_device<double> const x(device, {1});
  double host = 1;
  auto const launch = [&](double* data) {
    device.on(stream::compute)
        .launcher()(negate_kernel, plait::cuda_kernels::launch_shape{1, 32}, data, std::size_t{1});
    device.synchronize();
  };
  expect_text(message_of<std::logic_error>([&] { launch(&host); }),
              "argument 1 of a kernel points to memory of the host that is not pinned");
  EXPECT_EQ(host, 1);
  launch(x.data());
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, sizeof(double), cudaHostAllocPortable), cudaSuccess);
  auto* const number = new (pinned) double(3);
  launch(number);
  EXPECT_EQ(*number, -3);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(PretendedDeviceDeathTest, TheHostCannotTouchItsMemory) {
  cuda_device device({0, 0});
  on_device<double> const x(device, {1, 2});
  EXPECT_DEATH(*x.data() = 3, "the host reads or writes memory of a device");
  EXPECT_DEATH(std::exit(*x.data() > 0 ? 0 : 1), "the host reads or writes memory of a device");
  device.on(stream::compute)
      .launcher()(negate_kernel, plait::cuda_kernels::launch_shape{1, 32}, x.data(),
                  std::size_t{2});
  EXPECT_EQ(x.get(), (std::vector<double>{-1, -2}));
}

TEST(PretendedDevice, ProductsKeepToTheAlignmentThatTheirAlgorithmWasOfferedFor) {
  cuda_device device({0, 0});
  auto const s = device.on(stream::compute).stream();
  on_device<float> const values(device, std::vector<float>(64, 1)), room(device, {0, 0, 0, 0});
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t square = nullptr;
  cublasLtMatmulPreference_t preferred = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&square, CUDA_R_32F, 2, 2, 2), CUBLAS_STATUS_SUCCESS);
  auto const run = [&](std::uint32_t alignment_of_a, std::uint64_t workspace, std::size_t from) {
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preferred), CUBLAS_STATUS_SUCCESS);
    for (auto const which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      std::uint32_t const bytes =
          which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ? alignment_of_a : 16;
      EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preferred, which, &bytes, sizeof bytes),
                CUBLAS_STATUS_SUCCESS);
    }
    EXPECT_EQ(
        cublasLtMatmulPreferenceSetAttribute(preferred, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace),
        CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t offer{};
    int found = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, product, square, square, square, square,
                                             preferred, 1, &offer, &found),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preferred), CUBLAS_STATUS_SUCCESS);
    float const one = 1, zero = 0;
    auto const code = cublasLtMatmul(handle, product, &one, values.data() + from, square,
                                     values.data() + 8, square, &zero, room.data(), square,
                                     room.data(), square, &offer.algo, nullptr, 0, s);
    device.synchronize();
    return code;
  };
  EXPECT_EQ(run(16, 0, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(4, 0, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(16, 0, 1), CUBLAS_STATUS_INVALID_VALUE) << "an address of 4 bytes";
  EXPECT_EQ(run(16, 1024, 4), CUBLAS_STATUS_INVALID_VALUE) << "a workspace that is not given";
  (void)cublasLtMatrixLayoutDestroy(square);
  (void)cublasLtMatmulDescDestroy(product);
  (void)cublasLtDestroy(handle);
}

void first_kernel() {}

TEST(PretendedDevice, SharedMemoryAbove48KiBHasToBeAskedFor) {
  cuda_device device({0, 0});
  auto const* const kernel = reinterpret_cast<void const*>(&first_kernel);
  auto const launch = [&](std::size_t bytes) {
    (void)plait::detail::launch_pretended(kernel, {}, {}, {1, 32, bytes},
                                          device.on(stream::compute).stream(), first_kernel);
    device.synchronize();
  };
  EXPECT_NO_THROW(launch(48 << 10));
  expect_text(message_of<std::logic_error>([&] { launch((48 << 10) + 1); }),
              "a kernel is launched with 49153 bytes of shared memory");
  auto const ask = [&](int bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(ask(64 << 10), cudaSuccess);
  EXPECT_NO_THROW(launch(64 << 10));
  EXPECT_THROW(launch((64 << 10) + 1), std::logic_error);
  EXPECT_EQ(ask((227 << 10) + 1), cudaErrorInvalidValue);
}
#endif

}  // namespace
