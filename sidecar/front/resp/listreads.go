package resp

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/value"
)

// LLEN key
func llen(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.List)
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(h.Len()))
	return nil
}

// LINDEX key index
func lindex(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.List)
	if err != nil {
		return err
	}
	texts := h.Texts()
	index, ok := parseInt(args[2])
	if !ok && len(texts) > 0 { // Redis looks at the index only then
		return errNotInteger
	}
	if i, inside := indexIn(index, len(texts)); inside {
		c.out.writeBulkString(texts[i])
	} else {
		c.out.writeNull()
	}
	return nil
}

// LRANGE key start stop
func lrange(c *connection, args [][]byte) error {
	start, ok1 := parseInt(args[2])
	stop, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		return errNotInteger
	}
	h, err := c.collectionAt(args[1], value.List)
	if err != nil {
		return err
	}
	texts := h.Texts()
	from, to := rangeOf(start, stop, len(texts))
	c.writeTexts(texts[from:to])
	return nil
}

var (
	errRank0 = genericError("RANK can't be zero: use 1 to start from the first match, 2 from the second ... " +
		"or use negative to start from the end of the list")
	errCountBelow0 = genericError("COUNT can't be negative")
	errMaxLen      = genericError("MAXLEN can't be negative")
)

// places says which elements LPOS looks for.
type places struct {
	rank     int64 // the first one that counts; negative: from the end
	count    int64 // 0: all
	hasCount bool
	maxLen   int64 // how many are compared; 0: all
}

func parsePlaces(args [][]byte) (p places, err error) {
	p.rank, p.count = 1, 1
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return p, errSyntax
		}
		n, ok := parseInt(args[i+1])
		switch word := args[i]; {
		case equalFold(word, "rank") && !ok:
			return p, errNotInteger
		case equalFold(word, "rank") && n == 0:
			return p, errRank0
		case equalFold(word, "rank"):
			p.rank = n
		case equalFold(word, "count") && (!ok || n < 0):
			return p, errCountBelow0
		case equalFold(word, "count"):
			p.count, p.hasCount = n, true
		case equalFold(word, "maxlen") && (!ok || n < 0):
			return p, errMaxLen
		case equalFold(word, "maxlen"):
			p.maxLen = n
		default:
			return p, errSyntax
		}
	}
	return p, nil
}

// find returns the places of a text.
func (p *places) find(texts []string, text string) (found []int64) {
	skip, left, count := max(p.rank, -p.rank)-1, p.maxLen, p.count
	if p.rank == math.MinInt64 { // as in Redis, where its opposite is not positive
		skip, count = 0, 0
	}
	for n := range texts {
		i := n
		if p.rank < 0 {
			i = len(texts) - 1 - n
		}
		if texts[i] == text {
			if skip--; skip < 0 {
				found = append(found, int64(i))
			}
			if count > 0 && int64(len(found)) == count {
				break
			}
		}
		if left--; left == 0 {
			break
		}
	}
	return found
}

// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
func lpos(c *connection, args [][]byte) error {
	p, err := parsePlaces(args[3:])
	if err != nil {
		return err
	}
	h, err := c.collectionAt(args[1], value.List)
	if err != nil {
		return err
	}
	found := p.find(h.Texts(), string(args[2]))
	switch {
	case p.hasCount:
		c.out.writeArrayHeader(len(found))
		for _, i := range found {
			c.out.writeInteger(i)
			c.out.flushIfFull()
		}
	case len(found) == 0:
		c.out.writeNull()
	default:
		c.out.writeInteger(found[0])
	}
	return nil
}
