package process

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// stateError is a reason for not being ready that programs tell from others.
type stateError struct {
	state contract.State
	error
}

func (e *stateError) Unwrap() error { return e.error }

// inState returns err as the reason of a state.
func inState(s contract.State, err error) error { return &stateError{s, err} }

// stateOf returns the state that err is the reason of, if it has one.
func stateOf(err error) contract.State {
	if e, ok := errors.AsType[*stateError](err); ok {
		return e.state
	}
	return ""
}

// startWhenThereIsSpace starts a part that has a disk or storage. While that is full it waits, so that the process
// needs no restart and says what is wrong: what the part holds already is safe, and it may be able to free the space
// itself. A part that has lost data waits for people.
func (p *process) startWhenThereIsSpace(ctx context.Context, start func() (part, error)) (part, error) {
	foundLoss := false
	for last := ""; ; {
		r, err := start()
		state := contract.StateStorageFull
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, storage.ErrFull):
		case stateOf(err) == contract.StateDataLost:
			return nil, p.refuseToStart(ctx, err)
		case errors.Is(err, storage.ErrDataLost) && !foundLoss:
			// the storage has noted that, and is opened as one that has lost data
			foundLoss = true
			p.log.Error("the storage was found to be damaged; starting again", "error", err)
			continue
		case errors.Is(err, wal.ErrNoSpace), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			state = contract.StateLogFull
		default:
			return nil, err
		}
		p.health.setWaiting(inState(state, err))
		if last != err.Error() {
			last = err.Error()
			p.log.Warn("waiting for space", "error", err)
		}
		select {
		case <-time.After(openRetryInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// refuseToStart reports why a part does not start, until ctx is done. The process does not end with the error, because
// a new one would only find the same.
func (p *process) refuseToStart(ctx context.Context, err error) error {
	p.health.setRefused(err)
	p.log.Error("not starting; restart this process when the cause is gone", "error", err)
	<-ctx.Done()
	return ctx.Err()
}
