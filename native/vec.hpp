// Vectors of floats, one struct for each instruction set, all with the same few operations.
//
// Included once in each translation unit of an instruction set, inside its namespace, after the intrinsics' header:
// nothing here may be shared between them, or the linker could hand AVX-512 code to an older processor.

#if defined(HEEDMAP_AVX512)

struct V {
  using reg = __m512;
  static constexpr Index width = 16;
  static __mmask16 first(Index n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static reg set(float x) { return _mm512_set1_ps(x); }
  static reg ramp() { return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
  static reg load(const float* p) { return _mm512_loadu_ps(p); }
  static reg load(const float* p, Index n, float fill) { return _mm512_mask_loadu_ps(set(fill), first(n), p); }
  static void store(float* p, reg x) { _mm512_storeu_ps(p, x); }
  static void store(float* p, Index n, reg x) { _mm512_mask_storeu_ps(p, first(n), x); }
  static reg add(reg a, reg b) { return _mm512_add_ps(a, b); }
  static reg sub(reg a, reg b) { return _mm512_sub_ps(a, b); }
  static reg mul(reg a, reg b) { return _mm512_mul_ps(a, b); }
  static reg div(reg a, reg b) { return _mm512_div_ps(a, b); }
  static reg fma(reg a, reg b, reg c) { return _mm512_fmadd_ps(a, b, c); }    // a·b + c
  static reg fnma(reg a, reg b, reg c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a·b
  static reg max(reg a, reg b) { return _mm512_max_ps(a, b); }                // b where either is NaN
  static reg magnitude(reg x) { return _mm512_abs_ps(x); }
  static reg shift_to_exponent(reg x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
  }
  static reg with_sign(reg x, reg sign) {
    const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign), _mm512_castps_si512(x), 0xCA));
  }
  static reg pick_below(reg x, reg limit, reg below, reg otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), otherwise, below);
  }
  static bool any_equal(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) != 0; }
  static float total(reg x) { return _mm512_reduce_add_ps(x); }
  static float largest(reg x) { return _mm512_reduce_max_ps(x); }
};

#elif defined(HEEDMAP_AVX2)

struct V {
  using reg = __m256;
  static constexpr Index width = 8;
  static __m256i first(Index n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
  }
  static reg set(float x) { return _mm256_set1_ps(x); }
  static reg ramp() { return _mm256_set_ps(7, 6, 5, 4, 3, 2, 1, 0); }
  static reg load(const float* p) { return _mm256_loadu_ps(p); }
  static reg load(const float* p, Index n, float fill) {
    const __m256i mask = first(n);
    return _mm256_blendv_ps(set(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
  }
  static void store(float* p, reg x) { _mm256_storeu_ps(p, x); }
  static void store(float* p, Index n, reg x) { _mm256_maskstore_ps(p, first(n), x); }
  static reg add(reg a, reg b) { return _mm256_add_ps(a, b); }
  static reg sub(reg a, reg b) { return _mm256_sub_ps(a, b); }
  static reg mul(reg a, reg b) { return _mm256_mul_ps(a, b); }
  static reg div(reg a, reg b) { return _mm256_div_ps(a, b); }
  static reg fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
  static reg fnma(reg a, reg b, reg c) { return _mm256_fnmadd_ps(a, b, c); }
  static reg max(reg a, reg b) { return _mm256_max_ps(a, b); }
  static reg magnitude(reg x) { return _mm256_andnot_ps(set(-0.0f), x); }
  static reg shift_to_exponent(reg x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
  }
  static reg with_sign(reg x, reg sign) { return _mm256_or_ps(magnitude(x), _mm256_and_ps(set(-0.0f), sign)); }
  static reg pick_below(reg x, reg limit, reg below, reg otherwise) {
    return _mm256_blendv_ps(otherwise, below, _mm256_cmp_ps(x, limit, _CMP_LT_OQ));
  }
  static bool any_equal(reg a, reg b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) != 0; }
  static float total(reg x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
  static float largest(reg x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
};

#elif defined(HEEDMAP_NEON)

struct V {
  using reg = float32x4_t;
  static constexpr Index width = 4;
  static reg set(float x) { return vdupq_n_f32(x); }
  static reg ramp() {
    const float values[4] = {0, 1, 2, 3};
    return vld1q_f32(values);
  }
  static reg load(const float* p) { return vld1q_f32(p); }
  static reg load(const float* p, Index n, float fill) {
    float values[4] = {fill, fill, fill, fill};
    for (Index i = 0; i < n; ++i) values[i] = p[i];
    return vld1q_f32(values);
  }
  static void store(float* p, reg x) { vst1q_f32(p, x); }
  static void store(float* p, Index n, reg x) {
    float values[4];
    vst1q_f32(values, x);
    for (Index i = 0; i < n; ++i) p[i] = values[i];
  }
  static reg add(reg a, reg b) { return vaddq_f32(a, b); }
  static reg sub(reg a, reg b) { return vsubq_f32(a, b); }
  static reg mul(reg a, reg b) { return vmulq_f32(a, b); }
  static reg div(reg a, reg b) { return vdivq_f32(a, b); }
  static reg fma(reg a, reg b, reg c) { return vfmaq_f32(c, a, b); }
  static reg fnma(reg a, reg b, reg c) { return vfmsq_f32(c, a, b); }
  static reg max(reg a, reg b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static reg magnitude(reg x) { return vabsq_f32(x); }
  static reg shift_to_exponent(reg x) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(x), 23)); }
  static reg with_sign(reg x, reg sign) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, x); }
  static reg pick_below(reg x, reg limit, reg below, reg otherwise) {
    return vbslq_f32(vcltq_f32(x, limit), below, otherwise);
  }
  static bool any_equal(reg a, reg b) { return vmaxvq_u32(vceqq_f32(a, b)) != 0; }
  static float total(reg x) { return vaddvq_f32(x); }
  static float largest(reg x) { return vmaxvq_f32(x); }
};

#else

struct V {
  using reg = float;
  static constexpr Index width = 1;
  static reg set(float x) { return x; }
  static reg ramp() { return 0; }
  static reg load(const float* p) { return *p; }
  static reg load(const float* p, Index, float) { return *p; }
  static void store(float* p, reg x) { *p = x; }
  static void store(float* p, Index, reg x) { *p = x; }
  static reg add(reg a, reg b) { return a + b; }
  static reg sub(reg a, reg b) { return a - b; }
  static reg mul(reg a, reg b) { return a * b; }
  static reg div(reg a, reg b) { return a / b; }
  static reg fma(reg a, reg b, reg c) { return a * b + c; }
  static reg fnma(reg a, reg b, reg c) { return c - a * b; }
  static reg max(reg a, reg b) { return a > b ? a : b; }
  static reg magnitude(reg x) { return x < 0 ? -x : x; }
  static reg shift_to_exponent(reg x) {
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits <<= 23;
    memcpy(&x, &bits, sizeof bits);
    return x;
  }
  static reg with_sign(reg x, reg sign) { return copysignf(x, sign); }
  static reg pick_below(reg x, reg limit, reg below, reg otherwise) { return x < limit ? below : otherwise; }
  static bool any_equal(reg a, reg b) { return a == b; }
  static float total(reg x) { return x; }
  static float largest(reg x) { return x; }
};

#endif
