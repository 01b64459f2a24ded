// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::doctor: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/doctor/activity_rules.ipp"
#include "plait/doctor/blas_facts.ipp"
#include "plait/doctor/control_groups.ipp"
#include "plait/doctor/doctor_options.ipp"
#include "plait/doctor/doctor_progress.ipp"
#include "plait/doctor/doctor_results.ipp"
#include "plait/doctor/finding.ipp"
#include "plait/doctor/gpu_rules.ipp"
#include "plait/doctor/gpu_settings.ipp"
#include "plait/doctor/host_activity.ipp"
#include "plait/doctor/host_settings.ipp"
#include "plait/doctor/link_limits.ipp"
#include "plait/doctor/link_picture.ipp"
#include "plait/doctor/link_picture_parts.ipp"
#include "plait/doctor/link_rules.ipp"
#include "plait/doctor/measure_work.ipp"
#include "plait/doctor/pair_rounds.ipp"
#include "plait/doctor/process_rules.ipp"
#include "plait/doctor/processor_rules.ipp"
#include "plait/doctor/rule_parts.ipp"
#include "plait/doctor/setting_rules.ipp"
#include "plait/doctor/settings_text.ipp"
#include "plait/doctor/speed_rules.ipp"
#include "plait/doctor/system_files.ipp"
#include "plait/doctor/turns.ipp"
