// SPDX-License-Identifier: Apache-2.0
#pragma once

// A CUDA device that is not there: the functions of the CUDA runtime and of cuBLASLt that plait
// calls, on the processor. Included before everything else by the one file of a program that is
// compiled as C++ and not linked to CUDA.
//
// What is put into a stream stays there until somebody asks whether it is over; then heads of
// streams are carried out in a random order that keeps to the events. So a missing wait, or host
// memory that is used again too early, shows. New memory is filled with NaNs; copies are checked to
// stay within what was allocated.
#include "backend/cuda/kernel_emulation.hpp"  // before the CUDA headers

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "plait/tensor/functions.hpp"

namespace pretended {

constexpr int devices = 8;
constexpr std::size_t device_bytes = std::size_t{4} << 30;

// Carried out when ready() at the head of a stream.
struct item {
  std::function<bool()> ready;
  std::function<void()> work;
};

// One operation of a graph: what makes its item at each launch, and the operations before it.
struct node {
  std::function<item()> make;
  std::vector<std::size_t> after;
};
struct capture_state {
  std::vector<node> nodes;
  bool ended = false;
};

struct event_state {
  std::uint64_t recorded = 0, done = 0;
  std::shared_ptr<capture_state> capture;
  CUstream_st* captured_from = nullptr;
  std::size_t captured_work = 0;
  std::vector<std::size_t> last;  // operations that it stands for
};

struct machine {
  std::recursive_mutex mutex;
  std::vector<CUstream_st*> streams;
  std::map<std::byte const*, std::size_t> device_memory, pinned_memory;
  std::map<std::byte const*, int> device_of;
  std::size_t used = 0;
  std::mt19937 random{std::random_device{}()};
  unsigned devices_set = 0;  // a bit for each that was made current: it has a context then
  bool failed = false;

  static machine& get() {
    static machine one;
    return one;
  }
  static bool is_within(std::map<std::byte const*, std::size_t> const& all, void const* data,
                        std::size_t bytes) {
    auto const* const first = static_cast<std::byte const*>(data);
    auto const after = all.upper_bound(first);
    if (after == all.begin()) return bytes == 0;
    auto const& [begin, size] = *std::prev(after);
    return first + bytes <= begin + size;
  }
  void carry_out(item const& now) try {
    if (now.work) now.work();
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    failed = true;
  }
  bool step();  // whether something was carried out
  void steps(unsigned most) {
    for (auto i = random() % most + 1; i > 0 && step(); --i) {
    }
  }
  void drain(int device);
};

using lock = std::scoped_lock<std::recursive_mutex>;
inline thread_local int current_device = 0;

}  // namespace pretended

struct CUevent_st {
  std::shared_ptr<pretended::event_state> state = std::make_shared<pretended::event_state>();
};
struct CUgraph_st {
  std::vector<pretended::node> nodes;
};
struct CUgraphExec_st {
  std::vector<pretended::node> nodes;
};
struct CUstream_st {
  int device = 0;
  std::deque<pretended::item> items{};
  std::shared_ptr<pretended::capture_state> capture{};
  // While it is captured: its operations, how many are waited for, and those before its next one.
  std::size_t captured_work = 0, joined_work = 0;
  std::vector<std::size_t> last{};
};

namespace pretended {

inline bool machine::step() {
  std::size_t const count = streams.size(), first = count == 0 ? 0 : random() % count;
  for (std::size_t i = 0; i < count; ++i) {
    auto& items = streams[(first + i) % count]->items;
    if (items.empty() || (items.front().ready && !items.front().ready())) continue;
    auto const now = std::move(items.front());
    items.pop_front();
    return carry_out(now), true;
  }
  return false;
}

// What a call does that waits for a whole device.
inline void machine::drain(int device) {
  for (;;) {
    {
      lock const hold(mutex);
      while (step()) {
      }
      bool empty = true;
      for (auto const* stream : streams)
        empty = empty && (stream->device != device || stream->items.empty());
      if (empty) return;
    }
    std::this_thread::yield();
  }
}

inline cudaError_t enqueue_made(cudaStream_t stream, std::function<item()> make) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;  // the program's, not ours
  if (stream->capture != nullptr) {
    auto& nodes = stream->capture->nodes;
    nodes.push_back({std::move(make), std::exchange(stream->last, {nodes.size()})});
    ++stream->captured_work;
  } else {
    stream->items.push_back(make());
  }
  return cudaSuccess;
}
inline cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return enqueue_made(stream, [work = std::move(work)] { return item{nullptr, work}; });
}

// A launch of a graph: its operations in a random order that keeps to what was captured.
class launched_graph {
 public:
  explicit launched_graph(std::vector<node> const& nodes) : nodes_(nodes), done_(nodes.size()) {
    for (auto const& each : nodes_) items_.push_back(each.make());
  }
  bool is_over() {  // after some more steps
    auto const is_done = [this](std::size_t at) { return done_[at] != 0; };
    std::size_t const count = nodes_.size(), first = machine::get().random();
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t const at = (first + i) % count;
      if (is_done(at) || !std::ranges::all_of(nodes_[at].after, is_done)) continue;
      if (items_[at].ready && !items_[at].ready()) continue;
      machine::get().carry_out(items_[at]);
      done_[at] = 1;
    }
    return std::ranges::count(done_, 0) == 0;
  }

 private:
  std::vector<node> nodes_;
  std::vector<item> items_;
  std::vector<char> done_;
};

}  // namespace pretended

namespace plait::detail {
cudaError_t launch_pretended(cuda_kernels::launch_shape shape, cudaStream_t stream,
                             std::function<void()> thread);
cudaError_t launch_pretended(cuda_kernels::launch_shape shape, cudaStream_t stream,
                             std::function<void()> thread) {
  pretended::lock const hold(pretended::machine::get().mutex);
  if (stream->device != pretended::current_device) return cudaErrorInvalidResourceHandle;
  return pretended::enqueue(stream, [shape, thread = std::move(thread)] {
    using body = std::function<void()> const*;
    kernel_emulation::launcher{}(+[](body run) { (*run)(); }, shape, static_cast<body>(&thread));
  });
}
}  // namespace plait::detail

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = pretended::devices, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = pretended::current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= pretended::devices) return cudaErrorInvalidDevice;
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  all.devices_set |= 1u << device;
  return pretended::current_device = device, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int) {
  *about = {};
  about->major = 9;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t) { return "a pretended error"; }
char const* cudaGetErrorName(cudaError_t code) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "error %d", static_cast<int>(code));
  return name;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  if (all.used + bytes > pretended::device_bytes) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xFF, bytes);
  all.device_memory[static_cast<std::byte*>(*data)] = bytes;
  all.device_of[static_cast<std::byte*>(*data)] = pretended::current_device;
  all.used += bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  if (stream->device != pretended::current_device) return cudaErrorInvalidResourceHandle;
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  auto& all = pretended::machine::get();
  int device = 0;
  {
    pretended::lock const hold(all.mutex);
    device = all.device_of.at(static_cast<std::byte*>(data));
  }
  all.drain(device);
  pretended::lock const hold(all.mutex);
  auto const found = all.device_memory.find(static_cast<std::byte*>(data));
  if (found == all.device_memory.end()) std::abort();
  all.used -= found->second;
  all.device_memory.erase(found);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, void const* data) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  *about = {};
  about->device = all.device_of.at(static_cast<std::byte const*>(data));
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  *free = pretended::device_bytes - all.used;
  *total = pretended::device_bytes;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  *data = std::malloc(bytes);
  all.pinned_memory[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  all.pinned_memory.erase(static_cast<std::byte*>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  bool const from_host = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
  if (!all.is_within(from_host ? all.pinned_memory : all.device_memory, from, bytes) ||
      !all.is_within(to_host ? all.pinned_memory : all.device_memory, to, bytes))
    return cudaErrorInvalidValue;
  return pretended::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  return pretended::enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  all.streams.push_back(*stream = new CUstream_st{pretended::current_device});
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  std::erase(all.streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  all.steps(16);
  if (all.failed) return cudaErrorLaunchFailure;
  return stream->items.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const state = event->state;
  state->capture = stream->capture;
  if (stream->capture != nullptr) {
    state->captured_from = stream;
    state->captured_work = stream->captured_work;
    state->last = stream->last;
    return cudaSuccess;
  }
  return pretended::enqueue(
      stream, [state, number = ++state->recorded] { state->done = std::max(state->done, number); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  if (event->state->capture != nullptr) return cudaErrorCapturedEvent;
  all.steps(16);
  if (all.failed) return cudaErrorLaunchFailure;
  return event->state->done >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const state = event->state;
  if (state->capture != nullptr) {
    if (state->capture->ended) return cudaErrorCapturedEvent;
    if (stream->capture == nullptr) {  // it takes part from here on
      stream->capture = state->capture;
      stream->captured_work = 1;
      stream->joined_work = 0;
      stream->last = {};
    }
    if (stream->capture != state->capture) return cudaErrorStreamCaptureMerge;
    state->captured_from->joined_work = state->captured_work;
    stream->last.insert(stream->last.end(), state->last.begin(), state->last.end());
    return cudaSuccess;
  }
  if (state->recorded == 0) return cudaSuccess;
  if (stream->capture != nullptr) return cudaErrorStreamCaptureIsolation;
  return pretended::enqueue_made(stream, [state] {
    return pretended::item{[state, number = state->recorded] { return state->done >= number; }, {}};
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  pretended::lock const hold(pretended::machine::get().mutex);
  stream->captured_work = stream->joined_work = 0;
  stream->last = {};
  return stream->capture = std::make_shared<pretended::capture_state>(), cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  auto const of = stream->capture;
  *graph = new CUgraph_st{std::move(of->nodes)};
  of->ended = true;
  bool all_joined = true;
  for (auto* each : all.streams) {
    if (each->capture != of) continue;
    each->capture = nullptr;
    all_joined = all_joined && (each == stream || each->joined_work == each->captured_work);
  }
  return all_joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return *executable = new CUgraphExec_st{graph->nodes}, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const launched = std::make_shared<pretended::launched_graph>(executable->nodes);
  return pretended::enqueue_made(stream, [launched] {
    return pretended::item{[launched] { return launched->is_over(); }, {}};
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }

}  // extern "C"

// ---- cuBLASLt -----------------------------------------------------------------------------------

namespace pretended {

struct product_description {
  std::int32_t transposed[2] = {0, 0};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void const* row = nullptr;
  void* before = nullptr;
  std::int64_t before_stride = 0;
};
/// What the library was asked for since the start, and whether it knows epilogues at all.
inline std::atomic<int> epilogues = 0;
inline std::atomic<bool> knows_epilogues = true;
/// How many of the algorithms that it offers it refuses to run.
inline std::atomic<int> refuses = 0;
constexpr int offers = 3;

struct matrix_layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};
template <class To, class Opaque>
To& inside(Opaque* opaque) {
  static_assert(sizeof(To) <= sizeof(opaque->data));
  return *reinterpret_cast<To*>(opaque->data);
}

inline double element(matrix_layout const& of, void const* data, std::size_t row,
                      std::size_t column) {
  auto const at = row + column * static_cast<std::size_t>(of.stride);
  if (of.type == CUDA_R_64F) return static_cast<double const*>(data)[at];
  if (of.type == CUDA_R_32F) return static_cast<double>(static_cast<float const*>(data)[at]);
  return static_cast<double>(static_cast<float>(static_cast<plait::bfloat16 const*>(data)[at]));
}
inline void set_element(matrix_layout const& of, void* data, std::size_t row, std::size_t column,
                        double value) {
  auto const at = row + column * static_cast<std::size_t>(of.stride);
  if (of.type == CUDA_R_64F) static_cast<double*>(data)[at] = value;
  else if (of.type == CUDA_R_32F) static_cast<float*>(data)[at] = static_cast<float>(value);
  else static_cast<plait::bfloat16*>(data)[at] = static_cast<plait::bfloat16>(value);
}

// The values of one element from the product to the result, as the library does it.
inline double apply_epilogue(product_description const& about, matrix_layout const& of,
                             std::size_t row, std::size_t column, double value) {
  auto before = of;
  before.stride = about.before_stride;
  if (about.row != nullptr) value += element(of, about.row, row, 0);
  switch (about.epilogue) {
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      set_element(before, about.before, row, column, value);
      return plait::functions::gelu_tanh{}(value);
    case CUBLASLT_EPILOGUE_DGELU:
      return plait::functions::gelu_tanh_derivative{}(element(before, about.before, row, column),
                                                      value);
    default: return value;
  }
}

}  // namespace pretended

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return *handle = reinterpret_cast<cublasLtHandle_t>(new int), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return delete reinterpret_cast<int*>(handle), CUBLAS_STATUS_SUCCESS;
}
char const* cublasLtGetStatusString(cublasStatus_t) { return "a pretended status"; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t,
                                        cudaDataType_t) {
  return *out = new cublasLtMatmulDescOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t what,
                                              cublasLtMatmulDescAttributes_t which,
                                              void const* value, std::size_t bytes) {
  auto* const about = &pretended::inside<pretended::product_description>(what);
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: std::memcpy(&about->transposed[0], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: std::memcpy(&about->transposed[1], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: std::memcpy(&about->epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: std::memcpy(&about->row, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      std::memcpy(&about->before, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      std::memcpy(&about->before_stride, value, bytes);
      break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *out = new cublasLtMatrixLayoutOpaque_t{};
  pretended::inside<pretended::matrix_layout>(*out) = {type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return *out = new cublasLtMatmulPreferenceOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t what) {
  return delete what, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    void const*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  auto const& about = pretended::inside<pretended::product_description>(what);
  bool const plain = about.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  *found = plain || pretended::knows_epilogues ? std::min(most, pretended::offers) : 0;
  for (int i = 0; i < *found; ++i) results[i].algo.data[0] = static_cast<std::uint64_t>(i);
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t what, void const* alpha,
                              void const* a, cublasLtMatrixLayout_t of_a, void const* b,
                              cublasLtMatrixLayout_t of_b, void const* beta, void const* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t of_d,
                              cublasLtMatmulAlgo_t const* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  using namespace pretended;
  if (algorithm->data[0] < static_cast<std::uint64_t>(refuses.load()))
    return CUBLAS_STATUS_INTERNAL_ERROR;
  auto const about = inside<product_description>(what);
  auto const la = inside<matrix_layout>(of_a), lb = inside<matrix_layout>(of_b),
             ld = inside<matrix_layout>(of_d);
  bool const wide = la.type == CUDA_R_64F;
  auto const scalar = [wide](void const* at) {
    return wide ? *static_cast<double const*>(at)
                : static_cast<double>(*static_cast<float const*>(at));
  };
  double const by = scalar(alpha), add = scalar(beta);
  std::size_t const m = about.transposed[0] ? la.columns : la.rows,
                    k = about.transposed[0] ? la.rows : la.columns,
                    n = about.transposed[1] ? lb.rows : lb.columns,
                    kb = about.transposed[1] ? lb.columns : lb.rows;
  if (m != ld.rows || n != ld.columns || k != kb) return CUBLAS_STATUS_INVALID_VALUE;
  bool const gelu = about.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
                    about.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if ((about.row != nullptr && reinterpret_cast<std::uintptr_t>(about.row) % 16 != 0) ||
      (gelu && about.before == d))
    return CUBLAS_STATUS_EXECUTION_FAILED;  // a device would read or write something else
  epilogues += about.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  lock const hold(machine::get().mutex);
  auto const code = enqueue(stream, [=] {
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p)
          sum += (about.transposed[0] ? element(la, a, p, i) : element(la, a, i, p)) *
                 (about.transposed[1] ? element(lb, b, j, p) : element(lb, b, p, j));
        double const value = by * sum + (add == 0 ? 0.0 : add * element(ld, c, i, j));
        set_element(ld, d, i, j, apply_epilogue(about, ld, i, j, value));
      }
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
