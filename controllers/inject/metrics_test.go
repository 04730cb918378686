package inject_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causalstore/causalstore/controllers/inject"
)

// TestEveryResultOfInjectionIsExportedFromTheStart: Prometheus sees no increase in a series that appears with its first
// event.
func TestEveryResultOfInjectionIsExportedFromTheStart(t *testing.T) {
	const reasons, others = 13, 2 // Injected and Error
	if n := testutil.CollectAndCount(inject.NewInjections()); n != reasons+others {
		t.Errorf("%d results are exported, want %d", n, reasons+others)
	}
}
