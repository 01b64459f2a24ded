// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::gloo: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/backend/gloo/gloo.ipp"
#include "plait/backend/gloo/gloo_challenge.ipp"
#include "plait/backend/gloo/gloo_connections.ipp"
#include "plait/backend/gloo/gloo_device.ipp"
#include "plait/backend/gloo/gloo_group.ipp"
#include "plait/backend/gloo/gloo_listener.ipp"
#include "plait/backend/gloo/gloo_pair.ipp"
#include "plait/backend/gloo/gloo_rendezvous.ipp"
#include "plait/backend/gloo/gloo_store.ipp"
#include "plait/backend/gloo/gloo_watch.ipp"
