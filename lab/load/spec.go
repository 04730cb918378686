package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Workload is an operation mix and its keys and values: built in (YCSB, Twitter) or from a file.
type Workload struct {
	Name string `json:"name"`
	// Operations are the shares of the verbs; they add up to 1.
	Operations map[string]float64 `json:"operations"`
	Keys       Keys               `json:"keys"`
	MGet       MGetKeys           `json:"mget"`
	Values     Values             `json:"values"`
	TTLs       []TTLShare         `json:"ttls"`
	Hot        Hot                `json:"hot"`
	Burst      Burst              `json:"burst"`

	shares [verbs]float64
}

// Keys describes the keys and how often each is accessed.
type Keys struct {
	Count        int          `json:"count"` // initially
	Max          int          `json:"max"`   // with inserts; default ten times Count
	Bytes        int          `json:"bytes"` // minimum length of their names
	Distribution Distribution `json:"distribution"`
	Exponent     float64      `json:"exponent"` // for all but uniform
}

// MGetKeys is how many keys an MGET has: evenly distributed from Min to Max. Consecutive keys have consecutive numbers.
type MGetKeys struct {
	Min         int  `json:"min"`
	Max         int  `json:"max"`
	Consecutive bool `json:"consecutive"`
}

// Upper bounds of a workload.
const (
	mostKeys     = 100_000_000
	mostMGetKeys = 1000
	mostExponent = 20
	mostKeyBytes = 64 << 10
)

// Duration is a time.Duration that is written as 90s, 1h30m or 7d.
type Duration time.Duration

// ParseDuration parses a duration with Go's units or d for days.
func ParseDuration(s string) (Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && math.Abs(n) < 36500 {
			return Duration(math.Round(n*24*3600*1e3)) * Duration(time.Millisecond), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil {
		return Duration(d), nil
	}
	return 0, fmt.Errorf("duration %q: write it like 500ms, 90s, 1h30m or 7d", s)
}

// UnmarshalJSON reads a duration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration %s: write it like 500ms, 90s, 1h30m or 7d", b)
	}
	parsed, err := ParseDuration(s)
	*d = parsed
	return err
}

func (d Duration) String() string { return time.Duration(d).String() }

// Seconds is the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// NewWorkload returns a built-in workload (ycsb-a to ycsb-f, twitter-1 to twitter-54), or reads one from a YAML file if
// the name is a path.
func NewWorkload(name string) (*Workload, error) {
	var w *Workload
	var err error
	switch {
	case strings.HasPrefix(name, "ycsb-"):
		w, err = ycsb(name)
	case strings.HasPrefix(name, "twitter-"):
		w, err = twitter(name)
	default:
		w, err = readWorkload(name)
	}
	if err != nil {
		return nil, err
	}
	trial := *w // the config completes it, and may override it
	if err := trial.complete(); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	return w, nil
}

func readWorkload(path string) (*Workload, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil,
			fmt.Errorf("workload %q: no such file; built-in workloads are ycsb-a to ycsb-f and twitter-1 to twitter-54",
				path)
	} else if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	w, err := parseWorkload(b)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", path, err)
	}
	if w.Name == "" {
		w.Name = path
	}
	return w, nil
}

// parseWorkload parses YAML. It refuses unknown fields, which are most likely misspelled.
func parseWorkload(b []byte) (*Workload, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("the file is empty: give at least the shares of its operations")
	}
	var w Workload
	if err := yaml.UnmarshalStrict(b, &w); err != nil {
		return nil, err
	}
	return &w, nil
}

// complete sets defaults and validates the rest.
func (w *Workload) complete() error {
	setDefault(&w.Keys.Count, 10_000)
	setDefault(&w.Keys.Distribution, Even)
	if w.Keys.Distribution == Scrambled || w.Keys.Distribution == Latest {
		setDefault(&w.Keys.Exponent, ycsbExponent)
	}
	if w.Operations[Insert.String()] > 0 {
		setDefault(&w.Keys.Max, min(10*w.Keys.Count, mostKeys))
	}
	if w.Operations[MGet.String()] > 0 && w.MGet.Max == 0 {
		w.MGet.Max = max(4, w.MGet.Min)
	}
	setDefault(&w.MGet.Min, w.MGet.Max)
	return errors.Join(w.normalizeShares(), w.Keys.check(w), w.checkMGet(), w.Values.check(), checkTTLs(w.TTLs),
		w.Hot.check(w.Keys.Count),
		w.Burst.check())
}

func isOne(sum float64) bool { return math.Abs(sum-1) <= 0.01 }

// normalizeShares orders the shares by verb and normalizes their sum to exactly 1.
func (w *Workload) normalizeShares() error {
	var errs []error
	sum := 0.0
	for name, share := range w.Operations {
		v, err := parseVerb(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !(share >= 0 && share <= 1.01) {
			errs = append(errs, fmt.Errorf("operations: share %g of %s: it must be between 0 and 1", share, name))
		}
		w.shares[v] = share
		sum += share
	}
	if len(errs) == 0 && !isOne(sum) {
		errs = append(errs, fmt.Errorf("operations: the shares add up to %.4g: they must add up to 1", sum))
	}
	for v := range w.shares {
		w.shares[v] /= sum
	}
	return errors.Join(errs...)
}

func (w *Workload) share(v Verb) float64 { return w.shares[v] }

func (k *Keys) check(w *Workload) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("keys: "+format, args...))
		}
	}
	wrong(k.Count < 1 || k.Count > mostKeys, "count %d: it must be between 1 and %d", k.Count, mostKeys)
	wrong(k.Bytes < 0 || k.Bytes > mostKeyBytes, "bytes %d: they must be between 0 and %d", k.Bytes, mostKeyBytes)
	wrong(!(k.Exponent >= 0 && k.Exponent <= mostExponent), "exponent %g: it must be between 0 and %d", k.Exponent,
		mostExponent)
	switch k.Distribution {
	case Even:
		wrong(k.Exponent != 0, "exponent %g, but the distribution is uniform: leave it out, or make it zipfian",
			k.Exponent)
	case Zipfian, Scrambled, Latest:
	default:
		wrong(true, "distribution %q: it must be uniform, zipfian, scrambled or latest", k.Distribution)
	}
	if w.Operations[Insert.String()] > 0 {
		wrong(k.Max < k.Count || k.Max > mostKeys, "max %d: it must be between the count of %d and %d", k.Max,
			k.Count, mostKeys)
	} else {
		wrong(k.Max != 0, "max %d, but the workload has no inserts: leave it out", k.Max)
	}
	return errors.Join(errs...)
}

func (w *Workload) checkMGet() error {
	m := w.MGet
	if w.Operations[MGet.String()] == 0 {
		if m != (MGetKeys{}) {
			return errors.New("mget: there is no share of mget in the operations: leave it out")
		}
		return nil
	}
	if m.Min < 1 || m.Max < m.Min || m.Max > mostMGetKeys || m.Max > w.Keys.Count {
		return fmt.Errorf("mget with %d to %d keys: it must be 1 to %d, and not more than the %d existing keys",
			m.Min, m.Max,
			mostMGetKeys, w.Keys.Count)
	}
	return nil
}

func (h Hot) check(keys int) error {
	if h == (Hot{}) {
		return nil
	}
	if h.Keys < 1 || h.Keys > keys || !(h.Share > 0 && h.Share <= 1) || h.Move < 0 {
		return fmt.Errorf(
			"%d hot keys with share %g: give 1 to %d keys, a share above 0 and at most 1, and a move that "+
				"is not negative",
			h.Keys, h.Share, keys)
	}
	return nil
}
