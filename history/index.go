package history

import "fmt"

// names maps the strings of a history to dense numbers.
type names struct {
	procs    map[string]int32
	sessions map[string]int32
	keys     map[string]int32
	writes   map[keyValue]int32 // -> operation
	tokens   map[string]int32   // -> operation
}

type keyValue struct {
	value string
	key   int32
}

func (n *names) reset() {
	if n.procs == nil {
		*n = names{map[string]int32{}, map[string]int32{}, map[string]int32{}, map[keyValue]int32{}, map[string]int32{}}
		return
	}
	clear(n.procs)
	clear(n.sessions)
	clear(n.keys)
	clear(n.writes)
	clear(n.tokens)
}

// malformed records that the history breaks its format. Only violations that can be shown are explained.
func (c *Checker) malformed(op int, why string, args ...any) {
	f := finding{kind: Malformed, op: int32(op), elem: -1, other: -1, pair: -1}
	if len(c.invalid) < 1000 {
		f.text = fmt.Sprintf(why, args...)
	}
	c.invalid = append(c.invalid, f)
}

// index numbers everything and validates the format.
func (c *Checker) index() {
	for i := range c.h {
		op, in := &c.h[i], &c.ops[i]
		*in = opInfo{kind: op.Kind, lane: -1, key: -1, prev: -1, epoch: -1, extra: -1, next: -1, nextDel: -1,
			nextReplacing: -1}
		if !c.validShape(i, op) {
			continue
		}
		in.proc = c.procOf(i, op)
		c.placeInProcess(i, op, in)
		c.count(op)
		switch op.Kind {
		case Put, Delete, Add:
			in.key, in.version = c.keyOf(op.Key), op.Version
			if k := &c.keys[in.key]; op.Kind == Add {
				k.merges = true
			} else if in.role != ignored {
				in.nextReplacing, k.replacing = k.replacing, int32(i)
			}
			if op.Kind != Delete {
				kv := keyValue{op.Value, in.key}
				if other, dup := c.names.writes[kv]; dup {
					c.malformed(i, "value %s is written twice to key %s; values must be unique per key: %s",
						shown(op.Value),
						shown(op.Key), c.h[other].String()+" ; "+op.String())
				}
				c.names.writes[kv] = int32(i)
			}
			if in.role != ignored && op.Kind == Delete {
				k := &c.keys[in.key]
				in.nextDel, k.deletes = k.deletes, int32(i)
			}
			if in.role == floating {
				k := &c.keys[in.key]
				in.next, k.floats = k.floats, int32(i)
			}
		case Get, MGet:
			if in.role == chained {
				c.addElems(int32(i), op, in)
			}
		case Token:
			if in.role == chained {
				if _, dup := c.names.tokens[op.Token]; dup {
					c.malformed(i, "token %s is exported twice; name tokens uniquely", shown(op.Token))
				}
				c.names.tokens[op.Token] = int32(i)
			}
		}
	}
	for i := range c.ops {
		if o := &c.ops[i]; o.isWrite() && o.role == chained && !o.versioned() && c.keys[o.key].merges {
			c.malformed(i, "%s has no version; give those of all writes of a key that has adds", c.h[i].String())
		}
		if o := &c.ops[i]; o.kind == Resume && o.role == chained {
			if _, ok := c.names.tokens[c.h[i].Token]; !ok {
				c.malformed(i, "%s: no operation exports that token", c.h[i].String())
			}
		}
	}
	c.stats.Sessions, c.stats.Processes, c.stats.Keys = len(c.names.sessions), len(c.procs), len(c.keys)
}

func (c *Checker) validShape(i int, op *Op) bool {
	switch {
	case op.Kind < Get || op.Kind > Add:
		c.malformed(i, "unknown kind of operation: %d", op.Kind)
	case op.Session == "":
		c.malformed(i, "%s has no session", op.String())
	case op.End < op.Start:
		c.malformed(i, "%s ends at %d, before its start at %d", op.String(), op.End, op.Start)
	case op.Unknown && (op.OK || !op.isWrite()):
		c.malformed(i, "%s: only a put or delete that did not succeed can have an unknown outcome", op.String())
	case promises[op.Level] == nil:
		c.malformed(i, "%s: nothing says what its level promises", op.String())
	case op.Final && !op.isRead():
		c.malformed(i, "%s: only a get or mget can be final", op.String())
	default:
		return true
	}
	return false
}

func (c *Checker) procOf(i int, op *Op) int32 {
	name := op.process()
	if p, ok := c.names.procs[name]; ok {
		if c.procs[p].session != op.Session {
			c.malformed(i, "process %s is in sessions %s and %s; a process belongs to one", shown(name),
				shown(c.procs[p].session), shown(op.Session))
		}
		return p
	}
	p := int32(len(c.procs))
	c.names.procs[name] = p
	s, ok := c.names.sessions[op.Session]
	if !ok {
		s = int32(len(c.names.sessions))
		c.names.sessions[op.Session] = s
	}
	c.procs = append(c.procs, procInfo{session: op.Session, id: s, last: -1, lastAny: -1})
	return p
}

func (c *Checker) placeInProcess(i int, op *Op, in *opInfo) {
	p := &c.procs[in.proc]
	if p.lastAny >= 0 {
		if before := &c.h[p.lastAny]; op.Start < before.Start || op.End < before.End {
			c.malformed(i, "process %s goes back in time; its operations must stand in its order: %s",
				shown(op.process()), before.String()+" ; "+op.String())
		}
	}
	p.lastAny = int32(i)
	in.prev = p.last
	switch {
	case op.OK:
		in.role = chained
	case op.Unknown:
		in.role = floating
	default:
		return
	}
	if p.final && !op.Final {
		c.malformed(i, "%s comes after a final read of its process", op.String())
	}
	if in.role == chained {
		p.final = p.final || op.Final
		p.last = int32(i)
		p.ops++
		in.lane, in.pos = in.proc, p.ops
	}
}

func (c *Checker) keyOf(key string) int32 {
	if k, ok := c.names.keys[key]; ok {
		return k
	}
	k := int32(len(c.keys))
	c.names.keys[key] = k
	c.keys = append(c.keys, keyInfo{floats: -1, deletes: -1, greatest: -1, unsettled: -1, final: -1, replacing: -1})
	return k
}

func (c *Checker) addElems(i int32, op *Op, in *opInfo) {
	in.elems.from = int32(len(c.elems))
	if op.Kind == Get {
		c.addElem(i, -1, Read{op.Key, op.Value, op.Version, op.Missing, op.Parts})
	} else {
		for j, r := range op.Reads {
			c.addElem(i, int32(j), r)
		}
	}
	in.elems.to = int32(len(c.elems))
	if op.Final {
		c.stats.FinalReads += in.elems.len()
	}
}

// addElem adds what was read of a key: an element for each write.
func (c *Checker) addElem(op, at int32, r Read) {
	e := elem{op: op, key: c.keyOf(r.Key), at: at, part: -1, write: -1, missing: r.Missing, version: r.Version}
	if len(r.Parts) == 0 {
		c.elems = append(c.elems, e)
		return
	}
	for i := range r.Parts {
		e.part, e.version = int32(i), r.Parts[i].Version
		c.elems = append(c.elems, e)
	}
}

func (c *Checker) count(op *Op) {
	s := &c.stats
	switch {
	case op.Unknown:
		s.Unknown++
	case !op.OK:
		s.Failed++
	case op.Kind == Get:
		s.Gets++
	case op.Kind == MGet:
		s.MGets++
	case op.Kind == Put, op.Kind == Add:
		s.Puts++
	case op.Kind == Delete:
		s.Deletes++
	}
}
