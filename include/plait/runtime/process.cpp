// SPDX-License-Identifier: Apache-2.0
// The runtime of ranks that are processes: the functions that do not depend on a program's types
// and are compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/backend/process/flight_record.ipp"
#include "plait/backend/process/flight_ring.ipp"
#include "plait/backend/process/job_secret.ipp"
#include "plait/backend/process/mpi_launcher.ipp"
#include "plait/backend/process/process_communicator.ipp"
#include "plait/backend/process/process_device.ipp"
#include "plait/backend/process/process_engine.ipp"
#include "plait/backend/process/process_mark.ipp"
#include "plait/backend/process/process_messages.ipp"
#include "plait/backend/process/process_places.ipp"
#include "plait/backend/process/processes.ipp"
#include "plait/backend/process/ranked_reduction.ipp"
#include "plait/backend/process/rendezvous_file.ipp"
#include "plait/backend/process/second_thread.ipp"
#include "plait/backend/process/shown_call.ipp"
#include "plait/backend/process/signal_patience.ipp"
#include "plait/backend/process/start_check.ipp"
#include "plait/backend/process/store_place.ipp"
#include "plait/backend/process/terminate_sentence.ipp"
#include "plait/backend/process/watchdog.ipp"
#include "plait/backend/process_ranks.ipp"
