// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "plait/backend/arguments.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// A type says on purpose that it is a device by `using concept_tag = device_tag;`.
struct device_tag {};

/// The members of a device that not every device has, by name: where one is true the device has
/// what stands there.
struct device_parts {
  /// go_on() -> void: posted messages go on, in between two operations.
  bool goes_on = false;
  /// workspace_bytes() -> size_t: memory that libraries and kernels have taken by themselves.
  bool counts_workspace = false;
  /// queue.loss_with_gradient() -> bool: true if the device makes a loss together with its
  /// gradient, by the `forward_backward` of the loss; its row cross_entropy_with_gradient does so
  /// for nn::cross_entropy.
  bool joins_loss = false;
};

/// Returns true if a device has all that its `parts` says.
template <class D>
consteval bool has_device_parts() {
  constexpr device_parts parts = D::parts;
  return (!parts.goes_on || requires(D& device) { device.go_on(); }) &&
         (!parts.counts_workspace || requires(D const& device) {
           { device.workspace_bytes() } -> std::same_as<std::size_t>;
         }) && (!parts.joins_loss || requires(typename D::queue const& queue) {
           { queue.loss_with_gradient() } -> std::same_as<bool>;
         });
}

/// A queue whose device has a kernel for a row of operation/rows.hpp that takes such operands and
/// numbers: `runs<host_queue, operation::fill, matrix<float>, float>`.
template <class Queue, class Row, class... Arguments>
concept runs =
    requires(Queue const& queue, Row row, Arguments... arguments) { queue.run(row, arguments...); };

/// A queue that carries out the rows that every step needs with any layers.
///
/// Syntax:  it derives from queue_calls<Queue>; discard(data, bytes) -> void; run(row, operands...,
///          numbers...) for the rows below, in each type that a job computes in. float is checked.
/// Meaning: see `device`.
template <class Queue>
concept step_queue =
    std::derived_from<Queue, queue_calls<Queue>> &&
    requires(Queue const& queue, void* data, std::size_t bytes) {
      { queue.discard(data, bytes) } -> std::same_as<void>;
    } && runs<Queue, operation::copy_bytes, matrix<std::byte const>, matrix<std::byte>> &&
    runs<Queue, operation::copy_blocks, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::convert, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::fill, matrix<float>, float> &&
    runs<Queue, operation::swap, matrix<float>, matrix<float>> &&
    runs<Queue, operation::add, matrix<float const>, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::add_and_clear, matrix<float>, matrix<float>> &&
    runs<Queue, operation::average, matrix<double const>, matrix<float const>, matrix<float>,
         double> &&
    runs<Queue, operation::sums_of_squares, float const*, matrix<squares_range const>, double*> &&
    runs<Queue, operation::divide, matrix<double const>, matrix<double>, double> &&
    runs<Queue, operation::clip, matrix<double const>, matrix<double>, matrix<double>, double> &&
    runs<Queue, operation::check_finite, matrix<double const>, matrix<double const>,
         matrix<double>>;

/// The device of one rank: memory, streams, events between them, and queues that take operations.
/// This is all that a backend's author has to write for a device. examples/own_device.cpp is a
/// whole one, and plait::testing::check_device runs a device and names each rule that it breaks.
///
/// Memory:  `memory` is a type of its own, so that views of this memory are given to no other
///          device. allocate() gives an arena of bytes whose values are undefined, aligned to 64;
///          they are freed with it. upload() copies host memory into stream compute, and the host
///          memory may be changed when it returns. Bytes that download() copies out of stream
///          compute are there after synchronize(). That returns when all streams are empty, and
///          throws the error of an operation that failed.
///
/// Streams: on(s) gives a queue, which takes operations for stream s; they run in order, after the
///          call or during it. record(e, s) lets e stand for all that stream s has been given so
///          far; wait(s, e, site) holds back what stream s is given from now on until that has
///          ended. replay(graph, body) runs body(), or repeats the operations that body() has given
///          to queues in an earlier call with this graph.
///
/// Queues:  run(row, operands..., numbers...) carries out the operation of a row of
///          operation/rows.hpp. Operands are matrices in the device's memory, in the order of the
///          row, of const elements if they are only read (rows of optimizers and of functions of
///          users have other arguments, as host_queue shows). Numbers and results are those of the
///          same function of host_queue. A kernel writes all elements of the operands that are
///          written, reads what they held only if a '+' is before them, and touches nothing else.
///
///          A queue has the rows of `step_queue` and that of each optimizer of its jobs (adamw,
///          sgd). It has the other rows as its jobs have layers: a layer does not compile for a
///          device without its kernels. in_passes.hpp and epilogue.hpp make some rows of others.
///
///          Three functions are needed by some layers alone: prepare(row, operand, shape), which
///          layers call once before the rows of attention; run(row, f, ...) of map, map_at, rows
///          and accumulate_columns, with functions of users; and run(kernel, views...), which calls
///          kernel(queue, views...), for kernels of a layer. discard(data, bytes) says that nobody
///          reads these bytes before they are written again; most devices do nothing.
///
/// Names:   kind() says what decides on the last bits of results, where devices may differ, and
///          gives the same text each time. mark("name") gives an object: operations that are put
///          into streams while it lives have this name in profiles. Marks may be nested.
///
/// Parts:   the constant `parts` names the members that the device has besides, see device_parts.
///
/// Syntax:  the members below.
/// Threads: used by the one thread that runs the rank.
template <class D>
concept device =
    std::same_as<typename D::concept_tag, device_tag> &&
    std::same_as<typename D::memory::concept_tag, memory_tag> &&
    std::default_initializable<typename D::arena> && std::movable<typename D::arena> &&
    std::default_initializable<typename D::graph> && std::movable<typename D::event> &&
    requires(typename D::arena const& arena) {
      { arena.data() } -> std::same_as<std::byte*>;
      { arena.size() } -> std::same_as<std::size_t>;
    } &&
    requires(D& device, std::size_t bytes, void const* from, void* to, stream on,
             typename D::event& event, wait_site site, typename D::graph& graph, void (*body)()) {
      { device.allocate(bytes) } -> std::same_as<typename D::arena>;
      { device.upload(from, to, bytes) } -> std::same_as<void>;
      { device.download(from, to, bytes) } -> std::same_as<void>;
      { device.synchronize() } -> std::same_as<void>;
      { device.on(on) } -> std::same_as<typename D::queue>;
      { device.make_event() } -> std::same_as<typename D::event>;
      { device.record(event, on) } -> std::same_as<void>;
      { device.wait(on, event, site) } -> std::same_as<void>;
      { device.replay(graph, body) } -> std::same_as<void>;
      { device.kind() } -> std::same_as<std::string>;
      device.mark("name");
      { D::parts } -> std::convertible_to<device_parts>;
    } &&
    has_device_parts<D>() && step_queue<typename D::queue>;

}  // namespace plait::ext
