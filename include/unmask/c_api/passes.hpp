// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/session.hpp>
#include <unmask/c_api/translate.hpp>

// Passes through the layers of a C session. For c_library.hpp.

namespace UNMASK_NAMESPACE::detail::c_api {

// The pass of a segment of the request, in a session on the host or on a device.
template <class Session>
auto pass_in(Session& session, std::int32_t segment) {
  check_argument(segment >= 0, "segment", segment, "at least 0");
  return session.pass(static_cast<std::size_t>(segment));
}
inline unmask::named_session::layer_pass pass_of(unmask_session* session, std::int32_t segment) {
  const unmask_session& s = needed(session, "session");
  if (s.host == nullptr) {
    throw unsupported("lists in host memory of a session on a device, which has "
                      "unmask_device_positions() and the calls after it");
  }
  return pass_in(*s.host, segment);
}

// Throws for a session on the host.
inline void check_device(unmask_session* session) {
  if (needed(session, "session").host != nullptr) {
    throw unsupported("lists in device memory of a session on the host, which has "
                      "unmask_positions() and the calls after it");
  }
}

// Calls use(session, pass) for a segment of a session on a device.
template <class Use>
void with_device_pass([[maybe_unused]] unmask_session* session,
                      [[maybe_unused]] std::int32_t segment,
                      [[maybe_unused]] const Use& use) {
  check_device(session);
#ifdef UNMASK_C_API_CUDA
  use(*session, pass_in(*session->device, segment));
#endif
}

// Calls `use` with the pass of a segment, whatever memory its lists are in.
template <class Use>
void with_pass(unmask_session* session, std::int32_t segment, const Use& use) {
  needed(session, "session").with([&](auto& q) { use(pass_in(q, segment)); });
}

}  // namespace UNMASK_NAMESPACE::detail::c_api
