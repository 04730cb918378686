package resp

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

// A client that waits for an element is parked: its connection receives what it sends, without executing it, and so
// finds out if it is gone.

// pastTime makes reads of a socket return at once.
var pastTime = time.Unix(1, 0)

// parkEnd is why a client waits no more, with the error that it is told.
type parkEnd struct{ err error }

// waitState tells other connections whether a client waits.
type waitState struct {
	mu sync.Mutex
	ch chan error // takes why the client waits no more, nil without an error; nil: it does not wait
}

func (w *waitState) begin() <-chan error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ch = make(chan error, 1)
	return w.ch
}

func (w *waitState) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ch = nil
}

func (w *waitState) isWaiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch != nil
}

// unblock ends the wait of the client, and reports whether it waits.
func (w *waitState) unblock(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		return false
	}
	select {
	case w.ch <- err:
	default: // it is being unblocked
	}
	return true
}

// park waits for the client's turn, or for the end of its wait.
func (c *connection) park(turns <-chan front.Turn, over <-chan time.Time, unblocked <-chan error) (front.Turn,
	*parkEnd) {
	began := c.server.options.Clock()
	defer func() { // the time of a command is without that of its wait
		c.timed.since = c.timed.since.Add(c.server.options.Clock().Sub(began))
	}()
	received := make(chan receiveEnd, 1)
	go func() { received <- receiveEnd{c.receiveParked()} }()
	for {
		select {
		case turn := <-turns:
			c.unpark(received)
			return turn, nil
		case <-over:
			c.unpark(received)
			return front.Turn{}, &parkEnd{}
		case err := <-unblocked:
			c.unpark(received)
			return front.Turn{}, &parkEnd{err}
		case <-c.server.context.Done():
			c.unpark(received)
			return front.Turn{}, &parkEnd{errStopped}
		case end := <-received:
			switch {
			case end.err == nil:
				received = nil // it has sent as much as it may
			case c.server.IsStopping() && errors.Is(end.err, os.ErrDeadlineExceeded):
				return front.Turn{}, &parkEnd{errStopped}
			default:
				c.quitting = true // nobody is there to take a reply
				return front.Turn{}, &parkEnd{}
			}
		}
	}
}

// receiveEnd is how receiveParked has ended.
type receiveEnd struct{ err error }

// receiveParked receives what the client sends until that is too much, or the socket fails.
func (c *connection) receiveParked() error {
	receive, ahead := c.whileExecuting()
	for ahead() < c.server.options.Limits.MaxPipelineBytes {
		if err := receive(); err != nil {
			return err
		}
	}
	return nil
}

// unpark ends receiveParked.
func (c *connection) unpark(received <-chan receiveEnd) {
	if received == nil {
		return
	}
	_ = c.client.Socket.SetReadDeadline(pastTime)
	<-received // what has failed fails again
	_ = c.client.Socket.SetReadDeadline(time.Time{})
	if c.server.IsStopping() {
		c.client.StopReading() // Shutdown may have called it meanwhile, and its read deadline must stay
	}
}

// CLIENT UNBLOCK id [TIMEOUT|ERROR]
func clientUnblock(c *connection, args [][]byte) error {
	id, ok := parseInt(args[2])
	var why error
	switch {
	case len(args) > 4:
		return errSyntax
	case len(args) == 4 && equalFold(args[3], "error"):
		why = errUnblocked
	case len(args) == 4 && !equalFold(args[3], "timeout"):
		return genericError("CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	}
	if !ok {
		return errNotInteger
	}
	unblocked := int64(0)
	for _, each := range c.server.List() {
		if other := each.(*connection); other.client.ID == id && other.wait.unblock(why) {
			unblocked = 1
		}
	}
	c.out.writeInteger(unblocked)
	return nil
}
