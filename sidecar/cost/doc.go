// Package cost says what rings of data centres save, against a copy of everything in each data centre, by the cost models
// of Karma's section 6.4:
//
//   - CAPEX: compute in proportion to the operations that servers carry out, storage in proportion to the copies (Capex);
//   - OPEX: the bytes that cross between data centres, or their price (Scenario.Rings, Scenario.Full).
//
// A Scenario is what both are computed from: data centres, rings, traffic, prices. It comes from a File, which is also what
// the ring planner reads. Paper repeats the paper's own analysis, with its inputs, and puts its figures beside the model's.
//
// These are models of the mean. They leave out what does not depend on the rings: the stability vectors (a small message
// per pair of data centres every few milliseconds), the cache's invalidations, acknowledgements. Measured carries figures of
// a real deployment in, which have them.
package cost

import "fmt"

// percent writes a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", noMinusZero(100*share, 1)) }

// noMinusZero keeps a value that rounds to 0 from being written as -0.
func noMinusZero(v float64, decimals int) float64 {
	if s := fmt.Sprintf("%.*f", decimals, v); s == fmt.Sprintf("-%.*f", decimals, 0.0) {
		return 0
	}
	return v
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
