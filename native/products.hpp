// Matrix products of a few rows with packed keys or values. Included like vec.hpp, for AVX-512 and AVX2: a group's scores
// then never leave the caches, and some matrix libraries take narrower registers than the processor has.

constexpr Index PANEL = 2 * V::width;
constexpr int TILE_ROWS = V::width == 16 ? 8 : 6;  // sums that fill the registers: 32 of AVX-512, 16 of AVX2
constexpr Index VALUE_KEYS = 512;  // keys whose values stay in a near cache while all rows of a group pass
static_assert(PANEL <= MOST_PANEL);

// c[i][0..PANEL) = (or +=) Σ_p a[i][p] · b[p][0..PANEL), for ROWS rows; ACROSS: a[p][i] instead of a[i][p].
template <int ROWS, bool ACROSS>
inline void tile(const float* a, std::ptrdiff_t a_stride, const float* b, std::ptrdiff_t b_stride, Index depth, float* c,
                 std::ptrdiff_t c_stride, bool accumulate) {
  V::reg left[ROWS], right[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    left[i] = accumulate ? V::load(c + i * c_stride) : V::set(0);
    right[i] = accumulate ? V::load(c + i * c_stride + V::width) : V::set(0);
  }
  for (Index p = 0; p < depth; ++p, b += b_stride) {
    const V::reg b_left = V::load(b), b_right = V::load(b + V::width);
    for (int i = 0; i < ROWS; ++i) {
      const V::reg x = V::set(ACROSS ? a[p * a_stride + i] : a[i * a_stride + p]);
      left[i] = V::fma(x, b_left, left[i]);
      right[i] = V::fma(x, b_right, right[i]);
    }
  }
  for (int i = 0; i < ROWS; ++i) {
    V::store(c + i * c_stride, left[i]);
    V::store(c + i * c_stride + V::width, right[i]);
  }
}

// The same for any number of rows.
template <bool ACROSS>
inline void tiles(const float* a, std::ptrdiff_t a_stride, const float* b, std::ptrdiff_t b_stride, Index depth, float* c,
                  std::ptrdiff_t c_stride, Index rows, bool accumulate) {
  Index r = 0;
  const auto many = [&](auto group) {
    constexpr int count = decltype(group)::rows;
    for (; r + count <= rows; r += count) {
      const float* from = a + (ACROSS ? r : r * a_stride);
      tile<count, ACROSS>(from, a_stride, b, b_stride, depth, c + r * c_stride, c_stride, accumulate);
    }
  };
  many(Group<TILE_ROWS>{});
  many(Group<4>{});
  many(Group<2>{});
  many(Group<1>{});
}

// Scores of `rows` rows from `row` on for keys [first, last) of the call, to `table`, whose column 0 is the key at
// `first` rounded down to a panel.
inline void score_rows(const Strip& strip, Index head, Index row, Index rows, Index first, Index last, float* table,
                       std::ptrdiff_t pitch) {
  const Index key_head = (strip.head_start + head) / strip.group;
  const float* query = strip.query + head * strip.query_head_stride + row * strip.query_row_stride;
  const Index start = first / PANEL;
  for (Index panel = start; panel * PANEL < last; ++panel) {
    const float* keys = strip.packed_keys + (key_head * strip.panels + panel) * strip.head_dim * PANEL;
    tiles<false>(query, strip.query_row_stride, keys, PANEL, strip.head_dim, table + (panel - start) * PANEL, pitch, rows, false);
  }
}

// output rows = scale · (e · [values, shared]), with e [rows, keys] for keys from `first` of the call on.
inline void add_values(const Strip& strip, Index head, Index row, Index rows, Index first, Index keys, const float* e,
                       std::ptrdiff_t pitch, const float* scale, float* sums) {
  const Index key_head = (strip.head_start + head) / strip.group;
  const Index own = (strip.value_dim + PANEL - 1) / PANEL, blocks = own + (strip.shared_dim + PANEL - 1) / PANEL;
  const Index width = blocks * PANEL, share = (strip.head_start + head) / strip.shared_group;
  memset(sums, 0, static_cast<std::size_t>(rows * width) * sizeof(float));
  for (Index start = 0; start < keys; start += VALUE_KEYS) {
    const Index depth = keys - start < VALUE_KEYS ? keys - start : VALUE_KEYS;
    for (Index block = 0; block < blocks; ++block) {
      const float* panels = block < own ? strip.packed_values + (key_head * own + block) * strip.key_len * PANEL
                                        : strip.packed_shared + (share * (blocks - own) + block - own) * strip.key_len * PANEL;
      const float* values = panels + (first + start) * PANEL;
      tiles<false>(e + start, pitch, values, PANEL, depth, sums + block * PANEL, width, rows, true);
    }
  }
  for (Index r = 0; r < rows; ++r) {
    float* out = strip.output + head * strip.output_head_stride + (row + r) * strip.output_row_stride;
    for (Index c = 0; c < strip.value_dim; ++c) out[c] = sums[r * width + c] * scale[r];
    const float* shared = sums + r * width + own * PANEL;
    for (Index c = 0; c < strip.shared_dim; ++c) out[strip.value_dim + c] = shared[c] * scale[r];
  }
}
