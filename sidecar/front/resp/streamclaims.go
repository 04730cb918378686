package resp

import (
	"math"
	"slices"

	"github.com/causalstore/causalstore/sidecar/value"
)

var errClaimCount = genericError("COUNT must be > 0")

func errClaimArgument(what, command string) error {
	return Errorf("ERR", "Invalid %s argument for %s", what, command)
}

// claim is what XCLAIM asks for.
type claim struct {
	group, consumer string
	minIdle         int64
	ids             []value.StreamID
	atMs            int64 // what the entries are said to have been delivered; noTime: now
	retries         int64 // noTime: count
	force, justID   bool
	last            value.StreamID
}

const noTime = -1

func (c *connection) parseClaim(args [][]byte) (q claim, err error) {
	q = claim{group: string(args[2]), consumer: string(args[3]), atMs: noTime, retries: noTime}
	ok := false
	if q.minIdle, ok = parseInt(args[4]); !ok {
		return q, errClaimArgument("min-idle-time", "XCLAIM")
	}
	q.minIdle = max(q.minIdle, 0)
	i := 5
	for ; i < len(args); i++ {
		id, err := parseStrictID(args[i])
		if err != nil {
			break
		}
		q.ids = append(q.ids, id)
	}
	now := c.nowMs()
	for ; i < len(args); i++ {
		var ok bool
		isLast := i+1 == len(args)
		switch word := args[i]; {
		case equalFold(word, "force"):
			q.force = true
		case equalFold(word, "justid"):
			q.justID = true
		case equalFold(word, "idle") && !isLast:
			i++
			if q.atMs, ok = parseInt(args[i]); !ok {
				return q, errClaimArgument("IDLE option", "XCLAIM")
			}
			q.atMs = now - q.atMs
		case equalFold(word, "time") && !isLast:
			i++
			if q.atMs, ok = parseInt(args[i]); !ok {
				return q, errClaimArgument("TIME option", "XCLAIM")
			}
		case equalFold(word, "retrycount") && !isLast:
			i++
			if q.retries, ok = parseInt(args[i]); !ok {
				return q, errClaimArgument("RETRYCOUNT option", "XCLAIM")
			}
		case equalFold(word, "lastid") && !isLast:
			i++
			if q.last, err = parseStrictID(args[i]); err != nil {
				return q, err
			}
		default:
			return q, Errorf("ERR", "Unrecognized XCLAIM option '%s'", cString(word, len(word)))
		}
	}
	if q.atMs < 0 || q.atMs > now {
		q.atMs = now
	}
	return q, nil
}

// claimed is what XCLAIM or XAUTOCLAIM returns.
type claimed struct {
	entries []value.StreamEntry
	deleted []value.StreamID
	next    value.StreamID
}

// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count]
// [FORCE] [JUSTID] [LASTID id]
func xclaim(c *connection, args [][]byte) error {
	q, wrong := c.parseClaim(args)
	key := string(args[1])
	var done claimed
	added := len(q.group) + len(q.consumer)
	return c.changeStream(args[1], added, func(s *value.StreamLog, ch *value.Change) (bool, error) {
		done = claimed{}
		g := s.Group(q.group)
		if g == nil {
			return false, errNoKeyOrGroup(key, q.group)
		}
		if wrong != nil {
			return false, wrong
		}
		if err := c.checkStream(ch.Size() + len(q.ids)*(len(q.group)+len(q.consumer)+2*elementBytes)); err != nil {
			return false, err
		}
		return q.apply(c, s, g, &done), nil
	}, func() error {
		c.writeClaimed(&done, q.justID)
		return nil
	})
}

func (q *claim) apply(c *connection, s *value.StreamLog, g *value.StreamGroup, done *claimed) (isWritten bool) {
	now := c.nowMs()
	if g.Last().Less(q.last) {
		s.Start(g.Name, c.line(), q.last, g.Read)
		isWritten = true
	}
	for _, id := range q.ids {
		p, isPending := g.PendingAt(id)
		e := s.Entry(id)
		switch {
		case e == nil:
			isWritten = g.Acknowledge(id) || isWritten
			continue
		case !isPending && !q.force:
			continue
		case isPending && q.minIdle > 0 && now-p.AtMs < q.minIdle:
			continue
		}
		if !isPending {
			p = value.Pending{ID: id, Count: 1}
		}
		if p.Count = p.Count + oneIf(!q.justID); q.retries >= 0 {
			p.Count = q.retries
		}
		p.AtMs, p.Consumer = q.atMs, q.consumer
		g.Await(p)
		done.entries = append(done.entries, *e)
	}
	if len(done.entries) > 0 {
		g.See(q.consumer, now)
	}
	return isWritten || len(done.entries) > 0
}

func (c *connection) writeClaimed(done *claimed, justID bool) {
	if !justID {
		c.writeEntries(done.entries)
		return
	}
	c.out.writeArrayHeader(len(done.entries))
	for i := range done.entries {
		c.out.writeBulkString(done.entries[i].ID.String())
	}
}

// autoClaim is what XAUTOCLAIM asks for.
type autoClaim struct {
	group, consumer string
	minIdle, count  int64
	from            value.StreamID
	justID          bool
}

// maxClaimCount is the limit of COUNT, of which Redis looks at ten times as many entries.
const maxClaimCount = math.MaxInt64 / 16

func parseAutoClaim(args [][]byte) (q autoClaim, err error) {
	q = autoClaim{group: string(args[2]), consumer: string(args[3]), count: 100}
	ok := false
	if q.minIdle, ok = parseInt(args[4]); !ok {
		return q, errClaimArgument("min-idle-time", "XAUTOCLAIM")
	}
	q.minIdle = max(q.minIdle, 0)
	if q.from, err = parseFromID(args[5]); err != nil {
		return q, err
	}
	for i := 6; i < len(args); i++ {
		switch {
		case equalFold(args[i], "count") && i+1 < len(args):
			i++
			if q.count, ok = parseInt(args[i]); !ok || q.count < 1 || q.count > maxClaimCount {
				return q, errClaimCount
			}
		case equalFold(args[i], "justid"):
			q.justID = true
		default:
			return q, errSyntax
		}
	}
	return q, nil
}

// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
func xautoClaim(c *connection, args [][]byte) error {
	q, err := parseAutoClaim(args)
	if err != nil {
		return err
	}
	key := string(args[1])
	var done claimed
	added := len(q.group) + len(q.consumer)
	return c.changeStream(args[1], added, func(s *value.StreamLog, ch *value.Change) (bool, error) {
		g := s.Group(q.group)
		if g == nil {
			return false, errNoKeyOrGroup(key, q.group)
		}
		row := len(q.group) + len(q.consumer) + 2*elementBytes
		if err := c.checkStream(ch.Size() + int(min(q.count, int64(len(g.Pending()))))*row); err != nil {
			return false, err
		}
		done = q.apply(c, s, g)
		return len(done.entries)+len(done.deleted) > 0, nil
	}, func() error {
		c.out.writeArrayHeader(3)
		c.out.writeBulkString(done.next.String())
		c.writeClaimed(&done, q.justID)
		c.out.writeArrayHeader(len(done.deleted))
		for _, id := range done.deleted {
			c.out.writeBulkString(id.String())
		}
		return nil
	})
}

// apply claims what is pending, and looks at ten times as many entries at most.
func (q *autoClaim) apply(c *connection, s *value.StreamLog, g *value.StreamGroup) (done claimed) {
	now, left, attempts := c.nowMs(), q.count, 10*q.count
	for _, p := range slices.Clone(g.Pending()) {
		if p.ID.Less(q.from) {
			continue
		}
		if left == 0 || attempts == 0 {
			done.next = p.ID
			break
		}
		attempts--
		e := s.Entry(p.ID)
		if e == nil {
			g.Acknowledge(p.ID)
			done.deleted = append(done.deleted, p.ID)
			left--
			continue
		}
		if q.minIdle > 0 && now-p.AtMs < q.minIdle {
			continue
		}
		p.AtMs, p.Consumer, p.Count = now, q.consumer, p.Count+oneIf(!q.justID)
		g.Await(p)
		done.entries = append(done.entries, *e)
		left--
	}
	if len(done.entries) > 0 {
		g.See(q.consumer, now)
	}
	return done
}
