//! Distribution functions, computed without tables: normal, Student's t, beta.

/// Coefficients `B(2k) / (2k (2k - 1))` of Stirling's series; a test recomputes them.
const STIRLING: [f64; 6] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];

/// `P(Z <= x)` of a standard normal variable (Marsaglia's series, Journal of Statistical Software 11(4), 2004).
pub fn normal_cdf(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (x, x, 3.0);
    while term.abs() > 1e-17 * sum.abs() {
        term *= x * x / odd;
        sum += term;
        odd += 2.0;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// The `p`-quantile of a standard normal variable, within -8 to 8.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    bisect(-8.0, 8.0, |x| normal_cdf(x) < p)
}

/// `ln Gamma(x)` for `x > 0`.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 15.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series: f64 = STIRLING.iter().rev().fold(0.0, |sum, c| sum / (x * x) + c) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// The regularised incomplete beta function `I_x(a, b)`, that is `P(B <= x)` of a beta variable.
pub(crate) fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges quickly only left of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_cdf(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    front.exp() / (a * beta_fraction(a, b, x))
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut f, mut c, mut d) = (1.0f64, 1.0f64, 0.0f64);
    for step in 1..10_000 {
        let m = f64::from(step / 2);
        let numerator = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / nonzero(1.0 + numerator * d);
        c = nonzero(1.0 + numerator / c);
        f *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    f
}

/// The `p`-quantile of a beta variable.
pub(crate) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    bisect(0.0, 1.0, |x| beta_cdf(a, b, x) < p)
}

/// `P(|T| >= |t|)` of Student's t with `df` degrees of freedom.
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    beta_cdf(0.5 * df, 0.5, df / (df + t * t))
}

/// The `t >= 0` with `P(|T| >= t) = p`.
pub(crate) fn t_critical(p: f64, df: f64) -> f64 {
    // t = tan(u) maps the half-line to an interval.
    bisect(0.0, std::f64::consts::FRAC_PI_2, |u| t_two_sided(u.tan(), df) > p).tan()
}

/// The point in `low..high` where `below` turns false.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{a} is not {b}");
    }

    /// Bernoulli numbers from their recurrence: sum over j of C(m + 1, j) B(j) = 0.
    fn bernoulli(upto: usize) -> Vec<f64> {
        let mut b = vec![1.0];
        for m in 1..=upto {
            let mut choose = 1.0;
            let mut sum = 0.0;
            for (j, value) in b.iter().enumerate() {
                sum += choose * value;
                choose *= (m + 1 - j) as f64 / (j + 1) as f64;
            }
            b.push(-sum / (m + 1) as f64);
        }
        b
    }

    #[test]
    fn stirling_coefficients_follow_from_the_bernoulli_numbers() {
        let b = bernoulli(12);
        for (i, c) in STIRLING.iter().enumerate() {
            let k = 2 * (i + 1);
            close(*c, b[k] / (k * (k - 1)) as f64, 1e-12);
        }
    }

    #[test]
    fn gamma_agrees_with_factorials_and_half_integers() {
        let mut factorial = 0.0;
        let mut half = std::f64::consts::PI.sqrt().ln();
        for n in 1..200 {
            close(ln_gamma(n as f64), factorial, 1e-13);
            close(ln_gamma(n as f64 - 0.5), half, 1e-13);
            factorial += (n as f64).ln();
            half += (n as f64 - 0.5).ln();
        }
    }

    #[test]
    fn beta_agrees_with_binomial_sums() {
        for n in 1..25u32 {
            for k in 0..n {
                for p in [0.01, 0.2, 0.5, 0.77, 0.99] {
                    let mut sum = 0.0;
                    let mut choose = 1.0;
                    for i in 0..=k {
                        sum += choose * f64::powi(p, i as i32) * f64::powi(1.0 - p, (n - i) as i32);
                        choose *= f64::from(n - i) / f64::from(i + 1);
                    }
                    close(beta_cdf(f64::from(n - k), f64::from(k + 1), 1.0 - p), sum, 1e-12);
                }
            }
        }
    }

    #[test]
    fn student_agrees_with_its_closed_forms() {
        for t in [0.1, 0.7, 1.0, 3.0, 25.0] {
            close(t_two_sided(t, 1.0), 1.0 - 2.0 / std::f64::consts::PI * f64::atan(t), 1e-12);
            close(t_two_sided(t, 2.0), 1.0 - t / f64::sqrt(2.0 + t * t), 1e-12);
            close(t_critical(t_two_sided(t, 5.0), 5.0), t, 1e-9);
        }
        close(t_two_sided(1.3, 1e6), 2.0 * (1.0 - normal_cdf(1.3)), 1e-5);
    }

    #[test]
    fn normal_agrees_with_numerical_integration_and_its_inverse() {
        for x in [-3.0f64, -1.0, 0.0, 0.5, 1.96, 4.0] {
            let steps = 200_000;
            let h = x / f64::from(steps);
            let middle = |i| (f64::from(i) + 0.5) * h;
            let area: f64 = (0..steps).map(|i| (-0.5 * middle(i) * middle(i)).exp() * h).sum();
            close(normal_cdf(x), 0.5 + area / std::f64::consts::TAU.sqrt(), 1e-9);
            close(normal_quantile(normal_cdf(x)), x, 1e-9);
        }
    }

    #[test]
    fn beta_quantile_inverts_the_distribution() {
        for (p, a, b) in [(0.025, 3.0, 8.0), (0.5, 1.0, 1.0), (0.975, 20.0, 1.0)] {
            close(beta_cdf(a, b, beta_quantile(p, a, b)), p, 1e-10);
        }
        close(beta_quantile(0.3, 1.0, 1.0), 0.3, 1e-12);
    }
}
