// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef UNMASK_C_LAYERS_H
#define UNMASK_C_LAYERS_H

#include <unmask/c_api.h>

/// \file
/// The part of the C interface for engines that compute single positions of their layers: caches
/// and layer rules, and the eviction of keys. Such an engine decodes every policy. Same library,
/// versions, errors and structures as c_api.h. Sessions on a device have the calls whose names
/// begin with unmask_device instead of those that return lists in host memory.
///
/// The calls belong between unmask_next() and unmask_supply(); examples/bindings/c/layers.c is an
/// engine that makes all of them. `segment` is an index into the request; returned lists belong to
/// the session and are valid until the next call for the same slot.
///
/// A pass begins with the positions of the segment; each layer attends to [keys_first, keys_last).
/// At each layer where unmask_hooks() returns true, in ascending order, unmask_at_layer() takes the
/// rows of the tensor that unmask_get_layer_rule() names, one for each of unmask_positions(), and
/// the stored rows; it returns the indices of the rows to compute from there on. After the last
/// layer unmask_rows() returns the rows whose logits to return, as indices into unmask_positions();
/// unmask_supply() takes the rows of all segments, packed one segment after the other.

#ifdef __cplusplus
extern "C" {
#endif

/// Tensors of a layer.
enum unmask_features {
  UNMASK_HIDDEN = 0,  ///< a layer's output
  UNMASK_INPUT = 1,   ///< its normalised input
  UNMASK_QUERY = 2,   ///< its queries
  UNMASK_KEY = 3,     ///< its keys
  UNMASK_VALUE = 4    ///< its values
};

/// Values of unmask_segment::evict and unmask_eviction::evict.
enum unmask_evictions {
  UNMASK_EVICT_NONE = 0,    ///< all keys receive attention
  UNMASK_EVICT_CHOOSE = 1,  ///< all do; each layer then selects those for the next passes
  UNMASK_EVICT_CHOSEN = 2   ///< the selected keys and the keys of the decided blocks do
};

/// Demands of a policy on an engine.
typedef struct unmask_layer_rule {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t has_hooks;     ///< not 0: call unmask_at_layer() where unmask_hooks() is true
  int32_t reads;  ///< the tensor that it compares; UNMASK_HIDDEN: call it after the layer, for the
                  ///< layers that follow; others: inside it, before attention, for this layer
  int32_t kept;   ///< not 0: positions that are not selected keep the attention and feed-forward
                  ///< outputs that the engine stored; 0: they are dropped from the pass
  int32_t single_positions;  ///< not 0: a pass is the positions of unmask_positions() and returns
                             ///< the logits of unmask_rows(), which the ranges of its segment only
                             ///< bound: a layer rule, delayed_cache, entropy_cache
  int32_t evicts;  ///< not 0: obey unmask_segment::evict with the two calls below: key_eviction
} unmask_layer_rule;
/// Initialises unmask_layer_rule with its defaults.
#define UNMASK_LAYER_RULE_INIT {(uint32_t)sizeof(unmask_layer_rule), 0, UNMASK_HIDDEN, 0, 0, 0}

/// Rows that an engine stores from pass to pass for a layer, one for each position of [first,
/// last), and passes to a call that overwrites them.
typedef struct unmask_stored {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t kind;          ///< kind of the rows at the layer
  int32_t memory_space;  ///< memory space of the session
  int32_t first, last;   ///< positions of the rows
  int32_t columns;       ///< numbers of a row
  int64_t stride;        ///< distance of rows, in elements; 0: columns
  void* data;            ///< the first row; written by the call
} unmask_stored;
/// Initialises unmask_stored with its defaults.
#define UNMASK_STORED_INIT                                                                         \
  {(uint32_t)sizeof(unmask_stored), UNMASK_F32, UNMASK_HOST, 0, 0, 0, 0, NULL}

/// Eviction of keys in the pass of a segment.
typedef struct unmask_eviction {
  uint32_t struct_size;  ///< sizeof of the structure, as the caller knows it
  int32_t evict;         ///< that of the segment, one of unmask_evictions
  int32_t first, last;   ///< the decided blocks, [first, last), whose keys are never dropped
  double keep;           ///< share of the other keys that is kept, in [0, 1]
  int32_t pool;          ///< neighbouring keys whose largest score is that of a key; odd
} unmask_eviction;
/// Initialises unmask_eviction with its defaults.
#define UNMASK_EVICTION_INIT {(uint32_t)sizeof(unmask_eviction), UNMASK_EVICT_NONE, 0, 0, 1.0, 1}

/// Ascending indices of rows or positions in device memory, for kernels of the engine in stream
/// order, until the next call for the same slot.
typedef struct unmask_device_list {
  uint32_t struct_size;    ///< sizeof of the structure, as the caller knows it
  int32_t most;            ///< most entries: launch kernels for this number of rows
  int32_t first;           ///< the first entry, if `entries` is null
  const int32_t* entries;  ///< device memory; null: the entries are first, first + 1, ...
  const int32_t* count;    ///< device memory, the number of entries; null: `most`
} unmask_device_list;
/// Initialises unmask_device_list with its defaults.
#define UNMASK_DEVICE_LIST_INIT {(uint32_t)sizeof(unmask_device_list), 0, 0, NULL, NULL}

/// Demands of the session's policy on an engine.
UNMASK_API unmask_status unmask_get_layer_rule(unmask_session* session, unmask_layer_rule* rule);
/// Demands of the policy of a segment's sequence, which unmask_sequence::policy may have named.
UNMASK_API unmask_status unmask_get_segment_rule(unmask_session* session,
                                                 int32_t segment,
                                                 unmask_layer_rule* rule);
/// Positions that the next layer computes, ascending.
UNMASK_API unmask_status unmask_positions(unmask_session* session,
                                          int32_t segment,
                                          const int32_t** positions,
                                          int32_t* count);
/// Receives not 0 where unmask_at_layer() has to be called for a layer. On either memory space.
UNMASK_API unmask_status unmask_hooks(unmask_session* session,
                                      int32_t segment,
                                      int32_t layer,
                                      int32_t* hooked);
/// Chooses the positions that are computed at a layer: `rows` receives the indices of their rows.
UNMASK_API unmask_status unmask_at_layer(unmask_session* session,
                                         int32_t segment,
                                         int32_t layer,
                                         const unmask_logits* now,
                                         const unmask_stored* stored,
                                         const int32_t** rows,
                                         int32_t* count);
/// Rows whose logits to return, after the last layer.
UNMASK_API unmask_status unmask_rows(unmask_session* session,
                                     int32_t segment,
                                     const int32_t** rows,
                                     int32_t* count);

/// Eviction of keys in the pass of a segment: `keep` 1 for a policy that drops none.
UNMASK_API unmask_status unmask_get_eviction(unmask_session* session,
                                             int32_t segment,
                                             unmask_eviction* eviction);
/// Scores of keys: the product of a query, the mean of the queries of the decided blocks, with each
/// row of `keys`, all heads in one row. `query` has the kind and the columns of the keys; `scores`
/// receives one number a row, whose bits do not depend on the instruction set. Cost: O(rows *
/// columns).
UNMASK_API unmask_status unmask_score_keys(const unmask_logits* keys,
                                           const void* query,
                                           float* scores);
/// Selects the keys that one layer keeps, in a pass with UNMASK_EVICT_CHOOSE: `positions` receives
/// those outside the decided blocks, ascending; passes with UNMASK_EVICT_CHOSEN attend to them and
/// to the blocks. `scores` has one number for each position of [0, unmask_segment::keys_last); the
/// numbers of the blocks are not read. The list is valid until the next such call. Ties: the lower
/// position; NaN ranks highest.
UNMASK_API unmask_status unmask_select_keys(unmask_session* session,
                                            int32_t segment,
                                            const float* scores,
                                            int32_t scores_count,
                                            const int32_t** positions,
                                            int32_t* count);

/// unmask_positions() on a device.
UNMASK_API unmask_status unmask_device_positions(unmask_session* session,
                                                 int32_t segment,
                                                 unmask_device_list* positions);
/// unmask_at_layer() on a device, of `count` segments together, ascending; `now` and `stored` have
/// one structure for each, all of one kind, and `rows` receives `count` lists. Enqueues one or two
/// launches for each 16 segments and does not synchronise. The rows of `now` are `most` of the
/// positions; those past the number of positions are ignored.
UNMASK_API unmask_status unmask_device_at_layer(unmask_session* session,
                                                int32_t layer,
                                                const int32_t* segments,
                                                const unmask_logits* now,
                                                const unmask_stored* stored,
                                                int32_t count,
                                                unmask_device_list* rows);
/// unmask_rows() on a device; unmask_supply() takes `most` rows for each segment.
UNMASK_API unmask_status unmask_device_rows(unmask_session* session,
                                            int32_t segment,
                                            unmask_device_list* rows);
/// unmask_score_keys() on a device, enqueued to the session's stream, for a session with a policy
/// that drops keys. One launch.
UNMASK_API unmask_status unmask_device_score_keys(unmask_session* session,
                                                  const unmask_logits* keys,
                                                  const void* query,
                                                  float* scores);
/// unmask_select_keys() on a device, enqueued; the list is valid until the next such call for the
/// slot and the layer, and `most` is its number of entries. One launch. A policy that drops keys
/// needs unmask_options::layers on a device.
UNMASK_API unmask_status unmask_device_select_keys(unmask_session* session,
                                                   int32_t segment,
                                                   int32_t layer,
                                                   const float* scores,
                                                   int32_t scores_count,
                                                   unmask_device_list* positions);

#ifdef __cplusplus
}
#endif

#endif  // UNMASK_C_LAYERS_H
