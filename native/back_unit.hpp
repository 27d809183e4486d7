// A unit of the way back. Included like vec.hpp, for the instruction sets that have products.

template <bool CAPPED>
inline void weigh_back(float* s, float* g, Index keys, float top_score, float scale, float spread, float cap) {
  const V::reg top = V::set(top_score), by = V::set(scale), mean = V::set(spread);
  const V::reg lowest = V::set(-cap), inverse = V::set(CAPPED ? 1.0f / cap : 0.0f);
  for (Index k = 0; k < keys; k += V::width) {  // whole panels
    const V::reg score = V::load(s + k);
    const V::reg w = V::mul(exponential_of(V::sub(score, top)), by);
    V::reg found = V::mul(w, V::sub(V::load(g + k), mean));
    if constexpr (CAPPED) {
      const V::reg bent = V::mul(V::max(lowest, score), inverse);  // a hidden pair is -infinity, and 0 · infinity no number
      found = V::mul(found, V::fnma(bent, bent, V::set(1.0f)));
    }
    V::store(s + k, w);
    V::store(g + k, found);
  }
}

// Rows of weights and of what flows back to scores, from scores and dO·V: keys [from, to) of the call stand in the tables,
// those of the unit among them count.
inline void weigh_rows(const Back& back, const BackUnit& unit, Index head, Index row, Index rows, Index from, Index to,
                       float* s, float* g) {
  const Index first = unit.first > from ? unit.first : from, last = unit.last < to ? unit.last : to;
  for (Index r = 0; r < rows; ++r, s += BACK_PITCH, g += BACK_PITCH) {
    if (back.softcap != 0) soften_row(s, to - from, back.softcap);
    for (int i = 0; i < back.segment_count; ++i) {
      const Segment& part = back.segments[i];
      const Index start = part.start + back.key_start > first ? part.start + back.key_start : first;
      const Index stop = part.stop + back.key_start < last ? part.stop + back.key_start : last;
      if (start >= stop) continue;
      const std::uint8_t* allowed = part.allowed + head * part.head_stride + (row + r) * part.row_stride;
      hide(s + (start - from), allowed + (start - back.key_start - part.start), stop - start);
    }
    for (Index k = from; k < first; ++k) s[k - from] = -INFINITE;
    for (Index k = last; k < to; ++k) s[k - from] = -INFINITE;
    const Index at = head * back.rows + row + r;
    const float top = back.top_score[at] > -INFINITE ? back.top_score[at] : 0.0f;
    if (back.softcap != 0) {
      weigh_back<true>(s, g, to - from, top, back.scale[at], back.spread[at], back.softcap);
    } else {
      weigh_back<false>(s, g, to - from, top, back.scale[at], back.spread[at], 0);
    }
  }
}

inline void back_block(const Back& back, const BackUnit& unit, Index head, Index row, Index rows, Index from, Index to,
                       float* s, float* g, float* of_query) {
  const Index key_head = (back.head_start + head) / back.group, line = head * back.rows + row;
  const float* query = back.query + line * back.key_width;
  const float* flowing = back.flowing + line * back.value_width;
  for (Index panel = from / PANEL; panel * PANEL < to; ++panel) {
    const Index at = key_head * back.panels + panel, column = panel * PANEL - from;
    const float* keys = back.packed_keys + at * back.head_dim * PANEL;
    const float* values = back.packed_values + at * back.value_dim * PANEL;
    tiles<false>(query, back.key_width, keys, PANEL, back.head_dim, s + column, BACK_PITCH, rows, false);
    tiles<false>(flowing, back.value_width, values, PANEL, back.value_dim, g + column, BACK_PITCH, rows, false);
  }
  weigh_rows(back, unit, head, row, rows, from, to, s, g);
  const Index key = key_head * back.panels * PANEL + from;
  const float* key_rows = back.key_rows + key * back.key_width;
  float* of_key = back.of_key + key * back.key_width;
  float* of_value = back.of_value + key * back.value_width;
  for (Index c = 0; c < back.key_width; c += PANEL) {
    tiles<false>(g, BACK_PITCH, key_rows + c, back.key_width, to - from, of_query + c, back.key_width, rows, true);
    tiles<true>(g, BACK_PITCH, query + c, back.key_width, rows, of_key + c, back.key_width, to - from, true);
  }
  for (Index c = 0; c < back.value_width; c += PANEL) {
    tiles<true>(s, BACK_PITCH, flowing + c, back.value_width, rows, of_value + c, back.value_width, to - from, true);
  }
}

inline void back_unit(const Back& back, const BackUnit& unit, float* tables) {
  float *s = tables, *g = tables + BACK_ROWS * BACK_PITCH;
  memset(unit.of_query, 0, static_cast<std::size_t>(unit.heads * back.rows * back.key_width) * sizeof(float));
  const Index end = (unit.last + PANEL - 1) / PANEL * PANEL;
  for (Index from = unit.first / PANEL * PANEL; from < end; from += BACK_KEYS) {
    const Index to = from + BACK_KEYS < end ? from + BACK_KEYS : end;
    for (Index head = 0; head < unit.heads; ++head) {
      for (Index row = 0; row < back.rows; row += BACK_ROWS) {
        const Index rows = row + BACK_ROWS < back.rows ? BACK_ROWS : back.rows - row;
        float* of_query = unit.of_query + (head * back.rows + row) * back.key_width;
        back_block(back, unit, unit.head + head, row, rows, from, to, s, g, of_query);
      }
    }
  }
}
