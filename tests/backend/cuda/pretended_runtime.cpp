// SPDX-License-Identifier: Apache-2.0
// Implements the CUDA runtime for pretended devices.
#include "backend/cuda/pretended_device.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "plait/backend/cuda/kernels/launch.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes)
#endif

namespace pretended {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;  // a multiple of the page size
// Address space for all devices, and for gaps between allocated and released memory.
constexpr std::size_t room_bytes = 2 * device_bytes;

std::size_t whole_chunks(std::size_t bytes) {
  return (std::max(bytes, std::size_t{1}) + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
}
void protect(std::byte* data, std::size_t bytes, int access) {
  if (mprotect(data, bytes, access) != 0) std::abort();
}

}  // namespace

device_pages::device_pages() {
  void* const room =
      mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) std::abort();
  begin_ = static_cast<std::byte*>(room);
  all_ = this;
  struct sigaction action{};
  action.sa_sigaction = find_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before_);
}
std::byte* device_pages::take(std::size_t bytes) {
  std::size_t const whole = whole_chunks(bytes);
  auto const found =
      std::ranges::find_if(free_, [whole](auto const& each) { return each.second >= whole; });
  std::size_t at = used_;
  if (found != free_.end()) {
    at = found->first;
    std::size_t const left = found->second - whole;
    free_.erase(found);
    if (left > 0) free_[at + whole] = left;
  } else {
    if (whole > room_bytes - used_) return nullptr;
    used_ += whole;
  }
  ASAN_UNPOISON_MEMORY_REGION(begin_ + at, bytes);
  ASAN_POISON_MEMORY_REGION(begin_ + at + bytes, whole - bytes);
  protect(begin_ + at, whole, PROT_READ | PROT_WRITE);
  std::memset(begin_ + at, 0xFF, bytes);
  protect(begin_ + at, whole, PROT_NONE);
  return begin_ + at;
}
void device_pages::give_back(std::byte* data, std::size_t bytes) {
  std::size_t const whole = whole_chunks(bytes);
  ASAN_POISON_MEMORY_REGION(data, whole);
  auto at = free_.emplace(static_cast<std::size_t>(data - begin_), whole).first;
  if (auto const next = std::next(at);
      next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  if (auto const before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
}
void device_pages::begin_work() { works_ = true; }
void device_pages::end_work() {
  for (auto* const chunk : std::exchange(opened_, {})) protect(chunk, chunk_bytes, PROT_NONE);
  works_ = false;
}
void device_pages::open_chunk_of(std::byte const* place) {
  auto* const chunk = begin_ + static_cast<std::size_t>(place - begin_) / chunk_bytes * chunk_bytes;
  protect(chunk, chunk_bytes, PROT_READ | PROT_WRITE);
  opened_.push_back(chunk);
}
void device_pages::find_fault(int, siginfo_t* about, void*) {
  auto const* const place = static_cast<std::byte const*>(about->si_addr);
  bool const is_of_a_device = place >= all_->begin_ && place < all_->begin_ + room_bytes;
  if (is_of_a_device && works_ && place < all_->begin_ + all_->used_)
    return all_->open_chunk_of(place);
  if (is_of_a_device) {
    constexpr char text[] =
        "pretended device: the host reads or writes memory of a device, which only kernels and "
        "copies may do\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
  }
  sigaction(SIGSEGV, &all_->before_, nullptr);  // the repeated access ends the program
}

// A launch of a graph. Its operations run in a random order that respects the captured
// dependencies.
class launched_graph {
 public:
  explicit launched_graph(std::vector<node> const& nodes) : nodes_(nodes), done_(nodes.size()) {
    for (auto const& each : nodes_) items_.push_back(each.make());
  }
  bool is_over() {  // runs some more operations first
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
// It is declared where it is called (cuda_launcher.hpp).
cudaError_t launch_pretended(void const* kernel, std::initializer_list<std::size_t> numbers,
                             std::initializer_list<void const*> pointers,
                             cuda_kernels::launch_shape shape, cudaStream_t stream,
                             std::function<void()> thread);
cudaError_t launch_pretended(void const* kernel, std::initializer_list<std::size_t> numbers,
                             std::initializer_list<void const*> pointers,
                             cuda_kernels::launch_shape shape, cudaStream_t stream,
                             std::function<void()> thread) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  std::size_t argument = 0;
  for (void const* const each : pointers) {
    ++argument;
    if (each != nullptr && !all.is_seen_by_kernels(each))
      throw std::logic_error("pretended device: argument " + std::to_string(argument) +
                             " of a kernel points to memory of the host that is not pinned");
  }
  if (shape.shared_bytes > pretended::shared_bytes_at_first) {
    auto const found = all.shared_bytes_allowed.find(kernel);
    if (found == all.shared_bytes_allowed.end() ||
        shape.shared_bytes > static_cast<std::size_t>(found->second))
      throw std::logic_error("pretended device: a kernel is launched with " +
                             std::to_string(shape.shared_bytes) +
                             " bytes of shared memory; cudaFuncSetAttribute has not allowed more "
                             "than 48 KiB, or fewer bytes");
  }
  if (stream->device != pretended::current_device) return cudaErrorInvalidResourceHandle;
  return pretended::enqueue(stream, {kernel, nullptr, numbers},
                            [shape, thread = std::move(thread)] {
                              using body = std::function<void()> const*;
                              kernel_emulation::launcher{}(
                                  +[](body run) { (*run)(); }, shape, static_cast<body>(&thread));
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
cudaError_t cudaGetLastError() { return std::exchange(pretended::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return pretended::last_error; }
char const* cudaGetErrorString(cudaError_t) { return "a pretended error"; }
char const* cudaGetErrorName(cudaError_t code) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "error %d", static_cast<int>(code));
  return name;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > pretended::most_shared_bytes)
    return cudaErrorInvalidValue;
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  all.shared_bytes_allowed[kernel] = value;
  return cudaSuccess;
}

static cudaError_t take_memory(void** data, std::size_t bytes) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  if (pretended::only_counts) {
    *data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  } else {
    if (all.used + bytes > pretended::device_bytes) return cudaErrorMemoryAllocation;
    *data = all.pages.take(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
  }
  all.device_memory[static_cast<std::byte*>(*data)] = bytes;
  all.device_of[static_cast<std::byte*>(*data)] = pretended::current_device;
  all.used += bytes;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  pretended::lock const hold(pretended::machine::get().mutex);
  if (pretended::machine::get().ends_a_capture()) return cudaErrorStreamCaptureUnsupported;
  return take_memory(data, bytes);
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  if (stream->device != pretended::current_device) return cudaErrorInvalidResourceHandle;
  return take_memory(data, bytes);
}
static cudaError_t give_back_memory(void* data) {
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
  std::size_t const bytes = found->second;
  all.used -= bytes;
  all.device_memory.erase(found);
  if (pretended::only_counts) munmap(data, bytes);
  else all.pages.give_back(static_cast<std::byte*>(data), bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return give_back_memory(data); }
cudaError_t cudaFree(void* data) {
  {
    pretended::lock const hold(pretended::machine::get().mutex);
    if (pretended::machine::get().ends_a_capture()) return cudaErrorStreamCaptureUnsupported;
  }
  return give_back_memory(data);
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
  if (all.ends_a_capture()) return cudaErrorStreamCaptureUnsupported;
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
  if (pretended::only_counts && to_host) std::memset(to, 0, bytes);
  return pretended::enqueue(stream, {nullptr, "copy", {bytes, from_host, to_host}},
                            [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  return pretended::enqueue(stream, {nullptr, "set", {width * height}}, [=] {
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
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  all.steps(16);
  if (all.failed) return cudaErrorLaunchFailure;
  return stream->items.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto& all = pretended::machine::get();
  {
    pretended::lock const hold(all.mutex);
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  all.drain(stream->device);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  pretended::lock const hold(pretended::machine::get().mutex);
  *status = stream->capture == nullptr     ? cudaStreamCaptureStatusNone
            : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const state = event->state;
  state->ms = pretended::ms_of_products;
  state->capture = stream->capture;
  if (stream->capture != nullptr) {
    state->captured_from = stream;
    state->captured_work = stream->captured_work;
    state->last = stream->last;
    return cudaSuccess;
  }
  state->under_way.insert(++state->recorded);
  return pretended::enqueue(stream,
                            [state, number = state->recorded] { state->under_way.erase(number); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  if (event->state->capture != nullptr) return cudaErrorCapturedEvent;
  all.steps(16);
  if (all.failed) return cudaErrorLaunchFailure;
  bool const is_under_way = event->state->under_way.contains(event->state->recorded);
  return is_under_way ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (true)
    if (auto const now = cudaEventQuery(event); now != cudaErrorNotReady) return now;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return *ms = end->state->ms - begin->state->ms, cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const state = event->state;
  if (state->capture != nullptr) {
    if (state->capture->ended) return cudaErrorCapturedEvent;
    if (stream->capture == nullptr) {  // the stream joins the capture here
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
    auto const is_over = [state, number = state->recorded] {
      return !state->under_way.contains(number);
    };
    return pretended::item{is_over, {}};
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  pretended::lock const hold(pretended::machine::get().mutex);
  stream->captured_work = stream->joined_work = 0;
  stream->last = {};
  stream->capture = std::make_shared<pretended::capture_state>();
  stream->capture->mode = mode;
  stream->capture->begun_by = std::this_thread::get_id();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto& all = pretended::machine::get();
  pretended::lock const hold(all.mutex);
  auto const of = stream->capture;
  *graph = of->invalidated ? nullptr : new CUgraph_st{std::move(of->nodes)};
  of->ended = true;
  bool all_joined = true;
  for (auto* each : all.streams) {
    if (each->capture != of) continue;
    each->capture = nullptr;
    all_joined = all_joined && (each == stream || each->joined_work == each->captured_work);
  }
  if (of->invalidated) return cudaErrorStreamCaptureInvalidated;
  return all_joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return *executable = new CUgraphExec_st{graph->nodes}, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const launched = std::make_shared<pretended::launched_graph>(executable->nodes);
  ++pretended::graph_launches;
  return pretended::enqueue_made(stream, [launched] {
    return pretended::item{[launched] { return launched->is_over(); }, {}};
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }

}  // extern "C"
