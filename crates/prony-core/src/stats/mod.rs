//! Statistics of METHOD 4: estimates, intervals, tests, corrections, looks.
