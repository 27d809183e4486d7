// exp and tanh over a vector. Included like vec.hpp, once for each instruction set, inside its namespace.

constexpr float LOWEST = -88.0f;

// e^x for x <= 0, to 1 ulp; 0 below -87.68, where the result would leave the normal numbers; NaN stays NaN.
//
// x = n·ln2 + r with |r| <= ln2 / 2, and e^r by a polynomial of degree 6. Adding 1.5·2^23 + 127 rounds x / ln2 to n and
// leaves n + 127 in the low bits: shifted to the exponent they are 2^n, and 0 for n = -127.
inline V::reg exponential_of(V::reg x) {
  const V::reg magic = V::set(12582912.0f + 127.0f);
  x = V::max(V::set(LOWEST), x);
  const V::reg shifted = V::fma(x, V::set(1.44269504088896341f), magic);
  const V::reg n = V::sub(shifted, magic);
  V::reg r = V::fnma(n, V::set(0.693145751953125f), x);
  r = V::fnma(n, V::set(1.42860682030941723e-6f), r);
  V::reg p = V::set(1.9875691500e-4f);
  p = V::fma(p, r, V::set(1.3981999507e-3f));
  p = V::fma(p, r, V::set(8.3334519073e-3f));
  p = V::fma(p, r, V::set(4.1665795894e-2f));
  p = V::fma(p, r, V::set(1.6666665459e-1f));
  p = V::fma(p, r, V::set(5.0000001201e-1f));
  p = V::add(V::fma(p, V::mul(r, r), r), V::set(1.0f));
  return V::mul(p, V::shift_to_exponent(shifted));
}

// tanh(x): a polynomial where |x| < 0.625, so that small values keep all their digits, else 1 - 2 / (e^(2|x|) + 1).
inline V::reg tanh_of(V::reg x) {
  const V::reg size = V::magnitude(x);
  const V::reg square = V::mul(x, x);
  V::reg p = V::set(-5.70498872745e-3f);
  p = V::fma(p, square, V::set(2.06390887954e-2f));
  p = V::fma(p, square, V::set(-5.37397155531e-2f));
  p = V::fma(p, square, V::set(1.33314422036e-1f));
  p = V::fma(p, square, V::set(-3.33332819422e-1f));
  const V::reg small = V::fma(V::mul(p, square), x, x);
  const V::reg e = exponential_of(V::mul(V::set(-2.0f), size));  // e^(-2|x|)
  const V::reg large = V::with_sign(V::div(V::sub(V::set(1.0f), e), V::add(V::set(1.0f), e)), x);
  return V::pick_below(size, V::set(0.625f), small, large);
}
