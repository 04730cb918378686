package kubectl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestMetricsAreReadThroughTheProxyOfTheAPIServer uses a fake API server whose proxy reaches two processes and cannot
// reach a third.
func TestMetricsAreReadThroughTheProxyOfTheAPIServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/shop/pods/http:cc-0:7480/proxy/metrics":
			fmt.Fprintln(w, "# TYPE causalstore_coordinator_round_trip_seconds gauge")
			fmt.Fprintln(w, `causalstore_coordinator_round_trip_seconds{data_center="a",to_data_center="b"} 0.08`)
			fmt.Fprintln(w, `causalstore_coordinator_round_trip_seconds{data_center="a",to_data_center="c"} +Inf`)
		case "/api/v1/namespaces/shop/pods/http:cc-0:7481/proxy/metrics":
			fmt.Fprintln(w, "# TYPE causalstore_sidecar_gets_total counter\ncausalstore_sidecar_gets_total 3")
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"error trying to reach service: no route to host","reason":"ServiceUnavailable","code":503}`)
		}
	}))
	defer s.Close()
	k := &connection{config: &rest.Config{Host: s.URL}, namespace: "shop"}
	all, err := k.readAll(t.Context(), []process{{"shop", "cc-0", "a", 7480}, {"shop", "cc-0", "a", 7481},
		{"shop", "cc-1",
			"a", 7480}})
	if err != nil {
		t.Fatal(err)
	}
	trips := roundTrips{}
	trips.add("a", all[0].metrics)
	if got := trips.format("a", "b") + ", " + trips.format("a", "c") + ", " +
		trips.format("b", "a"); got != "80ms, no answer, -" {
		t.Errorf("round trips: %s", got)
	}
	if n := all[1].metrics.Sum(metricGets, nil); n != 3 {
		t.Errorf("%v gets", n)
	}
	if all[2].err == nil || !strings.Contains(all[2].err.Error(), "no route to host") {
		t.Errorf("the error of a process that cannot be reached is %v", all[2].err)
	}
}
