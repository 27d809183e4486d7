// Sums over the rows of a unit: by key, by distance, by cell. Included like vec.hpp, once for each instruction set.

// Rows `w + g·stride`, g < G, times `by[g]`: added to `columns`, their largest to `largest`, and by diagonal to
// `distances`, where key k of row g goes to place k - g.
template <int G, bool DISTANCES>
inline void add_rows(const float* w, std::ptrdiff_t stride, const float* by, Index keys, float* columns, float* largest,
                     float* distances) {
  V::reg scale[G];
  for (int g = 0; g < G; ++g) scale[g] = V::set(by[g]);
  Index k = 0;
  for (; k + V::width + G - 1 <= keys; k += V::width) {
    V::reg sum = V::load(columns + k), high = V::load(largest + k);
    V::reg diagonal = DISTANCES ? V::load(distances + k) : V::set(0);
    for (int g = 0; g < G; ++g) {
      const V::reg weight = V::mul(V::load(w + g * stride + k), scale[g]);
      sum = V::add(sum, weight);
      high = V::max(weight, high);
      if constexpr (DISTANCES) diagonal = V::fma(V::load(w + g * stride + k + g), scale[g], diagonal);
    }
    V::store(columns + k, sum);
    V::store(largest + k, high);
    if constexpr (DISTANCES) V::store(distances + k, diagonal);
  }
  for (; k < keys; k += V::width) {
    const Index n = keys - k < V::width ? keys - k : V::width;
    V::reg sum = V::load(columns + k, n, 0), high = V::load(largest + k, n, 0);
    V::reg diagonal = DISTANCES ? V::load(distances + k, n, 0) : V::set(0);
    for (int g = 0; g < G; ++g) {
      const V::reg weight = V::mul(V::load(w + g * stride + k, n, 0), scale[g]);
      sum = V::add(sum, weight);
      high = V::max(weight, high);
      if constexpr (DISTANCES) {
        const Index left = keys - k - g < V::width ? keys - k - g : V::width;
        if (left > 0) diagonal = V::fma(V::load(w + g * stride + k + g, left, 0), scale[g], diagonal);
      }
    }
    V::store(columns + k, n, sum);
    V::store(largest + k, n, high);
    if constexpr (DISTANCES) V::store(distances + k, n, diagonal);
  }
  if constexpr (DISTANCES) {  // places before 0: the first keys of the later rows
    for (int g = 1; g < G; ++g) {
      for (Index j = 0; j < g && j < keys; ++j) distances[j - g] += w[g * stride + j] * by[g];
    }
  }
}

template <bool DISTANCES>
inline void add_some_rows(const float* w, std::ptrdiff_t stride, const float* by, Index rows, Index keys, float* columns,
                          float* largest, float* distances) {
  Index r = 0;
  auto each = [&](auto group) {
    constexpr int G = decltype(group)::rows;
    for (; r + G <= rows; r += G) {
      add_rows<G, DISTANCES>(w + r * stride, stride, by + r, keys, columns, largest, distances - r);
    }
  };
  each(Group<8>{});
  each(Group<4>{});
  each(Group<1>{});
}

inline void clear(float* x, Index count) { memset(x, 0, static_cast<std::size_t>(count) * sizeof(float)); }

// Keys [first, last) of a strip that some row of a group may see; outside them all are hidden.
struct Seen {
  Index first;
  Index last;
};

inline Seen seen_by(const Strip& strip, Index head, Index row, Index rows) {
  Seen seen{0, strip.keys};
  for (int i = 0; i < strip.segment_count; ++i) {
    const Segment& part = strip.segments[i];
    const Index count = part.stop - part.start;
    const std::uint8_t* allowed = part.allowed + head * part.head_stride + row * part.row_stride;
    if (part.start == 0) {
      Index first = count;
      for (Index r = 0; r < rows; ++r) {
        Index k = 0;
        while (k < first && !allowed[r * part.row_stride + k]) ++k;
        first = k;
      }
      seen.first = first;
    }
    if (part.stop == strip.keys) {
      Index last = 0;
      for (Index r = 0; r < rows; ++r) {
        Index k = count;
        while (k > last && !allowed[r * part.row_stride + k - 1]) --k;
        last = k;
      }
      seen.last = part.start + last;
    }
  }
  if (seen.first >= seen.last) seen = {0, 0};
  return seen;
}

inline void fill(float* x, Index keys, Seen seen, float value) {
  for (Index k = 0; k < seen.first; ++k) x[k] = value;
  for (Index k = seen.last; k < keys; ++k) x[k] = value;
}

// What a strip's own tables hold where nothing was computed: hidden keys.
inline void fill_hidden(const Strip& strip, Index head, Index row, Seen seen) {
  float* scores = strip.scores + head * strip.head_stride + row * strip.row_stride;
  fill(scores, strip.keys, seen, strip.weights ? GONE : 0.0f);
  if (strip.weights) {
    fill(strip.weights + head * strip.weights_head_stride + row * strip.weights_row_stride, strip.keys, seen, 0.0f);
  }
}

// Sums over the rows of a unit, cell after cell.
class Columns {
 public:
  Columns(const Call& call, const Strip& strip, const Unit& unit, const Partial& partial, const Scratch& scratch)
      : call_(call), strip_(strip), unit_(unit), partial_(partial), largest_(scratch.largest) {
    const Index rows = unit.row_stop - unit.row_start;
    height_ = strip.cell_rows < rows ? strip.cell_rows : rows;
    several_ = height_ < rows;
    columns_ = several_ ? scratch.columns : partial.columns;
    clear(partial.columns, strip.keys);
    if (partial.distances) clear(partial.distances, strip.keys + rows - 1);
    start_cell(unit.row_start);
  }

  // Rows `[start, start + rows)` of the strip, of which those that count are added: `by[r]` · e for keys that are seen.
  void add(const float* e, std::ptrdiff_t stride, const float* by, const bool* counts, Index start, Index rows, Seen seen) {
    for (Index r = 0; r < rows;) {
      const Index stop = cell_ + height_ - start < rows ? cell_ + height_ - start : rows;
      while (r < stop) {
        Index end = r;
        while (end < stop && counts[end]) ++end;
        if (end > r) add_run(e + r * stride, stride, by + r, start + r, end - r, seen);
        r = end + (end < stop);
      }
      if (start + stop == cell_ + height_) end_cell();
    }
  }

 private:
  void add_run(const float* e, std::ptrdiff_t stride, const float* by, Index row, Index rows, Seen seen) {
    const Index keys = seen.last - seen.first;
    float* columns = columns_ + seen.first;
    float* largest = largest_ + seen.first;
    if (partial_.distances) {
      float* places = partial_.distances + (unit_.row_stop - 1 - row) + seen.first;
      add_some_rows<true>(e, stride, by, rows, keys, columns, largest, places);
    } else {
      add_some_rows<false>(e, stride, by, rows, keys, columns, largest, nullptr);
    }
  }

  void start_cell(Index row) {
    cell_ = row;
    if (several_) clear(columns_, strip_.keys);
    clear(largest_, strip_.keys);
  }

  void end_cell() {
    if (call_.map_sum || call_.map_max) {
      double* cells = partial_.cells;
      float* largest_cells = partial_.largest;
      if (unit_.owns_cells) {
        const Index row_cell = call_.row_cells.cell_of(strip_.row_start + cell_);
        const Index line = (strip_.batch * call_.heads + strip_.head_start + unit_.head) * call_.row_cells.count + row_cell;
        cells = call_.map_sum ? call_.map_sum + line * call_.key_cells.count : nullptr;
        largest_cells = call_.map_max ? call_.map_max + line * call_.key_cells.count : nullptr;
      }
      pool(call_, strip_, columns_, largest_, cells, largest_cells);
    }
    if (several_) {
      for (Index k = 0; k < strip_.keys; ++k) partial_.columns[k] += columns_[k];
    }
    if (cell_ + height_ < unit_.row_stop) start_cell(cell_ + height_);
  }

  const Call& call_;
  const Strip& strip_;
  const Unit& unit_;
  const Partial& partial_;
  float* largest_;
  float* columns_;
  Index height_;  // of a cell, or of the part of one that the unit is
  Index cell_ = 0;  // first row of the cell at hand
  bool several_;
};

// A group of rows, from query and keys (or scores) to results.
inline void group_of_rows(const Call& call, const Strip& strip, Index head, [[maybe_unused]] const Scratch& scratch,
                          Index start, Index rows, Columns* columns, bool& spoiled) {
  const Seen seen = seen_by(strip, head, start, rows);
  const Index keys = seen.last - seen.first;
  std::ptrdiff_t stride = strip.row_stride;
  float* kept = strip.scores ? strip.scores + head * strip.head_stride + start * stride + seen.first : nullptr;
  float* table = kept;
#if defined(HEEDMAP_PRODUCTS)
  if (strip.query) {
    const Index first = strip.key_start + seen.first;
    stride = scratch.pitch;
    score_rows(strip, head, start, rows, first, strip.key_start + seen.last, scratch.table, stride);
    table = scratch.table + first % PANEL;
  }
#endif
  float* e = table;
  std::ptrdiff_t e_stride = stride;
  if (strip.weights) {
    e_stride = strip.weights_row_stride;
    e = strip.weights + head * strip.weights_head_stride + start * e_stride + seen.first;
  }
  float by[GROUP_ROWS];
  bool counts[GROUP_ROWS];
  for (Index r = 0; r < rows; ++r) {
    counts[r] = strip.counts(head, start + r);
    float* shifted = strip.weights ? kept + r * strip.row_stride : nullptr;
    const Row row{table + r * stride, e + r * e_stride, shifted, seen.first, seen.last};
    by[r] = finish_row(call, strip, head, start + r, row, counts[r], spoiled);
  }
  if (columns) columns->add(e, e_stride, by, counts, start, rows, seen);
#if defined(HEEDMAP_PRODUCTS)
  if (strip.output) {
    add_values(strip, head, start, rows, strip.key_start + seen.first, keys, e, e_stride, by, scratch.sums);
  }
#endif
  for (Index r = 0; strip.scores && r < rows; ++r) {
    if (strip.weights) multiply(e + r * e_stride, keys, by[r]);
    fill_hidden(strip, head, start + r, seen);
  }
}

inline void groups_of_rows(const Call& call, const Strip& strip, const Unit& unit, const Scratch& scratch, Columns* columns,
                           bool& spoiled) {
  for (Index start = unit.row_start; start < unit.row_stop; start += GROUP_ROWS) {
    const Index rows = start + GROUP_ROWS < unit.row_stop ? GROUP_ROWS : unit.row_stop - start;
    group_of_rows(call, strip, unit.head, scratch, start, rows, columns, spoiled);
  }
}

inline bool unit(const Call& call, const Strip& strip, const Unit& unit, const Partial& partial, const Scratch& scratch) {
  bool spoiled = false;
  if (call.columns()) {
    Columns columns(call, strip, unit, partial, scratch);
    groups_of_rows(call, strip, unit, scratch, &columns, spoiled);
  } else {
    groups_of_rows(call, strip, unit, scratch, nullptr, spoiled);
  }
  return spoiled;
}

inline void add_columns(double* received, const float* columns, Index start, Index stop) {
  for (Index k = start; k < stop; ++k) received[k] += static_cast<double>(columns[k]);
}

inline void add_distances(double* profile, const float* distances, Index last, Index start, Index stop) {
  for (Index i = start; i < stop; ++i) profile[last - i] += static_cast<double>(distances[i]);
}
