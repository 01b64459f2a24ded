// SPDX-License-Identifier: Apache-2.0
// NCCL between threads with pretended devices. A call runs when it is at the head of the stream of
// every rank. It fails where NCCL would fail, and only supports communicators that do not block.
#include "backend/cuda/pretended_device.hpp"

#include <nccl.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "plait/core/bfloat16.hpp"
#include "plait/core/precision.hpp"

namespace pretended {

struct part_of_call {
  bool here = false;
  void const* from = nullptr;
  void* to = nullptr;
};
struct call_of_all {
  std::vector<part_of_call> parts;
  bool done = false;
};
struct message {
  part_of_call sent, received;
  bool done = false;
};
struct clique {
  int number = 0, size = 0, joined = 0;
  std::map<std::uint64_t, call_of_all> calls{};
  // The key is sender, receiver and number.
  std::map<std::array<std::uint64_t, 3>, message> messages{};
  struct split {
    int asked = 0;
    std::map<int, std::shared_ptr<clique>> parts{};
  };
  std::map<std::uint64_t, split> splits{};
};
struct member {
  std::shared_ptr<clique> all;
  int rank = 0;
  std::uint64_t calls = 0, splits = 0;
  std::map<int, std::uint64_t> sent{}, received{};
  bool aborted = false;
  std::shared_ptr<char> in_graphs = std::make_shared<char>();  // recorded graphs hold a reference
};
struct posted {
  std::shared_ptr<member> who;
  cudaStream_t stream = nullptr;
  bool sends = false;
  int other = 0;
  std::uint64_t number = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<char> in_graph{};
};

inline std::map<std::uint64_t, std::shared_ptr<clique>> worlds;
inline std::uint64_t next_world = 1;
inline int cliques = 0;
inline thread_local int group_depth = 0;
inline thread_local std::vector<posted> group_messages;

inline std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat64 || type == ncclInt64 || type == ncclUint64 ? 8
         : type == ncclBfloat16                                         ? 2
         : type == ncclInt8 || type == ncclUint8                        ? 1
                                                                        : 4;
}

template <class T>
void join_values(call_of_all const& call, std::size_t first, std::size_t count, ncclRedOp_t how,
                 void* to) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    using A = plait::accumulate_t<T>;
    A value = static_cast<A>(static_cast<T const*>(call.parts[0].from)[first + i]);
    for (std::size_t r = 1; r < call.parts.size(); ++r) {
      auto const next = static_cast<A>(static_cast<T const*>(call.parts[r].from)[first + i]);
      value = how == ncclSum ? static_cast<A>(value + next) : std::max(value, next);
    }
    out[i] = static_cast<T>(value);
  }
  std::memcpy(to, out.data(), count * sizeof(T));
}
inline void join_values(ncclDataType_t type, call_of_all const& call, std::size_t first,
                        std::size_t count, ncclRedOp_t how, void* to) {
  if (type == ncclFloat32) join_values<float>(call, first, count, how, to);
  else if (type == ncclFloat64) join_values<double>(call, first, count, how, to);
  else if (type == ncclBfloat16) join_values<plait::bfloat16>(call, first, count, how, to);
  else if (type == ncclUint64) join_values<std::uint64_t>(call, first, count, how, to);
  else if (type == ncclInt32) join_values<std::int32_t>(call, first, count, how, to);
  else throw std::logic_error("pretended NCCL: a type without sums");
}

}  // namespace pretended

struct ncclComm {
  std::shared_ptr<pretended::member> state;
};

namespace pretended {

inline ncclComm_t join(std::shared_ptr<clique> const& all, int rank) {
  ++all->joined;
  communicators.push_back({current_device, all->number, true});
  return new ncclComm{std::make_shared<member>(member{all, rank})};
}

inline std::shared_ptr<char> held_by_graph(member const& who, cudaStream_t stream) {
  return stream->capture != nullptr ? who.in_graphs : nullptr;
}

// Runs carry_out(call) once, on the thread of the last rank that calls.
inline ncclResult_t collective_call(ncclComm_t comm, cudaStream_t stream, void const* from,
                                    void* to, std::function<void(call_of_all&)> carry_out) {
  if (comm == nullptr) return ncclInvalidArgument;
  lock const hold(machine::get().mutex);
  auto const who = comm->state;
  if (stream->device != current_device) return ncclInvalidUsage;
  auto const code = enqueue_made(stream, [who, from, to, carry_out = std::move(carry_out),
                                          in_graph = held_by_graph(*who, stream)] {
    (void)in_graph;
    auto const ready = [who, number = who->calls++, from, to, carry_out] {
      if (who->aborted) return true;
      auto& call = who->all->calls[number];
      call.parts.resize(static_cast<std::size_t>(who->all->size));
      call.parts[static_cast<std::size_t>(who->rank)] = {true, from, to};
      bool all_here = true;
      for (auto const& part : call.parts) all_here = all_here && part.here;
      if (all_here && !std::exchange(call.done, true)) carry_out(call);
      return call.done;
    };
    return item{ready, {}};
  });
  return code == cudaSuccess ? ncclInProgress : ncclUnhandledCudaError;
}

inline bool have_come(std::vector<posted> const& messages) {
  bool all_done = true;
  for (auto const& each : messages) {
    if (each.who->aborted) return true;
    auto const me = static_cast<std::uint64_t>(each.who->rank),
               other = static_cast<std::uint64_t>(each.other);
    auto& of =
        each.who->all->messages[{each.sends ? me : other, each.sends ? other : me, each.number}];
    (each.sends ? of.sent : of.received) = {true, each.data, each.data};
    if (!of.done && of.sent.here && of.received.here) {
      if (each.bytes != 0) std::memcpy(of.received.to, of.sent.from, each.bytes);
      of.done = true;
    }
    all_done = all_done && of.done;
  }
  return all_done;
}

inline ncclResult_t post(ncclComm_t comm, cudaStream_t stream, bool sends, int other, void* data,
                         std::size_t bytes) {
  if (comm == nullptr || other < 0 || other >= comm->state->all->size) return ncclInvalidArgument;
  auto const who = comm->state;
  group_messages.push_back(
      {who, stream, sends, other, 0, data, bytes, held_by_graph(*who, stream)});
  return group_depth > 0 ? ncclSuccess : (++group_depth, ncclGroupEnd());
}

}  // namespace pretended

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
char const* ncclGetErrorString(ncclResult_t) { return "a pretended error"; }
char const* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  pretended::lock const hold(pretended::machine::get().mutex);
  *id = {};
  // All ranks get the same identifier.
  if (char const* const told = std::getenv("NCCL_COMM_ID"); told != nullptr) {
    std::strncpy(id->internal, told, sizeof id->internal - 1);
    return ncclSuccess;
  }
  std::memcpy(id->internal, &pretended::next_world, sizeof pretended::next_world);
  ++pretended::next_world;
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  pretended::lock const hold(pretended::machine::get().mutex);
  std::uint64_t key = 0;
  std::memcpy(&key, id.internal, sizeof key);
  auto& world = pretended::worlds[key];
  if (!world)
    world = std::make_shared<pretended::clique>(
        pretended::clique{.number = pretended::cliques++, .size = size});
  *comm = pretended::join(world, rank);
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out,
                           ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  // Without split sharing each part would have its own proxy threads, buffers and channels.
  if (config->splitShare != 1) return ncclInvalidUsage;
  pretended::lock const hold(pretended::machine::get().mutex);
  auto& split = comm->state->all->splits[comm->state->splits++];
  ++split.asked;
  *out = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  auto& part = split.parts[color];
  if (!part)
    part = std::make_shared<pretended::clique>(pretended::clique{.number = pretended::cliques++});
  ++part->size;
  *out = pretended::join(part, key);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* now) {
  if (comm == nullptr) return ncclInvalidArgument;
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const& who = *comm->state;
  bool const split_open = who.splits > 0 && who.all->splits[who.splits - 1].asked < who.all->size;
  *now = who.all->joined < who.all->size || split_open ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  pretended::lock const hold(pretended::machine::get().mutex);
  pretended::communicators.push_back({pretended::current_device, comm->state->all->number, false});
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    pretended::lock const hold(pretended::machine::get().mutex);
    comm->state->aborted = true;
  }
  while (pretended::aborts_hang || comm->state->in_graphs.use_count() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return delete comm, ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++pretended::group_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (--pretended::group_depth > 0) return ncclSuccess;
  auto const messages = std::exchange(pretended::group_messages, {});
  if (messages.empty()) return ncclSuccess;
  pretended::lock const hold(pretended::machine::get().mutex);
  auto const stream = messages.front().stream;
  if (stream->device != pretended::current_device) return ncclInvalidUsage;
  auto const code = pretended::enqueue_made(stream, [messages] {
    auto numbered = messages;
    for (auto& each : numbered)
      each.number = (each.sends ? each.who->sent : each.who->received)[each.other]++;
    return pretended::item{[numbered] { return pretended::have_come(numbered); }, {}};
  });
  return code == cudaSuccess ? ncclInProgress : ncclUnhandledCudaError;
}
ncclResult_t ncclSend(void const* data, std::size_t count, ncclDataType_t type, int to,
                      ncclComm_t comm, cudaStream_t stream) {
  return pretended::post(comm, stream, true, to, const_cast<void*>(data),
                         count * pretended::bytes_of(type));
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  return pretended::post(comm, stream, false, from, data, count * pretended::bytes_of(type));
}

ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
  return pretended::collective_call(comm, stream, from, to, [=](auto& call) {
    std::vector<std::byte> out(count * pretended::bytes_of(type));
    pretended::join_values(type, call, 0, count, how, out.data());
    for (auto const& part : call.parts) std::memcpy(part.to, out.data(), out.size());
  });
}
ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return pretended::collective_call(comm, stream, from, to, [=](auto& call) {
    auto const* const source = call.parts[static_cast<std::size_t>(root)].from;
    for (auto const& part : call.parts)
      std::memmove(part.to, source, count * pretended::bytes_of(type));
  });
}
ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return pretended::collective_call(comm, stream, from, to, [=](auto& call) {
    std::size_t const bytes = count * pretended::bytes_of(type);
    for (auto const& part : call.parts)
      for (std::size_t r = 0; r < call.parts.size(); ++r)
        std::memmove(static_cast<std::byte*>(part.to) + r * bytes, call.parts[r].from, bytes);
  });
}
ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
  return pretended::collective_call(comm, stream, from, to, [=](auto& call) {
    std::size_t const bytes = count * pretended::bytes_of(type);
    std::vector<std::byte> out(bytes * call.parts.size());
    for (std::size_t r = 0; r < call.parts.size(); ++r)
      pretended::join_values(type, call, r * count, count, how, out.data() + r * bytes);
    for (std::size_t r = 0; r < call.parts.size(); ++r)
      std::memcpy(call.parts[r].to, out.data() + r * bytes, bytes);
  });
}

}  // extern "C"
