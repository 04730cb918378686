package resp

import "github.com/causalstore/causalstore/sidecar/operation"

// maxShipped bounds the operations that are sent together to the homes of their keys.
const maxShipped = 64

// shipment is operations of one key that are sent to its home as one.
type shipment struct {
	updates   []update
	operation operation.Operation
	wait      func() (operation.Outcome, bool, error)
}

// executeAtHome has the first of some updates executed at the homes of their keys, and returns how many were. They are
// sent without waiting for each other. Those that follow one that was not executed are not either, so that what a
// pipeline writes takes effect in its order.
func (c *connection) executeAtHome(us []update) int {
	if c.executing {
		return 0
	}
	var few [1]shipment // mostly there is one
	sent := few[:0]
	if len(us) > 1 {
		sent = make([]shipment, 0, min(len(us), maxShipped))
	}
	sent = joinUpdates(sent, us)
	c.session.Session.FindEach(namesOf(sent))
	for i := range sent {
		s := &sent[i]
		if s.wait = c.session.Session.ExecuteAsync(s.updates[0].name, s.operation, i > 0); s.wait == nil {
			sent = sent[:i]
			break
		}
	}
	asked, executed := 0, 0
	for i := range sent {
		outcome, done, err := sent[i].wait()
		if !done {
			err = errOvertaken // if a later one was executed after all
		}
		sent[i].settle(outcome, err)
		asked += len(sent[i].updates)
		if done {
			executed = asked
		}
	}
	return executed
}

// namesOf returns the keys of shipments.
func namesOf(sent []shipment) []string {
	names := make([]string, 0, len(sent))
	for i := range sent {
		names = append(names, sent[i].updates[0].name)
	}
	return names
}

// joinUpdates joins the first of some updates to shipments.
func joinUpdates(sent []shipment, us []update) []shipment {
	from := 0
	for i := range us {
		u := &us[i]
		if u.edit != nil || !u.operation.CanBeShipped() {
			break
		}
		if i > from && u.name == us[from].name {
			if joined, ok := sent[len(sent)-1].operation.Join(&u.operation); ok {
				sent[len(sent)-1].operation, sent[len(sent)-1].updates = joined, us[from:i+1]
				continue
			}
		}
		if len(sent) == maxShipped {
			break
		}
		sent, from = append(sent, shipment{updates: us[i : i+1], operation: u.operation}), i
	}
	return sent
}

// settle gives each update its outcome, by that of the last one.
func (s *shipment) settle(outcome operation.Outcome, err error) {
	for i := len(s.updates) - 1; i >= 0; i-- {
		u := &s.updates[i]
		u.write, u.outcome, u.err = -1, outcome, err
		if i > 0 {
			outcome = u.operation.Undo(outcome)
		}
	}
}
