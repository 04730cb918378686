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
- Lost: every acknowledged write of it that no shard of any ring holds. Nothing tells which these are.
- Not lost: every write that a shard holds as the newest of its key, or has received. It is completed in every ring.
- Refused from then on: whatever the lost log still sends. A volume of it that is found later is of no use;
  without a register, it must not be started.
It takes ten seconds and a reading of all keys of all shards, which must all be up. If anything is found,
the other coordinators must be up, too: those that have lost their logs are to be given up as well.
`

// lostShardText says what a person accepts who gives up what the members of a shard held.
const lostShardText = `This gives up what the members of shard %[1]s held, for good:
- Not lost: every acknowledged write that another ring has, or a coordinator that is up. The shard
  gets them from there, and is read again when it has them. Until then its keys are read in other rings.
- Lost: what neither has.
- Void from then on: every volume of the members. One that comes back is emptied, once the shard has its data again.
`

// absentText says what else a person accepts if members are not heard of.
const absentText = `- Members %v are not heard of. They must be off, and stay off until the shard serves: one
  that runs and cannot reach its register would go on to serve, and what it answers would be old.
`

// oneRingText says what else a person accepts if there is no other ring.
const oneRingText = `- There is no other ring, so nothing brings the data back: the shard takes writes, and
  answers no read.
`

// acceptanceText says what a person accepts.
func acceptanceText(l *contract.Loss) string {
	if l.Shard == "" {
		return fmt.Sprintf(lossText, l.Coordinator)
	}
	text := fmt.Sprintf(lostShardText, l.Shard)
	if len(l.Absent) > 0 {
		text += fmt.Sprintf(absentText, l.Absent)
	}
	if l.OneRing {
		text += oneRingText
	}
	return text
}

// partOf names a part that has lost something.
func partOf(l *contract.Loss) (name, kind, what string) {
	if l.Shard != "" {
		return l.Shard, "shard", "the data of shard"
	}
	return l.Coordinator, "coordinator", "the log of coordinator"
}

// acceptLoss gives up the log of a coordinator, or what the members of a shard held.
func acceptLoss(cmd *cobra.Command, a *adminClient, f *recoverFlags) error {
	l, err := a.loss(cmd.Context())
	if err != nil {
		return err
	}
	name, kind, what := partOf(l)
	if l.Progress != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s was given up before.\n", what, name)
		return a.awaitServing(cmd, f.wait)
	}
	if !l.Lost {
		return fmt.Errorf("%s %s is not known to be lost, so there is nothing to accept: %s", what, name, l.Reason)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s\n%s", l.Reason, acceptanceText(l))
	answer := f.confirm
	if answer == "" {
		fmt.Fprintf(out, "Continue? Type the name of the %s, %s: ", kind, name)
		// an end without an answer is no
		answer, _ = bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 400)).ReadString('\n')
	}
	if strings.TrimSpace(answer) != name {
		return fmt.Errorf("nothing was changed: %q is not %s", strings.TrimSpace(answer), name)
	}
	return a.giveUp(cmd, l.Epoch, f.wait)
}

// giveUp asks the coordinator or shard to give up what is lost, and waits until it serves.
func (a *adminClient) giveUp(cmd *cobra.Command, epoch uint64, wait time.Duration) error {
	if err := a.acceptLoss(cmd.Context(), epoch); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "accepted")
	return a.awaitServing(cmd, wait)
}

// awaitServing waits until what was given up has started over and serves, and says how far it is.
func (a *adminClient) awaitServing(cmd *cobra.Command, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	poll := time.NewTicker(300 * time.Millisecond)
	defer poll.Stop()
	said, begun := "", false
	var failed error // of the last question
	for {
		l, err := a.loss(ctx)
		switch {
		case err != nil:
		case l.Lost && begun:
			return errors.New(
				"the log that took the place of the lost one is lost as well, and was not given up: look whether a " +
					"copy of it is left, and run this again")
		case l.ServedBy != 0:
			return fmt.Errorf(
				"member %d serves instead of this one: run this again with its data directory to see how far it is",
				l.ServedBy)
		case l.Lost: // the group has started over, this member has another volume, or the process has restarted
			err = a.acceptLoss(ctx, l.Epoch)
		case l.Membership == contract.MembershipServing:
			fmt.Fprintln(cmd.OutOrStdout(), "done: it serves")
			return nil
		case l.Serves:
			fmt.Fprintln(cmd.OutOrStdout(), "done: it takes writes, and answers reads when it has its data again")
			return nil
		}
		begun = begun || err == nil && l.Begun
		if err == nil && l.Progress != "" && l.Progress != said {
			said = l.Progress
			fmt.Fprintln(cmd.OutOrStdout(), said)
		}
		if ctx.Err() == nil {
			failed = err
		}
		select {
		case <-cmd.Context().Done():
			return errors.New("interrupted; it goes on without this command: run that again to see how far it is")
		case <-ctx.Done():
			return errors.Join(
				fmt.Errorf(
					"it does not serve within %s; it goes on without this command: run that again to see how far it is",
					wait), failed)
		case <-poll.C:
		}
	}
}

// loss returns what is known of the loss of a coordinator's log, or of a shard.
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
