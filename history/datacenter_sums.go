package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Numbers to which several data centers add: what others have added appears in a data center at any time, in any
// portions. So no order of writes explains the replies, but numbers that only grow, or only shrink, still tell of a
// reply that cannot be.

// addsUp reports whether what several data centers have written of a key may have been added up: some of them adds.
func (k *keyAccesses) addsUp() bool {
	writers, adds := map[string]bool{}, false
	for i := range k.accesses {
		a := &k.accesses[i]
		if _, writes := a.wrote(); writes || a.does == add {
			writers[a.dc] = true
			adds = adds || a.does == add
		}
	}
	return adds && len(writers) > 1
}

// direction returns 1 if all writes of a key add positive numbers, and -1 if all add negative ones; else 0.
func (k *keyAccesses) direction() (sign int64) {
	for i := range k.accesses {
		a := &k.accesses[i]
		_, writes := a.wrote()
		switch {
		case a.does == add && a.delta > 0 && sign >= 0:
			sign = 1
		case a.does == add && a.delta < 0 && sign <= 0:
			sign = -1
		case a.does == add, writes:
			return 0
		}
	}
	return sign
}

// counted is what an operation tells of a number: what it has found, and what it has made of that.
type counted struct {
	*access
	found, made int64
}

// checkSums judges the replies of a data center about a number to which several add. With other writes they are not
// judged.
func (r *DataCenterReport) checkSums(h History, k *keyAccesses, dc string, o DataCenterOptions) {
	p := &r.Exact
	p.Keys++
	sign, all := k.direction(), int64(0)
	var told []counted
	for i := range k.accesses {
		a := &k.accesses[i]
		if a.does == add {
			all += a.delta * sign
		}
		if a.dc != dc || !a.answered {
			continue
		}
		if c, ok := countedBy(a, sign); ok {
			told = append(told, c)
		} else {
			p.NotJudged++
		}
	}
	p.Judged += len(told)
	if text, ops := judgeSums(h, told, all); text != "" {
		p.add(NotOneRedis, o, shown(k.name)+" in "+dc+": "+text, ops...)
	}
}

func countedBy(a *access, sign int64) (c counted, ok bool) {
	isRead := a.does == keep && a.asks == whole && !a.inFlight
	if sign == 0 || !isRead && a.does != add {
		return c, false
	}
	if !a.isNil {
		n, err := strconv.ParseInt(a.reply, 10, 64)
		if err != nil {
			return c, false
		}
		c.made = n * sign
	}
	if c.access, c.found = a, c.made; a.does == add {
		c.found -= a.delta * sign
	}
	return c, true
}

// judgeSums returns why the replies cannot be: of two adds one has found what the other has made; whoever starts later
// finds as much; and nobody finds more than all have added.
func judgeSums(h History, told []counted, all int64) (string, []int) {
	adds := slices.DeleteFunc(slices.Clone(told), func(c counted) bool { return c.does != add })
	slices.SortFunc(adds, func(a, b counted) int { return cmp.Compare(a.found, b.found) })
	for i := 1; i < len(adds); i++ {
		if a, b := &adds[i-1], &adds[i]; b.found < a.made {
			return fmt.Sprintf("neither of %s and %s has found the other", during(&h[a.op]), during(&h[b.op])),
				[]int{a.op, b.op}
		}
	}
	ended := slices.Clone(told)
	slices.SortFunc(ended, func(a, b counted) int { return cmp.Compare(a.end, b.end) })
	slices.SortFunc(told, func(a, b counted) int { return cmp.Compare(a.start, b.start) })
	var most *counted
	next := 0
	for i := range told {
		for ; ended[next].end < told[i].start; next++ {
			if most == nil || most.made < ended[next].made {
				most = &ended[next]
			}
		}
		switch {
		case most != nil && told[i].found < most.made:
			return fmt.Sprintf("%s has not found what %s has", during(&h[told[i].op]), during(&h[most.op])),
				[]int{most.op, told[i].op}
		case told[i].made > all:
			return fmt.Sprintf("%s: more than all have added, which is %d", during(&h[told[i].op]), all),
				[]int{told[i].op}
		}
	}
	return "", nil
}
