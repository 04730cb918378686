package resp

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands that combine sorted sets, of which each may also be a set, whose members have the score 1.

var (
	errWeight       = genericError("weight value is not a float")
	errLimitBelow0  = genericError("LIMIT can't be negative")
	errNumkeys      = genericError("numkeys should be greater than 0")
	errTooManyNames = genericError("Number of keys can't be greater than number of args")
)

// combination is how sorted sets are combined.
type combination uint8

const (
	unionOf combination = iota
	intersectionOf
	differenceOf
)

// combineOptions are the options of ZUNION and its kind.
type combineOptions struct {
	combination combination
	storing     bool
	counting    bool // ZINTERCARD

	weights    []float64
	aggregate  func(a, b float64) float64
	withScores bool
	limit      int64
}

func sumOf(a, b float64) float64 {
	if sum := a + b; !math.IsNaN(sum) {
		return sum
	}
	return 0
}

// countedKeys returns the keys of a command that names their number, and what follows them.
func countedKeys(command string, args [][]byte) (keys, rest [][]byte, err error) {
	n, ok := parseInt(args[0])
	switch {
	case !ok:
		return nil, nil, errNotInteger
	case n < 1:
		return nil, nil, Errorf("ERR", "at least 1 input key is needed for '%s' command", command)
	case n > int64(len(args)-1):
		return nil, nil, errSyntax
	}
	return args[1 : 1+n], args[1+n:], nil
}

// parse parses the options that follow the keys.
func (o *combineOptions) parse(keys int, args [][]byte) error {
	o.aggregate = sumOf
	for i := 0; i < len(args); i++ {
		word, left := args[i], len(args)-i-1
		switch isPlain := o.combination != differenceOf && !o.counting; {
		case isPlain && left >= keys && equalFold(word, "weights"):
			o.weights = nil
			for _, arg := range args[i+1 : i+1+keys] {
				weight, ok := parseScore(arg)
				if !ok {
					return errWeight
				}
				o.weights = append(o.weights, weight)
			}
			i += keys
		case isPlain && left >= 1 && equalFold(word, "aggregate"):
			switch i++; {
			case equalFold(args[i], "sum"):
				o.aggregate = sumOf
			case equalFold(args[i], "min"):
				o.aggregate = math.Min
			case equalFold(args[i], "max"):
				o.aggregate = math.Max
			default:
				return errSyntax
			}
		case !o.storing && !o.counting && equalFold(word, "withscores"):
			o.withScores = true
		case o.counting && left >= 1 && equalFold(word, "limit"):
			i++
			limit, ok := parseInt(args[i])
			if !ok || limit < 0 {
				return errLimitBelow0
			}
			o.limit = limit
		default:
			return errSyntax
		}
	}
	return nil
}

// scoresIn returns the members of each value with their scores.
func (c *connection) scoresIn(values []causal.Value) ([]map[string]float64, error) {
	all := make([]map[string]float64, len(values))
	for i, v := range values {
		all[i] = map[string]float64{}
		kind := value.KindOf(v)
		switch {
		case !c.isLive(v):
			continue
		case kind != value.Set && kind != value.SortedSet:
			return nil, errWrongType
		}
		h := value.CollectionOf(v)
		for name, payload := range h.All() {
			if all[i][name] = 1; kind == value.SortedSet {
				all[i][name] = value.Score(payload)
			}
		}
	}
	return all, nil
}

// combine returns the members of the combination.
func (o *combineOptions) combine(all []map[string]float64) (members []scored) {
	result := map[string]float64{}
	for i, scores := range all {
		weight := 1.0
		if o.weights != nil {
			weight = o.weights[i]
		}
		for name, score := range scores {
			if score *= weight; math.IsNaN(score) {
				score = 0
			}
			switch before, has := result[name]; {
			case has && o.combination != differenceOf:
				result[name] = o.aggregate(before, score)
			case i == 0 || o.combination == unionOf:
				result[name] = score
			}
		}
	}
	for name, score := range result {
		if o.isIn(all, name) {
			members = append(members, scored{name, score})
		}
	}
	return members
}

// isIn reports whether a member is in the combination, which it is if it is in one of the sets and that suffices.
func (o *combineOptions) isIn(all []map[string]float64, name string) bool {
	for _, scores := range all[1:] {
		_, has := scores[name]
		if has && o.combination == differenceOf || !has && o.combination == intersectionOf {
			return false
		}
	}
	_, isFirst := all[0][name]
	return isFirst || o.combination == unionOf
}

// ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]
func zunion(c *connection, args [][]byte) error {
	return c.replyCombined("zunion", args[1:], combineOptions{combination: unionOf})
}

// ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]
func zinter(c *connection, args [][]byte) error {
	return c.replyCombined("zinter", args[1:], combineOptions{combination: intersectionOf})
}

// ZDIFF numkeys key [key ...] [WITHSCORES]
func zdiff(c *connection, args [][]byte) error {
	return c.replyCombined("zdiff", args[1:], combineOptions{combination: differenceOf})
}

// ZINTERCARD numkeys key [key ...] [LIMIT limit]
func zinterCard(c *connection, args [][]byte) error {
	return c.replyCombined("zintercard", args[1:], combineOptions{combination: intersectionOf, counting: true})
}

func (c *connection) replyCombined(command string, args [][]byte, o combineOptions) error {
	keys, rest, err := countedKeys(command, args)
	if err != nil {
		return err
	}
	all, err := c.readScores(keys)
	if err != nil {
		return err
	}
	if err := o.parse(len(keys), rest); err != nil {
		return err
	}
	members := o.combine(all)
	if o.counting {
		c.replyCount(len(members), o.limit)
		return nil
	}
	c.writeScored(sortMembers(members), o.withScores, true)
	return nil
}

// replyCount replies with a number of members, up to a limit; 0: none.
func (c *connection) replyCount(n int, limit int64) {
	count := int64(n)
	if limit > 0 {
		count = min(count, limit)
	}
	c.out.writeInteger(count)
}

func (c *connection) readScores(keys [][]byte) ([]map[string]float64, error) {
	values, err := c.readTogether(keys)
	if err != nil {
		return nil, err
	}
	return c.scoresIn(values)
}

// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX]
func zunionStore(c *connection, args [][]byte) error {
	return c.storeCombined("zunionstore", args, combineOptions{combination: unionOf, storing: true})
}

// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX]
func zinterStore(c *connection, args [][]byte) error {
	return c.storeCombined("zinterstore", args, combineOptions{combination: intersectionOf, storing: true})
}

// ZDIFFSTORE destination numkeys key [key ...]
func zdiffStore(c *connection, args [][]byte) error {
	return c.storeCombined("zdiffstore", args, combineOptions{combination: differenceOf, storing: true})
}

func (c *connection) storeCombined(command string, args [][]byte, o combineOptions) error {
	keys, rest, err := countedKeys(command, args[2:])
	if err != nil {
		return err
	}
	names := append([]string{string(args[1])}, keyStrings(keys)...)
	stored := 0
	err = c.changeKeys(storageKeys(c.database, names), func(ds []*draft) error {
		values := make([]causal.Value, len(ds)-1)
		for i, d := range ds[1:] {
			values[i] = d.current()
		}
		all, err := c.scoresIn(values)
		if err != nil {
			return err
		}
		if err := o.parse(len(keys), rest); err != nil {
			return err
		}
		members := o.combine(all)
		stored = len(members)
		return c.storeMembers(ds[0], members)
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(stored))
	return nil
}

// storeMembers makes a key the sorted set of some members.
func (c *connection) storeMembers(to *draft, members []scored) error {
	return c.store(to, value.SortedSet, func(yield func(name, payload string) bool) {
		for _, m := range members {
			if !yield(m.name, value.ScorePayload(m.score)) {
				return
			}
		}
	})
}

// SINTERCARD numkeys key [key ...] [LIMIT limit]
func sinterCard(c *connection, args [][]byte) error {
	n, ok := parseInt(args[1])
	switch {
	case !ok || n <= 0:
		return errNumkeys
	case n > int64(len(args)-2):
		return errTooManyNames
	}
	limit := int64(0)
	for rest := args[2+n:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 || !equalFold(rest[0], "limit") {
			return errSyntax
		}
		if limit, ok = parseInt(rest[1]); !ok || limit < 0 {
			return errLimitBelow0
		}
	}
	sets, err := c.readSets(args[2 : 2+n])
	if err != nil {
		return err
	}
	c.replyCount(len(intersection(sets)), limit)
	return nil
}
