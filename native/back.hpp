// What flows back through a strip of attention: weights are computed again from queries, keys and the row terms of the
// sweep, block by block of keys, so that what a block needs stays in a near cache.
//
//     w = exp(s - top score) · scale;  of a score g = w · (dO·V - spread) · softcap'(s)
//     dQ = g · K;  dK += gᵀ · Q;  dV += wᵀ · dO
//
// Sums keep the same bits for any number of threads: blocks of keys add in their own places, in the order of the rows, and
// what queries get from spans of keys is added up in the order of the spans.
#pragma once

#include "strip_pass.hpp"

namespace heedmap {

// Widths are dimensions rounded up to whole panels, zeros behind.
struct Back {
  Index head_start = 0;
  Index heads = 0;
  Index rows = 0;
  Index key_start = 0;
  Index keys = 0;
  Index group = 1;   // query heads of one key head
  Index panels = 0;  // of one key head: key_len / panel, rounded up
  Index head_dim = 0;
  Index value_dim = 0;
  Index key_width = 0;
  Index value_width = 0;
  float softcap = 0;  // 0: none
  const float* query = nullptr;          // [heads, rows, key_width], times the scale
  const float* flowing = nullptr;        // [heads, rows, value_width]: dO
  const float* top_score = nullptr;      // [heads, rows]
  const float* scale = nullptr;          // [heads, rows]
  const float* spread = nullptr;         // [heads, rows]: Σ dO · output
  const float* packed_keys = nullptr;    // [key_heads, panels, head_dim, panel]
  const float* packed_values = nullptr;  // [key_heads, panels, value_dim, panel]
  const float* key_rows = nullptr;       // [key_heads, panels · panel, key_width]
  const Segment* segments = nullptr;
  int segment_count = 0;
  float* of_query = nullptr;  // [heads, rows, key_width]
  float* of_key = nullptr;    // [key_heads, panels · panel, key_width], added to
  float* of_value = nullptr;  // [key_heads, panels · panel, value_width], added to
};

constexpr Index BACK_ROWS = 64;    // rows that meet a block of keys together
constexpr Index BACK_KEYS = 256;   // keys of a block
constexpr Index BACK_SPAN = 1024;  // keys of a task
constexpr Index BACK_PITCH = BACK_KEYS + MOST_PANEL / 2;  // no power of two: rows would share their cache sets

// Some query heads of one key head, and keys [first, last) of the call.
struct BackUnit {
  Index head = 0;  // within the strip
  Index heads = 0;
  Index first = 0;
  Index last = 0;
  float* of_query = nullptr;  // [heads, rows, key_width]
};

void flow_back(const Level& level, const Back& back, const Team& team, int threads, Workspace& room);

}  // namespace heedmap
