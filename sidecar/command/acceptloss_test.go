package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
)

func TestAWaitingRecoverAcceptsTheLossThatWasConfirmedAndNoOther(t *testing.T) {
	lost := contract.Loss{Coordinator: "a/0", Epoch: 3, Lost: true}
	collects := contract.Loss{Coordinator: "a/0", Membership: contract.MembershipSalvaging, Progress: "collects"}
	completes := contract.Loss{Coordinator: "a/0", Membership: contract.MembershipSalvaging, Progress: "completes",
		Begun: true}
	serves := contract.Loss{Coordinator: "a/0", Membership: contract.MembershipServing}
	for name, c := range map[string]struct {
		told     []contract.Loss // one after the other, the last one for ever
		accepted int64
		says     string // the error; "": none
	}{
		"in one go":           {[]contract.Loss{collects, completes, serves}, 0, ""},
		"it restarts":         {[]contract.Loss{collects, lost, collects, serves}, 1, ""},
		"the new log is lost": {[]contract.Loss{collects, completes, lost}, 0, "is lost as well, and was not given up"},
		"another one serves": {[]contract.Loss{{Coordinator: "a/0", ServedBy: 2}}, 0,
			"member 2 serves instead of this one"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, accepted atomic.Int64
			mux := http.NewServeMux()
			mux.HandleFunc("GET "+contract.PathLoss, func(w http.ResponseWriter, _ *http.Request) {
				n := min(int(asked.Add(1)), len(c.told))
				_ = json.NewEncoder(w).Encode(c.told[n-1])
			})
			mux.HandleFunc("POST "+contract.PathAcceptLoss, func(http.ResponseWriter, *http.Request) {
				accepted.Add(1)
			})
			s := httptest.NewServer(mux)
			defer s.Close()
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
			}
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetOut(&bytes.Buffer{})
			err := (&adminClient{"", &http.Client{Transport: &http.Transport{DialContext: dial}}}).awaitServing(cmd,
				20*time.Second)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if n := accepted.Load(); n != c.accepted {
				t.Errorf("%d losses were accepted, want %d", n, c.accepted)
			}
		})
	}
}
