// Package cost estimates what rings of data centers save compared with a full copy in each data center, with the cost
// models of section 6.4 of the Karma paper:
//
//   - CAPEX: compute is proportional to the operations that servers execute, storage to the number of copies (Capex);
//   - OPEX: the bytes between data centers, or their price (Scenario.Rings, Scenario.Full).
//
// A Scenario is the input of both: data centers, rings, traffic, prices. It is built from a File, which the ring
// planner also reads. Paper repeats the paper's own analysis with its inputs, and compares its figures with the
// model's.
//
// The models are about means. They omit what does not depend on the rings: the stability vectors (a small message per
// pair of data centers every few milliseconds), cache invalidations, acknowledgements. Measured adds figures of a real
// deployment, which include them.
package cost

import "fmt"

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", noMinusZero(100*share, 1)) }

// noMinusZero avoids -0 for values that round to 0.
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
