package resp

import (
	"errors"
	"slices"

	"github.com/causalstore/causalstore/sidecar/front"
)

// Updates of a pipeline in an exact session that the homes of their keys do not execute: since they reply with the
// value that was there before, or since the home has refused them. Their keys are read together, and what they write is
// committed in one step, if nobody has written any of the keys meanwhile: so each reply is right at that moment, and
// what the pipeline writes is seen in its order.

// executeTogether executes the first of some updates, and returns how many. It returns 0, and has written nothing, if
// their keys are not written together, or others write them meanwhile: then they are for executeOnce.
func (c *connection) executeTogether(us []update) (done int) {
	if c.executing {
		return 0
	}
	r := updateRound{once: true}
	r.collect(us)
	read := c.session.Session.CommitsInOrder(r.names)
	if read == 1 {
		return 0
	}
	r.names = r.names[:read]
	defer c.session.Session.Lock(r.names...)()
	records, err := c.session.Session.Newest(c.server.context, r.names)
	if err != nil {
		c.updates.apart = len(us) // whoever reads them one by one finds out which of them it was
		return 0
	}
	for i := range records {
		r.keys = append(r.keys, keyInRound{draft: c.draftOf(r.names[i], records[i]), write: -1})
	}
	for done < len(us) && c.decideInRound(&r, &us[done], read) {
		done++
	}
	if isNotWritten(c.commitRound(&r, us[:done])) {
		c.updates.apart = len(us)
		return 0
	}
	r.settle(us[:done])
	if last := &us[done-1]; last.write < 0 || last.write != len(r.writes)-1 {
		_, _ = c.session.Session.Get(c.server.context, last.name) // CAUSAL LAST is about the last reply
	}
	return done
}

// commitRound commits what updates have written, on condition that what they have read still holds.
func (c *connection) commitRound(r *updateRound, us []update) error {
	if len(r.writes) == 0 {
		return nil // what was read was so at one time
	}
	puts := make([]front.Write, len(r.writes))
	for i, w := range r.writes {
		puts[i] = front.Write{Key: r.names[w.key], Value: w.value}
	}
	used := 0
	for i := range us {
		used = max(used, r.at(us[i].name)+1)
	}
	err := c.session.Session.CommitInOrder(c.server.context, puts, r.names[:used])
	for i := range r.writes {
		r.writes[i].err = err
	}
	return err
}

// isNotWritten reports whether a commit was refused for what may not concern each of its keys.
func isNotWritten(err error) bool {
	var e *front.Error
	return errors.As(err, &e) && slices.Contains([]front.Code{front.Conflict, front.Refused, front.TooLarge}, e.Code)
}
