package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// flags declares the options of an experiment, and checks what was given.
type flags struct {
	*pflag.FlagSet
	checks []func() error
}

// must adds a check of the values.
func (f *flags) must(check func() error) { f.checks = append(f.checks, check) }

func (f *flags) check() error {
	var errs []error
	for _, check := range f.checks {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}

// unlessGiven sets a flag that was not given.
func (f *flags) unlessGiven(name, value string) error {
	if f.Lookup(name).Changed {
		return nil
	}
	return f.assign(name, strings.Split(value, ","))
}

// values returns the value of a flag, or those of its list.
func (f *flags) values(name string) []string {
	value := f.Lookup(name).Value
	if list, ok := value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{value.String()}
}

// assign sets a flag as if it had not been given.
func (f *flags) assign(name string, values []string) error {
	value := f.Lookup(name).Value
	if list, ok := value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return value.Set(values[0])
}

// count declares a number that is greater than 0.
func (f *flags) count(p *int, name, usage string) {
	f.IntVar(p, name, *p, usage)
	f.positive(name)
}

// positive checks that flags are greater than 0.
func (f *flags) positive(names ...string) {
	f.each(names, func(v float64) bool { return v > 0 }, "it must be greater than 0")
}

// notNegative checks that flags are at least 0.
func (f *flags) notNegative(names ...string) {
	f.each(names, func(v float64) bool { return v >= 0 }, "it must not be negative")
}

// between checks that flags are within bounds.
func (f *flags) between(least, most float64, names ...string) {
	f.each(names, func(v float64) bool { return v >= least && v <= most },
		fmt.Sprintf("it must be %g to %g", least, most))
}

// each checks the numbers of some flags, each of a list.
func (f *flags) each(names []string, holds func(float64) bool, must string) {
	f.must(func() error {
		for _, name := range names {
			for _, text := range f.values(name) {
				v, err := strconv.ParseFloat(text, 64)
				if d, failed := time.ParseDuration(text); err != nil && failed == nil {
					v, err = d.Seconds(), nil
				}
				if err != nil || !holds(v) {
					return fmt.Errorf("--%s: %s; %s", name, text, must)
				}
			}
		}
		return nil
	})
}

// oneOf checks that flags, or each value of their lists, are among the known ones, in any case of letters, and spells
// them like these.
func (f *flags) oneOf(known []string, names ...string) {
	f.must(func() error {
		for _, name := range names {
			values := f.values(name)
			for i, v := range values {
				at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, v) })
				if at < 0 {
					return fmt.Errorf("--%s: %q; give some of %s", name, v, strings.Join(known, ", "))
				}
				values[i] = known[at]
			}
			if err := f.assign(name, values); err != nil {
				return err
			}
		}
		return nil
	})
}

// nearCopies declares --near-copies.
func (f *flags) nearCopies(p *int, value int, usage string) {
	f.IntVar(p, "near-copies", value, usage)
	f.must(func() error {
		if *p != 0 && *p < contract.MinNearBytes {
			return fmt.Errorf("--near-copies %d: give at least %d bytes, or 0 for no near copies", *p,
				contract.MinNearBytes)
		}
		return nil
	})
}

// reads declares --reads.
func (f *flags) reads(p *causal.Level) {
	f.Var((*levelFlag)(p), "reads", "reads of all sessions: "+causal.JoinNames(causal.SessionLevels()))
}

// levelFlag is a flag for the level of sessions.
type levelFlag causal.Level

// String implements pflag.Value.
func (l *levelFlag) String() string { return causal.Level(*l).String() }

// Set implements pflag.Value.
func (l *levelFlag) Set(s string) error {
	level, ok := causal.ParseName(s, causal.SessionLevels())
	if !ok {
		return fmt.Errorf("use %s", causal.JoinNames(causal.SessionLevels()))
	}
	*l = levelFlag(level)
	return nil
}

// Type implements pflag.Value.
func (l *levelFlag) Type() string { return "string" }

// in declares a duration that is given as a number of units.
func (f *flags) in(unit time.Duration, p *time.Duration, name, usage string) {
	f.Var(&numberOf[time.Duration]{p, float64(unit)}, name, usage)
}

// numberOf is a flag for a number of units.
type numberOf[T ~int | ~int64] struct {
	at   *T
	unit float64
}

// String implements pflag.Value.
func (n *numberOf[T]) String() string {
	if n.at == nil {
		return "0"
	}
	return strconv.FormatFloat(float64(*n.at)/n.unit, 'g', -1, 64)
}

// Set implements pflag.Value.
func (n *numberOf[T]) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil {
		*n.at = T(v * n.unit)
	}
	return err
}

// Type implements pflag.Value.
func (n *numberOf[T]) Type() string { return "float" }

// line returns the flags that were given and affect the measurement, as they are given.
func (f *flags) line() (line string) {
	f.Visit(func(flag *pflag.Flag) {
		switch {
		case flag.Name == "json" || flag.Name == "dir" || flag.Name == "report":
		case flag.Value.Type() == "bool":
			line += " --" + flag.Name
		default:
			line += " --" + flag.Name + " " + strings.Trim(flag.Value.String(), "[]")
		}
	})
	return line
}
