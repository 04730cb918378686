package command_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

func TestLogsNameNodesAndViolationsInBothFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		node := topology.Node{DC: 1, Part: topology.Coordinator}
		var none *topology.Node
		command.NewLogger(&out, format, slog.LevelInfo).Error("refused", "violation", transport.ViolationLimit,
			"sender", node, "of", none, "error", errors.New("too many links"))
		for _, want := range []string{"limit", node.String(), "too many links", "ERROR"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: want %q in %s", format, want, &out)
			}
		}
	}
}
