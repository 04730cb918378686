package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
)

// lossText says what a person accepts.
const lossText = `This gives up the log of coordinator %[1]s, for good:
- Lost: every acknowledged write of it that no shard of any ring holds. Nothing tells which these are. With such a write, the order is lost that
  only it carried: what follows it may be seen without what it has followed.
- Not lost: every write that a shard holds as the newest of its key, or has received. It is completed in every ring.
- Refused from then on: whatever the lost log still sends. A volume of it that is found later is of no use, and must not be started.
It takes ten seconds and a reading of all keys of all shards, which must all be up; so must the coordinators whose writes are incomplete.
`

// acceptLoss gives up the log of a coordinator.
func acceptLoss(cmd *cobra.Command, a *adminClient, f *recoverFlags) error {
	l, err := a.loss(cmd.Context())
	if err != nil {
		return err
	}
	if l == nil {
		return errors.New("the data of a shard cannot be given up: docs/disasters.md#all-members-of-a-shard-are-lost says what can be done")
	}
	if !l.Lost {
		return fmt.Errorf("the log of coordinator %s is not known to be lost, so there is nothing to accept: %s", l.Coordinator, l.Reason)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s\n", l.Reason)
	fmt.Fprintf(out, lossText, l.Coordinator)
	answer := f.confirm
	if answer == "" {
		fmt.Fprintf(out, "Continue? Type the name of the coordinator, %s: ", l.Coordinator)
		answer, _ = bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 400)).ReadString('\n') // an end without an answer is no
	}
	if strings.TrimSpace(answer) != l.Coordinator {
		return fmt.Errorf("nothing was changed: %q is not %s", strings.TrimSpace(answer), l.Coordinator)
	}
	return a.giveUp(cmd, l.Epoch, f.wait)
}

// giveUp asks the coordinator to give up its log, and again if it has to empty a volume first, until it serves.
func (a *adminClient) giveUp(cmd *cobra.Command, epoch uint64, wait time.Duration) error {
	if err := a.acceptLoss(cmd.Context(), epoch); err != nil {
		return err
	}
	if wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	poll := time.NewTicker(300 * time.Millisecond)
	defer poll.Stop()
	said := ""
	for {
		l, err := a.loss(ctx)
		switch {
		case err != nil:
		case l.Lost: // the group has begun anew, or this member has another volume
			err = a.acceptLoss(ctx, l.Epoch)
		case l.Membership == contract.MembershipServing:
			fmt.Fprintln(cmd.OutOrStdout(), "done: it serves")
			return nil
		}
		if err == nil && l.Waiting != "" && l.Waiting != said {
			said = l.Waiting
			fmt.Fprintf(cmd.OutOrStdout(), "%d writes found; waiting for %s\n", l.Found, said)
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("it does not serve within %s; it goes on, unless its process restarts: run the command again to see", wait), err)
		case <-poll.C:
		}
	}
}

// loss returns what is known of the loss of a coordinator's log; nil for a shard.
func (a *adminClient) loss(ctx context.Context) (*contract.Loss, error) {
	b, err := a.do(ctx, http.MethodGet, contract.PathLoss)
	if err != nil {
		return nil, err
	}
	var l *contract.Loss
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("the answer of the process of %s: %w", a.dir, err)
	}
	return l, nil
}

func (a *adminClient) acceptLoss(ctx context.Context, epoch uint64) error {
	_, err := a.do(ctx, http.MethodPost, fmt.Sprintf("%s?%s=%d", contract.PathAcceptLoss, contract.ParamEpoch, epoch))
	return err
}
