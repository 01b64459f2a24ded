// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::testing: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/testing/communicator_channel_laws.ipp"
#include "plait/testing/communicator_errors.ipp"
#include "plait/testing/communicator_probe.ipp"
#include "plait/testing/communicator_suite.ipp"
#include "plait/testing/device_laws.ipp"
#include "plait/testing/layer_checker.ipp"
#include "plait/testing/layer_data_ranks.ipp"
#include "plait/testing/layer_forms.ipp"
#include "plait/testing/layer_laws.ipp"
#include "plait/testing/layer_pieces.ipp"
#include "plait/testing/layer_trial.ipp"
#include "plait/testing/loss_laws.ipp"
#include "plait/testing/report.ipp"
#include "plait/testing/row_operands.ipp"
#include "plait/testing/slow_link.ipp"
