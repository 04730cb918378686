package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
)

// recoverFlags are the flags of recover.
type recoverFlags struct {
	dataDir string
	accept  bool
	loss    bool
	confirm string
	yes     bool
	wait    time.Duration
}

func newRecoverCommand(Options) *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Show what the group of a coordinator or shard waits for, and decide it",
		Long: `Shows the group of the coordinator or middleman that runs with DIR as its data
folder, through a socket in that folder, and with a flag decides what only a person can. It must run
as the user of that process.

--accept-register is for a group that is frozen because its register (etcd) was replaced by an empty
one, or restored from a backup: the configuration that this member knows goes on there. Run it at
the member that serves. If none does, run it at the one whose epoch is the highest of all members;
with another one, what is acknowledged could be lost.

--accept-loss is for a coordinator whose log is lost with all of its copies: the disk of its only
member, or those of all members, which are up with empty folders. It says what is lost, asks for the
coordinator's name, and lets the log start over with what the shards hold. It is also for a shard
with several members, all of whose volumes are lost or will not come back: it starts over with
nothing, and gets its data from other rings. Run it at a member with an empty or damaged volume.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return recoverGroup(cmd, &f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.dataDir, "data-dir", "", "folder of the log of the coordinator or middleman")
	fs.BoolVar(&f.accept, "accept-register", false, "let a frozen group go on with the register that is there now")
	fs.BoolVar(&f.loss, "accept-loss", false,
		"give up a log, or the members of a shard, that are lost with all of their copies, and start over with what "+
			"others hold")
	fs.StringVar(&f.confirm, "confirm", "",
		"with --accept-loss: the coordinator or shard, DATA-CENTER/INDEX, instead of being asked for it")
	cmd.MarkFlagsMutuallyExclusive("accept-loss", "accept-register")
	fs.BoolVar(&f.yes, "yes", false, "with --accept-register: do not ask")
	fs.DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait until the group has changed; 0: not at all")
	_ = cmd.MarkFlagRequired("data-dir") // it exists
	return cmd
}

func recoverGroup(cmd *cobra.Command, f *recoverFlags) error {
	if f.confirm != "" && !f.loss {
		return errors.New("--confirm goes with --accept-loss")
	}
	a := newAdminClient(f.dataDir)
	if f.loss {
		return acceptLoss(cmd, a, f)
	}
	ctx := cmd.Context()
	l, err := a.loss(ctx)
	if err != nil {
		return err
	}
	name, _, what := partOf(l)
	if l.Lost {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s is lost: %s\nIf there is no copy left, --accept-loss gives it up.\n",
			what, name, l.Reason)
	}
	g, err := a.group(ctx)
	if err != nil {
		return err
	}
	if g == nil {
		if f.accept {
			return fmt.Errorf("coordinator %s has one member, and no register, so there is nothing to accept",
				l.Coordinator)
		}
		if !l.Lost {
			fmt.Fprintf(cmd.OutOrStdout(), "coordinator %s has one member, and no register: %s\n",
				l.Coordinator, l.Reason)
		}
		return nil
	}
	writeGroup(cmd.OutOrStdout(), g)
	if !f.accept {
		return nil
	}
	if g.Problem != contract.GroupFrozen {
		return errors.New("the group is not frozen, so there is nothing to accept")
	}
	if g.Role != contract.GroupServing {
		fmt.Fprintf(cmd.OutOrStdout(),
			"This member does not serve. No other member may know an epoch above %d: look at all of them first, "+
				"those that are down too.\n", g.Epoch)
	}
	fmt.Fprintf(cmd.OutOrStdout(),
		"The group goes on in the register that is there now, with the configuration of epoch %d. What the register "+
			"has of this group is replaced.\n", g.Epoch)
	if !f.yes {
		fmt.Fprint(cmd.OutOrStdout(), "Continue? Type yes: ")
		// an end without an answer is no
		line, _ := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 100)).ReadString('\n')
		if strings.TrimSpace(line) != "yes" {
			return errors.New("nothing was changed")
		}
	}
	if err := a.acceptRegister(ctx, g.Epoch); err != nil {
		return err
	}
	return a.awaitChange(cmd, g.Epoch, f.wait)
}

// writeGroup shows a group.
func writeGroup(w io.Writer, g *contract.Group) {
	fmt.Fprintf(w, "member %d is %s; epoch %d, primary %d, members %v of %v\n", g.Member, g.Role, g.Epoch, g.Primary,
		g.Members, g.Wanted)
	for _, m := range g.Others {
		fmt.Fprintf(w, "member %d is %s, %d records (%d bytes) behind\n", m.Member, m.State, m.BehindRecords,
			m.BehindBytes)
	}
	if r := g.Register; r != nil && r.UnreachableForMs != nil {
		fmt.Fprintf(w, "the register has not answered, or has taken no change, for %s\n",
			time.Duration(*r.UnreachableForMs)*time.Millisecond)
	}
	if g.Problem != "" {
		fmt.Fprintf(w, "%s: %s\n", g.Problem, g.Reason)
	}
}

// adminClient asks a coordinator or middleman through the socket in its data folder.
type adminClient struct {
	dir  string
	http *http.Client
}

func newAdminClient(dir string) *adminClient {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, contract.AdminSocket))
	}
	return &adminClient{dir, &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}}
}

func (a *adminClient) do(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://part"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.http.Do(request)
	if err != nil {
		return nil,
			fmt.Errorf(
				"ask the process of %s: %w; it must run with that data folder and as this user, and a middleman must "+
					"have a log", a.dir, err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask the process of %s: %w", a.dir, err)
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("the process refuses: %s", strings.TrimSpace(string(b)))
	}
	return b, nil
}

func (a *adminClient) group(ctx context.Context) (*contract.Group, error) {
	b, err := a.do(ctx, http.MethodGet, contract.PathGroup)
	if err != nil {
		return nil, err
	}
	var g *contract.Group
	if err := json.Unmarshal(b, &g); err != nil {
		return nil, fmt.Errorf("the answer of the process of %s: %w", a.dir, err)
	}
	return g, nil
}

func (a *adminClient) acceptRegister(ctx context.Context, epoch uint64) error {
	_, err := a.do(ctx, http.MethodPost, fmt.Sprintf("%s?%s=%d", contract.PathAcceptRegister,
		contract.ParamEpoch, epoch))
	return err
}

// awaitChange waits until the group has gone on in the register.
func (a *adminClient) awaitChange(cmd *cobra.Command, epoch uint64, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		g, err := a.group(ctx)
		if err == nil && g != nil && g.Epoch > epoch && g.Problem != contract.GroupFrozen {
			fmt.Fprintf(cmd.OutOrStdout(), "done: epoch %d, primary %d, members %v of %v\n", g.Epoch, g.Primary,
				g.Members, g.Wanted)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf(
				"the group has not gone on within %s; it will when the register answers: run the command again "+
					"without --accept-register to see", wait)
		case <-poll.C:
		}
	}
}
