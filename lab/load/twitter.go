package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// twitterCluster is a row of the published table.
type twitterCluster struct {
	number     int
	key, value int    // mean sizes in bytes
	ttls       string // "60s:0.39, 300s:0.24"
	operations string // "get:0.93 set:0.07"
	alpha      float64
}

// The number of keys of a cluster is not published: here it is as many as fit twitterBytes, within these bounds.
const (
	twitterBytes              = 64 << 20
	leastTwitter, mostTwitter = 1000, 100_000
)

// twitter returns the workload of a cluster.
func twitter(name string) (*Workload, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "twitter-"))
	if err != nil || number < 1 || number > 54 {
		return nil,
			fmt.Errorf("workload %q: the Twitter workloads are twitter-1 to twitter-54, without 5, 43, 46 and 53", name)
	}
	i := slices.IndexFunc(twitterTable, func(c twitterCluster) bool { return c.number == number })
	if i < 0 {
		return nil,
			fmt.Errorf(
				"workload %q: too little is published of that cluster; there are twitter-1 to twitter-54, "+
					"without 5, 43, 46 "+
					"and 53", name)
	}
	return twitterTable[i].workload()
}

func (c *twitterCluster) workload() (*Workload, error) {
	w := &Workload{Name: fmt.Sprintf("twitter-%d", c.number), Values: Values{Bytes: c.value}}
	w.Keys = Keys{Bytes: c.key, Distribution: Zipfian, Exponent: c.alpha}
	w.Keys.Count = max(leastTwitter, min(mostTwitter, twitterBytes/(c.key+c.value)))
	var err error
	if w.Operations, err = twitterOperations(c.operations); err != nil {
		return nil, fmt.Errorf("cluster %d: %w", c.number, err)
	}
	if w.TTLs, err = twitterTTLs(c.ttls); err != nil {
		return nil, fmt.Errorf("cluster %d: %w", c.number, err)
	}
	return w, nil
}

// memcached maps the operations of the traces to verbs. A Redis front end has no compare-and-swap: its read (gets)
// becomes a read, and its write (cas) an unconditional write.
var memcached = map[string]Verb{"get": Get, "gets": Get, "set": Set, "cas": Set, "add": Add, "incr": Incr,
	"delete": Del}

// twitterOperations converts the published shares. They are rounded to a hundredth, and operations below that are
// missing: what is missing to 1 becomes SETs, since something has to fill a cache. Sums that rounding put above 1 are
// scaled down.
func twitterOperations(published string) (map[string]float64, error) {
	out := make(map[string]float64)
	sum := 0.0
	for _, field := range strings.Fields(published) {
		name, share, err := twitterShare(field)
		if err != nil {
			return nil, err
		}
		verb, ok := memcached[name]
		if !ok {
			return nil, fmt.Errorf("operation %s has no counterpart", name)
		}
		out[verb.String()] += share
		sum += share
	}
	if rest := 1 - sum; rest > 1e-9 {
		out[Set.String()] += rest
	}
	for verb := range out {
		out[verb] /= max(1, sum)
	}
	return out, nil
}

// twitterTTLs normalizes the published shares, which cover only the common times to live, to 1.
func twitterTTLs(published string) ([]TTLShare, error) {
	var out []TTLShare
	sum := 0.0
	for _, field := range strings.Split(published, ", ") {
		text, share, err := twitterShare(field)
		if err != nil {
			return nil, err
		}
		ttl, err := ParseDuration(text)
		if err != nil {
			return nil, err
		}
		out = append(out, TTLShare{TTL: ttl, Share: share})
		sum += share
	}
	for i := range out {
		out[i].Share /= sum
	}
	return out, nil
}

// twitterShare parses "name:share".
func twitterShare(field string) (string, float64, error) {
	name, text, _ := strings.Cut(field, ":")
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", 0, fmt.Errorf("share %q: %w", field, err)
	}
	return name, share, nil
}
