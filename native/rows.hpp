// The row terms of a strip. Included like vec.hpp, once for each instruction set, inside its namespace.

constexpr Index SEARCH_KEYS = 64 * V::width;  // keys whose largest score is kept apart while the top key is sought
constexpr Index SUM_KEYS = 128 * V::width;    // keys summed in float before their sums go to double
constexpr float GONE = -30000.0f;             // shifted score of a hidden pair: finite, so that 0 times it is 0
constexpr float INFINITE = INFINITY;
constexpr float LARGEST = 3.402823466e38f;

struct RowSums {  // over all keys but the top one; e = exp(s - top score)
  double rest = 0;      // Σ e
  double surprise = 0;  // Σ e·(s - top score)
  double squares = 0;   // Σ e²
  double cubes = 0;     // Σ e³
  double distance = 0;  // Σ e·(query - key)
};

inline void soften_row(float* s, Index keys, float cap) {
  const V::reg inverse = V::set(1.0f / cap), bound = V::set(cap);
  Index k = 0;
  for (; k + V::width <= keys; k += V::width) {
    V::store(s + k, V::mul(bound, tanh_of(V::mul(V::load(s + k), inverse))));
  }
  if (k < keys) {
    V::store(s + k, keys - k, V::mul(bound, tanh_of(V::mul(V::load(s + k, keys - k, 0), inverse))));
  }
}

inline void hide(float* s, const std::uint8_t* allowed, Index keys) {
  for (Index k = 0; k < keys; ++k) s[k] = allowed[k] ? s[k] : -INFINITE;
}

// Largest score and its lowest index; NaN is passed over, and -1 stands for "all of them are -infinity".
inline float find_top(const float* s, Index keys, Index& top) {
  float best = -INFINITE;
  Index chunk = -1;
  for (Index start = 0; start < keys; start += SEARCH_KEYS) {
    const Index stop = start + SEARCH_KEYS < keys ? start + SEARCH_KEYS : keys;
    V::reg a = V::set(-INFINITE), b = a, c = a, d = a;
    Index k = start;
    for (; k + 4 * V::width <= stop; k += 4 * V::width) {
      a = V::max(V::load(s + k), a);
      b = V::max(V::load(s + k + V::width), b);
      c = V::max(V::load(s + k + 2 * V::width), c);
      d = V::max(V::load(s + k + 3 * V::width), d);
    }
    for (; k + V::width <= stop; k += V::width) a = V::max(V::load(s + k), a);
    if (k < stop) b = V::max(V::load(s + k, stop - k, -INFINITE), b);
    const float largest = V::largest(V::max(V::max(a, b), V::max(c, d)));
    if (largest > best) {
      best = largest;
      chunk = start;
    }
  }
  top = -1;
  if (chunk < 0) return best;
  const V::reg wanted = V::set(best);
  Index k = chunk;
  while (k + V::width <= keys && !V::any_equal(V::load(s + k), wanted)) k += V::width;
  while (s[k] != best) ++k;
  top = k;
  return best;
}

template <bool KEEP>
inline void add_keys(const float* s, float* e, float* shifted, Index at, Index n, V::reg top, V::reg distance,
                     V::reg* sums) {
  // n < width: the last, short vector of a row
  const bool whole = n >= V::width;
  V::reg x = V::sub(whole ? V::load(s + at) : V::load(s + at, n, -INFINITE), top);
  if constexpr (KEEP) {
    const V::reg kept = V::pick_below(x, V::set(-LARGEST), V::set(GONE), x);
    whole ? V::store(shifted + at, kept) : V::store(shifted + at, n, kept);
  }
  x = V::max(V::set(LOWEST), x);
  const V::reg y = exponential_of(x);
  whole ? V::store(e + at, y) : V::store(e + at, n, y);
  const V::reg square = V::mul(y, y);
  sums[0] = V::add(sums[0], y);
  sums[1] = V::fma(y, x, sums[1]);
  sums[2] = V::add(sums[2], square);
  sums[3] = V::fma(square, y, sums[3]);
  sums[4] = V::fma(y, distance, sums[4]);
}

// e = exp(s - top score), and the sums over it. `s` and `e` may be the same row. `distance` is that of key 0.
template <bool KEEP>
inline RowSums exponentials(const float* s, float* e, float* shifted, Index keys, float top_score, float distance) {
  const V::reg top = V::set(top_score), step = V::set(static_cast<float>(V::width));
  RowSums found;
  for (Index start = 0; start < keys; start += SUM_KEYS) {
    const Index stop = start + SUM_KEYS < keys ? start + SUM_KEYS : keys;
    V::reg sums[5] = {V::set(0), V::set(0), V::set(0), V::set(0), V::set(0)};
    V::reg far = V::sub(V::set(distance - static_cast<float>(start)), V::ramp());
    Index k = start;
    for (; k + V::width <= stop; k += V::width) {
      add_keys<KEEP>(s, e, shifted, k, V::width, top, far, sums);
      far = V::sub(far, step);
    }
    if (k < stop) add_keys<KEEP>(s, e, shifted, k, stop - k, top, far, sums);
    found.rest += V::total(sums[0]);
    found.surprise += V::total(sums[1]);
    found.squares += V::total(sums[2]);
    found.cubes += V::total(sums[3]);
    found.distance += V::total(sums[4]);
  }
  return found;
}

inline void multiply(float* x, Index count, float factor) {
  const V::reg by = V::set(factor);
  Index i = 0;
  for (; i + V::width <= count; i += V::width) V::store(x + i, V::mul(V::load(x + i), by));
  if (i < count) V::store(x + i, count - i, V::mul(V::load(x + i, count - i, 0), by));
}

// Scores of one row, its exponentials, and (with tables) its shifted scores; keys [first, last) of the strip are there.
struct Row {
  float* s;
  float* e;
  float* shifted;  // null: not kept
  Index first;
  Index last;
};

// Row `row` of head `head` of a strip, from scores to exponentials and results; returns what e is times to be the weight.
inline float finish_row(const Call& call, const Strip& strip, Index head, Index row, const Row& at_hand, bool counts,
                        bool& spoiled) {
  float* s = at_hand.s;
  float* e = at_hand.e;
  const Index keys = at_hand.last - at_hand.first;
  if (call.softcap != 0) soften_row(s, keys, call.softcap);
  for (int i = 0; i < strip.segment_count; ++i) {
    const Segment& part = strip.segments[i];
    const Index start = part.start < at_hand.first ? at_hand.first : part.start;
    const Index stop = part.stop < at_hand.last ? part.stop : at_hand.last;
    if (start >= stop) continue;
    const std::uint8_t* allowed = part.allowed + head * part.head_stride + row * part.row_stride;
    hide(s + (start - at_hand.first), allowed + (start - part.start), stop - start);
  }

  Index top = -1;
  const float top_score = find_top(s, keys, top);
  const bool empty = top < 0;
  const Index query_head = strip.head_start + head;
  const float sink = call.sinks ? call.sinks[query_head] : -INFINITE;
  const float largest = sink > top_score ? sink : top_score;
  const float base = empty ? 0.0f : top_score;

  // The top key is kept apart: 1 - w and the Jacobian would cancel with it.
  const Index distance = strip.row_start + row + call.query_offset - strip.key_start - at_hand.first - call.key_offset;
  if (!empty) s[top] = -INFINITE;
  RowSums sums = at_hand.shifted
                     ? exponentials<true>(s, e, at_hand.shifted, keys, base, static_cast<float>(distance))
                     : exponentials<false>(s, e, nullptr, keys, base, static_cast<float>(distance));
  if (!empty) {
    e[top] = 1.0f;
    if (at_hand.shifted) at_hand.shifted[top] = 0.0f;
    sums.distance += static_cast<double>(distance - top);
  }
  // Exponentials are taken from the top score, since a sink far above it would eat its digits, and brought down here.
  const double above = empty ? 0.0 : static_cast<double>(largest) - static_cast<double>(top_score);
  const double smaller = empty ? 1.0 : above > 0 ? exp(-above) : 1.0;
  const double sink_below = sink > -INFINITE ? static_cast<double>(sink) - static_cast<double>(largest) : 0.0;
  const double sink_e = sink > -INFINITE ? exp(sink_below) : 0.0;
  const double keys_e = sums.rest + (empty ? 0.0 : 1.0);
  double l = keys_e * smaller + sink_e;
  if (!empty && !(top_score < INFINITE)) l = NAN;
  const double each = l > 0 ? smaller / l : 0.0;  // weights = e · each
  const float scale = l == l ? static_cast<float>(each) : NAN;

  const Index here = head * strip.rows + row;
  strip.top_score[here] = top_score;
  strip.row_max[here] = largest;
  strip.row_sum[here] = static_cast<float>(l);
  strip.scale[here] = scale;
  strip.top[here] = empty ? -1 : top + at_hand.first;
  if (!counts) return scale;
  spoiled |= !(l < static_cast<double>(INFINITE));

  const Index at = (strip.batch * call.heads + query_head) * call.query_len + strip.row_start + row;
  const double a = empty ? 0.0 : each, squares = sums.squares * each * each, cubes = sums.cubes * each * each * each;
  if (call.row_max) call.row_max[at] = largest;
  if (call.row_sum) call.row_sum[at] = static_cast<float>(l);
  if (call.logsumexp) call.logsumexp[at] = l > 0 ? static_cast<float>(largest + log(l)) : -INFINITE;
  if (call.entropy) {
    double entropy = l > 0 ? log(l) + each * (above * keys_e - sums.surprise) : 0.0;
    if (sink_e > 0) entropy -= sink_e / l * sink_below;
    call.entropy[at] = entropy < 0 ? 0.0f : static_cast<float>(entropy);
  }
  if (call.max_weight) call.max_weight[at] = static_cast<float>(a);
  if (call.row_mass) call.row_mass[at] = static_cast<float>(keys_e * each);
  if (call.concentration) call.concentration[at] = static_cast<float>(a * a + squares);
  if (call.saturation) {
    const double rest = a * (l > 0 ? sums.rest * each + sink_e / l : 0.0);
    const double norm = rest * rest + squares * (1 + 2 * a * a) - 2 * cubes + squares * squares;
    call.saturation[at] = norm > 0 ? static_cast<float>(sqrt(norm)) : 0.0f;
  }
  if (call.mean_distance) call.mean_distance[at] = static_cast<float>(sums.distance * each);
  if (call.argmax) call.argmax[at] = empty ? -1 : top + at_hand.first + strip.key_start + call.key_offset;
  return scale;
}
