package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var weekdays = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// Window is when scheduled drills may run, in UTC. The zero Window is always.
type Window struct {
	days     []string
	from, to time.Duration // since midnight
	given    bool
}

// ParseWindow parses "Mon-Fri 09:00-16:00" and "09:00-16:00", in UTC. "" is always.
func ParseWindow(text string) (Window, error) {
	bad := fmt.Errorf(
		"window %q: give hours in UTC and, before them, days, such as \"Mon-Fri 09:00-16:00\" or \"09:00-16:00\"", text)
	fields := strings.Fields(text)
	w := Window{days: weekdays, given: true}
	switch len(fields) {
	case 0:
		return Window{}, nil
	case 1:
	case 2:
		first, last, ok := strings.Cut(fields[0], "-")
		if !ok {
			last = first
		}
		i, j := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if i < 0 || j < i {
			return Window{}, bad
		}
		w.days = weekdays[i : j+1]
	default:
		return Window{}, bad
	}
	from, to, ok := strings.Cut(fields[len(fields)-1], "-")
	begin, err := time.Parse("15:04", from)
	end, errEnd := time.Parse("15:04", to)
	if !ok || err != nil || errEnd != nil || !begin.Before(end) {
		return Window{}, bad
	}
	midnight := begin.Truncate(24 * time.Hour)
	w.from, w.to = begin.Sub(midnight), end.Sub(midnight)
	return w, nil
}

// Allows reports whether a run of a length that starts at a time ends within the window.
func (w Window) Allows(start time.Time, length time.Duration) bool {
	if !w.given {
		return true
	}
	start = start.UTC()
	since := start.Sub(time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, time.UTC))
	return slices.Contains(w.days, start.Format("Mon")) && since >= w.from && since+length <= w.to
}
