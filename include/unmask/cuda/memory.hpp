// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace UNMASK_NAMESPACE::device {

/// An allocator of device memory of an engine, for example its caching pool.
///
/// `allocate(bytes, stream)` returns memory aligned to 256 bytes for work enqueued to `stream` from
/// now on, or throws; `deallocate(p, stream)` releases it after the work enqueued so far, and does
/// not throw.
template <class A>
concept stream_allocator = requires(A& a, std::size_t bytes, void* p, cudaStream_t stream) {
  { a.allocate(bytes, stream) } -> std::convertible_to<void*>;
  a.deallocate(p, stream);
};

/// A reference to a stream_allocator, which must outlive every session made with it; the default
/// uses cudaMalloc and cudaFree.
class allocator_ref {
 public:
  allocator_ref() = default;
  /// A reference to an allocator, which outlives it.
  template <class A>
    requires(!std::same_as<std::remove_cvref_t<A>, allocator_ref>) && stream_allocator<A>
  allocator_ref(A& allocator)  // NOLINT(google-explicit-constructor): a reference, like any other
      : object_(static_cast<void*>(std::addressof(allocator)))
      , allocate_([](void* object, std::size_t bytes, cudaStream_t stream) -> void* {
        return static_cast<A*>(object)->allocate(bytes, stream);
      })
      , deallocate_([](void* object, void* p, cudaStream_t stream) {
        static_cast<A*>(object)->deallocate(p, stream);
      }) {}

  /// Allocates in the order of the stream.
  [[nodiscard]] void* allocate(std::size_t bytes, cudaStream_t stream) const {
    return allocate_(object_, bytes, stream);
  }
  /// Frees in the order of the stream.
  void deallocate(void* p, cudaStream_t stream) const { deallocate_(object_, p, stream); }

 private:
  static void* plain_allocate(void* /*object*/, std::size_t bytes, cudaStream_t /*stream*/) {
    void* p = nullptr;
    check(cudaMalloc(&p, bytes), "cudaMalloc for a session");
    return p;
  }
  static void plain_deallocate(void* /*object*/, void* p, cudaStream_t /*stream*/) {
    static_cast<void>(cudaFree(p));
  }

  void* object_ = nullptr;
  void* (*allocate_)(void*, std::size_t, cudaStream_t) = &plain_allocate;
  void (*deallocate_)(void*, void*, cudaStream_t) = &plain_deallocate;
};

struct release_device {
  allocator_ref from;
  cudaStream_t stream = nullptr;
  void operator()(std::byte* p) const { from.deallocate(p, stream); }
};
/// Device memory, released in stream order.
using device_bytes = std::unique_ptr<std::byte, release_device>;

/// Allocates device memory. Errors: cuda_error.
[[nodiscard]] inline device_bytes
make_device_bytes(const allocator_ref& from, std::size_t bytes, cudaStream_t stream) {
  return {static_cast<std::byte*>(from.allocate(bytes, stream)), release_device{from, stream}};
}

/// Waits for the stream before memory on it is freed, if it still is where this goes out of scope:
/// a call behind one that enqueued its use has failed.
class wait_before_release {
 public:
  /// For memory that was not used on the stream before.
  wait_before_release(const device_bytes& memory, cudaStream_t stream)
      : memory_(memory)
      , stream_(stream) {}
  wait_before_release(const wait_before_release&) = delete;
  wait_before_release& operator=(const wait_before_release&) = delete;
  ~wait_before_release() {
    if (memory_ != nullptr) {
      static_cast<void>(cudaStreamSynchronize(stream_));
    }
  }

 private:
  const device_bytes& memory_;
  cudaStream_t stream_;
};

struct release_pinned {
  cudaStream_t stream = nullptr;
  void operator()(std::byte* p) const {
    static_cast<void>(cudaStreamSynchronize(stream));  // a copy may still be under way
    static_cast<void>(cudaFreeHost(p));
  }
};
/// Pinned host memory, which the device copies from and to directly.
using pinned_bytes = std::unique_ptr<std::byte, release_pinned>;

/// Allocates pinned host memory. Errors: cuda_error.
[[nodiscard]] inline pinned_bytes make_pinned_bytes(std::size_t bytes, cudaStream_t stream) {
  void* p = nullptr;
  check(cudaMallocHost(&p, bytes), "cudaMallocHost for a session");
  return {static_cast<std::byte*>(p), release_pinned{stream}};
}

struct release_event {
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
};
/// Owner of an event.
using event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, release_event>;

/// Makes an event without timing. Errors: cuda_error.
[[nodiscard]] inline event make_event() {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate for a session");
  return event{e};
}

/// Enqueues the copy of `count` objects of the device to the host.
template <class T>
void fetch_objects(T* to, const T* from, std::size_t count, cudaStream_t stream) {
  if (count > 0) {
    check(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync to the host");
  }
}

/// A copy of `count` objects of the device. Synchronises.
template <class T>
[[nodiscard]] std::vector<T> copy_to_host(const T* from, std::size_t count, cudaStream_t stream) {
  std::vector<T> out(count);
  fetch_objects(out.data(), from, count, stream);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return out;
}

/// Number of multiprocessors of the current device.
[[nodiscard]] inline int multiprocessors() {
  int which = 0;
  int count = 0;
  check(cudaGetDevice(&which), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, which),
        "cudaDeviceGetAttribute");
  return count;
}

}  // namespace unmask::device
