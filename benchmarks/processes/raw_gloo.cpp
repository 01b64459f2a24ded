// SPDX-License-Identifier: Apache-2.0
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "plait/backend/gloo/gloo.hpp"
#include "processes/raw.hpp"

namespace plait_benchmark {

namespace {

// Connections besides plait's, made as in Gloo's manual.
std::shared_ptr<gloo::Context> const& own_context() {
  static auto const made = [] {
    auto const here = plait::ext::read_process_ranks(
        [](char const* name) { return static_cast<char const*>(std::getenv(name)); });
    auto const folder = std::string(std::getenv("PLAIT_RENDEZVOUS")) + ".raw";
    std::filesystem::create_directories(folder);
    gloo::transport::tcp::attr over;
    over.iface = "lo";
    auto out = std::make_shared<gloo::rendezvous::Context>(here.rank, here.world_size);
    auto device = gloo::transport::tcp::CreateDevice(over);
    gloo::rendezvous::FileStore store(folder);
    out->connectFullMesh(store, device);
    return std::static_pointer_cast<gloo::Context>(out);
  }();
  return made;
}

}  // namespace

std::shared_ptr<plait::ext::process_engine> make_engine() { return plait::gloo(); }

// Gloo has no reduce_scatter of this kind.
raw_calls raw() {
  own_context();
  return {.all_reduce =
              [](float* inout, std::size_t count) {
                gloo::AllreduceOptions options(own_context());
                options.setOutput(inout, count);
                options.setReduceFunction(
                    static_cast<void (*)(void*, void const*, void const*, std::size_t)>(
                        &gloo::sum<float>));
                gloo::allreduce(options);
              },
          .all_gather =
              [](float const* send, float* receive, std::size_t each) {
                gloo::AllgatherOptions options(own_context());
                options.setInput(const_cast<float*>(send), each);
                options.setOutput(receive, each * static_cast<std::size_t>(own_context()->size));
                gloo::allgather(options);
              }};
}

}  // namespace plait_benchmark
