package chart

import (
	"math"
	"strconv"
	"strings"
)

// scale maps values to pixels.
type scale struct {
	lo, hi   float64
	log      bool
	from, to float64
}

// drawable reports whether v has a position on the axis.
func (s scale) drawable(v float64) bool { return finite(v) && (!s.log || v > 0) }

// at returns the pixel of v, or of the nearer end if v is out of range.
func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log10(v), math.Log10(lo), math.Log10(hi)
	}
	share := min(max((v-lo)/(hi-lo), 0), 1)
	return s.from + share*(s.to-s.from)
}

// span collects the range of values on an axis.
type span struct {
	lo, hi float64
	any    bool
}

func (r *span) add(v float64, log bool) {
	if !finite(v) || log && v <= 0 {
		return
	}
	if !r.any {
		r.lo, r.hi, r.any = v, v, true
		return
	}
	r.lo, r.hi = min(r.lo, v), max(r.hi, v)
}

// scaleOf computes the range of an axis. With loose, both ends are ticks, so that nothing touches the frame.
func (a Axis) scaleOf(data span, loose bool) scale {
	s := scale{lo: data.lo, hi: data.hi, log: a.Log}
	if a.Max > a.Min && finite(a.Max-a.Min) && (!a.Log || a.Min > 0) {
		s.lo, s.hi = a.Min, a.Max
		return s
	}
	switch {
	case !data.any && a.Log:
		s.lo, s.hi = 1, 10
	case !data.any:
		s.lo, s.hi = 0, 1
	case a.Log:
		if loose || s.lo == s.hi {
			s.lo, s.hi = logFloor(s.lo), logCeil(s.hi)
		}
		if s.lo == s.hi {
			s.lo, s.hi = s.lo/10, s.hi*10
		}
	default:
		if loose {
			s.lo, s.hi = min(s.lo, 0), max(s.hi, 0)
		}
		if s.lo == s.hi {
			s.lo, s.hi = s.lo-1, s.hi+1
			if loose {
				s.lo = 0
			}
		}
		if loose {
			step := niceStep(s.hi-s.lo, 6)
			s.lo, s.hi = math.Floor(s.lo/step+1e-9)*step, math.Ceil(s.hi/step-1e-9)*step
		}
	}
	return s
}

func logFloor(v float64) float64 { return math.Pow10(int(math.Floor(math.Log10(v) + 1e-9))) }

func logCeil(v float64) float64 { return math.Pow10(int(math.Ceil(math.Log10(v) - 1e-9))) }

// niceStep is a round number that divides the width into about n parts at most.
func niceStep(width float64, n int) float64 {
	raw := width / float64(max(n, 1))
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// tick is a value that is marked on an axis; a minor tick has no label.
type tick struct {
	value float64
	label string
}

// ticks returns about n labeled ticks at most.
func (s scale) ticks(n int) []tick {
	if s.log {
		return s.logTicks(n)
	}
	step := niceStep(s.hi-s.lo, n)
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []tick
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9; i++ {
		out = append(out, tick{i * step, number(i*step, decimals)})
	}
	return out
}

func (s scale) logTicks(n int) []tick {
	first, last := int(math.Floor(math.Log10(s.lo)+1e-9)), int(math.Ceil(math.Log10(s.hi)-1e-9))
	every := max(1, (last-first+n)/max(n, 1))
	mantissas := []float64{1}
	if 3*(last-first) <= n {
		mantissas = []float64{1, 2, 5}
	}
	var out []tick
	for e := first; e <= last; e++ {
		for _, m := range mantissas {
			v := m * math.Pow10(e)
			if (e-first)%every == 0 && v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
				out = append(out, tick{v, number(v, max(0, -e))})
			}
		}
	}
	if len(out) < 2 { // a narrow range between two powers
		return []tick{{s.lo, number(s.lo, 2)}, {s.hi, number(s.hi, 2)}}
	}
	return out
}

// number formats a value of an axis: 0.05, 250, 20k, 3M.
func number(v float64, decimals int) string {
	unit := ""
	switch {
	case math.Abs(v) >= 1e6:
		v, unit, decimals = v/1e6, "M", 3
	case math.Abs(v) >= 1e4:
		v, unit, decimals = v/1e3, "k", 3
	}
	s := strconv.FormatFloat(v, 'f', min(decimals, 9), 64)
	if unit != "" {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s + unit
}
