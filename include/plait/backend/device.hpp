// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/synchronization.hpp"
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
  /// gradient, by the `forward_backward` of the loss; queue.cross_entropy_with_gradient() does so
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

/// The device of one rank: memory, its streams, events between them, and queues that take
/// operations.
///
/// Syntax:  the members below; `queue` has those of `host_queue`. The constant `parts` names the
///          members that it has besides.
/// Meaning: allocate() gives memory whose values are undefined. on(s) takes operations for stream
///          s; they run in order, after the call or during it. upload() copies host memory into
///          stream compute and the host memory may be changed when it returns; what download()
///          copies out of stream compute is there after synchronize(), which returns when all
///          streams are empty and throws what went wrong in them. record(e, s) lets e stand for
///          all that stream s has been given so far; wait(s, e, site) holds back what stream s is
///          given from now on until that has ended. replay(graph, body) runs body(), or what it
///          did the first time with this graph. kind() says what decides on the last bits of
///          results, where devices may differ. mark("name") names what is enqueued while its
///          result lives, for profilers.
/// Threads: used by the one thread that runs the rank.
template <class D>
concept device =
    std::same_as<typename D::concept_tag, device_tag> &&
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
    has_device_parts<D>();

}  // namespace plait::ext
