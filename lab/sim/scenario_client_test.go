package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// The commands of a session:
//
//	alice add x 1            increments the tally x; the increment is called 1
//	alice append x 1         the same, executed at the home of x, if that can
//	alice put x 1            alice del x              alice get x              alice mget x y
//	alice expire x           puts a value of x that has expired at once
//	alice gets x y           pipelined gets: sent one behind the other, without waiting for the answers
//	alice latest x           a get as part of a read-modify-write: the newest version, even if the session reads at cuts
//	alice commit a b=1 c=-   a commit: reads a, puts b and deletes c, if a is as it was read; x+=1 increments the tally x
//	alice scan               all keys that may exist, from one ring
//	alice await x            waits until x has a value: gets it when it is alice's turn
//	alice token T            bob resume T             alice wait [RING]        waits until its writes are in a ring, or complete
//
// The answer to a read includes its status, if it is in-flight, and its source.

// commandTimeout bounds a command, in virtual time.
const commandTimeout = 20 * time.Second

func (s *scenario) operate(p *client, name, what string, args []string, background bool) (string, error) {
	if p.busy {
		return "", fmt.Errorf("the last command of %s has not been answered", name)
	}
	op, err := s.operation(what, args)
	if err != nil {
		return "", err
	}
	var answer string
	p.onResult = func(r *session.Result) {
		answer = s.answer(p, what, args, r)
		if background {
			s.below = append(s.below, "  ... "+strings.Join(append([]string{name, what}, args...), " ")+": "+answer)
		}
	}
	switch what {
	case "scan":
		p.scanAll()
	case "gets", "gets-latest":
		p.getPipelinedAt(op.Level, op.Keys)
	case "count":
		p.startUpdate(op.Key, operation.Operation{Kind: operation.Add, Number: 1})
	case "append":
		p.addRow(op.Key, args[1], true)
	case "commit":
		p.startCommit(s.commit(args))
	case "await":
		p.startAwait(op.Key)
	default:
		p.issue(op)
	}
	if background {
		return "", nil
	}
	s.world.Run(commandTimeout, func() bool { return !p.busy })
	if p.busy {
		return "", fmt.Errorf("no answer within %s", commandTimeout)
	}
	return answer, nil
}

func (s *scenario) operation(what string, args []string) (session.Op, error) {
	var keys []string
	for _, a := range args {
		keys = append(keys, s.key(a))
	}
	switch {
	case what == "put" && len(args) == 2:
		return session.Op{Kind: session.OpPut, Key: keys[0], Value: causal.Value{Data: []byte(args[1])}}, nil
	case (what == "add" || what == "append") && len(args) == 2:
		return session.Op{Kind: session.OpPut, Key: keys[0], Value: increment(args[1])}, nil
	case what == "del" && len(args) == 1:
		return session.Op{Kind: session.OpPut, Key: keys[0], Value: causal.Value{Tombstone: true}}, nil
	case what == "expire" && len(args) == 1:
		v := causal.Value{ExpireAtMs: startMs + s.world.now/1e6}
		return session.Op{Kind: session.OpPut, Key: keys[0], Value: v}, nil
	case (what == "get" || what == "latest") && len(args) == 1:
		return session.Op{Kind: session.OpGet, Key: keys[0], Level: readLevel(what == "latest")}, nil
	case what == "snapshot" && len(args) == 1:
		return session.Op{Kind: session.OpGet, Key: keys[0], Level: causal.Snapshot}, nil
	case what == "gets-latest":
		return session.Op{Kind: session.OpMGet, Keys: keys, Level: causal.Latest}, nil
	case what == "mget", what == "gets":
		return session.Op{Kind: session.OpMGet, Keys: keys}, nil
	case what == "commit" && len(args) > 0:
		return session.Op{}, nil
	case (what == "count" || what == "await") && len(args) == 1:
		return session.Op{Kind: session.OpGet, Key: keys[0]}, nil
	case what == "scan" && len(args) == 0:
		return session.Op{Kind: session.OpScan}, nil
	case what == "token" && len(args) == 1:
		return session.Op{Kind: session.OpToken}, nil
	case what == "resume" && len(args) == 1:
		return session.Op{Kind: session.OpResume, Token: s.tokens[args[0]]}, nil
	case what == "wait" && len(args) == 0:
		return session.Op{Kind: session.OpWait, Ring: topology.NoRing, Timeout: commandTimeout}, nil
	case what == "wait":
		for i, r := range s.rings {
			if r.Name == args[0] {
				return session.Op{Kind: session.OpWait, Ring: topology.RingID(i), Timeout: commandTimeout}, nil
			}
		}
	}
	return session.Op{}, fmt.Errorf("unknown operation: %s %s", what, strings.Join(args, " "))
}

// commit returns the commit that a command describes.
func (s *scenario) commit(args []string) *commit {
	c := &commit{}
	for _, arg := range args {
		key, value, isWrite := strings.Cut(arg, "=")
		switch {
		case !isWrite:
			c.reads = append(c.reads, s.key(key))
		case strings.HasSuffix(key, "+"):
			c.writes = append(c.writes, addOf(s.key(key[:len(key)-1]), value))
		case value == "-":
			c.writes = append(c.writes, history.Read{Key: s.key(key), Missing: true})
		default:
			c.writes = append(c.writes, history.Read{Key: s.key(key), Value: value})
		}
	}
	return c
}

// showCommit returns what a commit has read.
func showCommit(names []string, op *history.Op) string {
	var b strings.Builder
	for i, r := range op.Reads {
		value := r.Value
		switch {
		case r.Missing:
			value = "missing"
		case len(r.Parts) > 0:
			value = shownParts(r.Parts)
		}
		fmt.Fprintf(&b, "%s=%s ", names[i], value)
	}
	return b.String() + "ok"
}

// answer formats a result.
func (s *scenario) answer(p *client, what string, args []string, r *session.Result) string {
	if r.Err != causal.OK {
		return r.Err.String()
	}
	switch what {
	case "count":
		return p.load.history[len(p.load.history)-1].Value
	case "append":
		if on := p.load.history[len(p.load.history)-1].Reads[0].Parts; len(on) > 0 {
			return "ok, on " + shownParts(on)
		}
	case "commit":
		return showCommit(args, &p.load.history[len(p.load.history)-1])
	case "get", "latest", "snapshot", "await":
		return shownValue(r.Record) + " (" + s.provenance(r.Outcome) + ")"
	case "mget":
		var b strings.Builder
		for i, rec := range r.Records {
			fmt.Fprintf(&b, "%s=%s ", args[i], shownValue(rec))
		}
		return b.String() + "(" + s.provenance(r.Outcome) + ")"
	case "gets", "gets-latest":
		var b strings.Builder
		for i, rec := range r.Records {
			fmt.Fprintf(&b, " %s=%s", args[i], shownValue(rec))
		}
		return b.String()[1:]
	case "scan":
		names := make([]string, len(r.Keys))
		for i, key := range r.Keys {
			names[i] = s.keyNames[key]
		}
		slices.Sort(names)
		return strings.Join(append(names, "("+s.rings[r.Outcome.Ring].Name+")"), " ")
	case "token":
		s.tokens[args[0]] = r.Token
	}
	return "ok"
}

func (s *scenario) provenance(o session.Outcome) string {
	var parts []string
	if o.Source != session.SourceOwn && o.Status == causal.InFlight {
		parts = append(parts, o.Status.String())
	}
	parts = append(parts, o.Source.String())
	if o.Ring != topology.NoRing {
		parts = append(parts, s.rings[o.Ring].Name)
	}
	return strings.Join(parts, " ")
}
